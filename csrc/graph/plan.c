/* plan.c: the table of plans: found without a lock, built once, and let go when there are too many.
 *
 * Buckets are lists that grow at the head, so a reader needs no lock: it sees the list before or after an insertion.
 * Threads that miss on the same key wait for the one that builds it; different keys are built at the same time. Beyond
 * TORCH_TPU_PLANS, or where executables are too many, a quarter is taken out, those not found for longest, and freed
 * with their executables once no call that may have found them is under way (epoch.c) and no window has them; programs
 * of windows go with their plans. XLA's CPU client maps three pieces of memory for each part of an executable, and a
 * process may have some 65,000: beyond them mmap fails, and what loads code dies of it. */
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include "graph/cache.h"
#include "graph/graph.h"
#include "hlo/foreign.h"
#include "pjrt/counters.h"

enum {
  BUCKETS = 1 << 16,
  PATIENCE = 32 /* plans built */,
  LARGEST_PART = 1 << 16 /* bytes: what is longer gains nothing by company */
};
static _Atomic(tt_plan *) buckets[BUCKETS];
static atomic_uint ever;         /* how many were built: the clock by which they grow old */
static int64_t n_plans, n_dropped; /* in the table; freed before their time. Under the lock */
static tt_plan *out;             /* taken out of it and not freed yet */
static uint64_t out_epoch;       /* when the last of them was */
static bool out_due;             /* to be looked at */
static unsigned looked;          /* `ever` when executables were last looked at */

/* Keys being built, each on its builder's stack. */
static struct building { const tt_call *call; struct building *next; } *building;
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t built = PTHREAD_COND_INITIALIZER;

const tt_plan *tt_plan_find(const tt_call *call) {
  for (tt_plan *p = atomic_load(&buckets[call->hash % BUCKETS]); p; p = atomic_load(&p->next))
    if (p->hash == call->hash && p->n_words == call->n_words &&
        !memcmp(p->words, call->words, call->n_words * sizeof *p->words)) {
      unsigned now = atomic_load_explicit(&ever, memory_order_relaxed);
      if (atomic_load_explicit(&p->used, memory_order_relaxed) != now)
        atomic_store_explicit(&p->used, now, memory_order_relaxed);
      tt_tally(cache_hits_plan, 1);
      return p;
    }
  return NULL;
}

static void insert(tt_plan *p) { /* under the lock */
  _Atomic(tt_plan *) *bucket = &buckets[p->hash % BUCKETS];
  atomic_init(&p->used, atomic_fetch_add(&ever, 1) + 1);
  atomic_init(&p->next, atomic_load(bucket));
  atomic_store(bucket, p);
  n_plans++;
}

static void plan_destroy(tt_plan *p) {
  tt_cache_drop(atomic_load(&p->executable));
  for (uint32_t i = 0; i < p->n_operands; i++)
    if (p->operands[i].source == FROM_CAPTURE) tt_storage_release(p->operands[i].capture);
  tt_arena arena = p->arena;
  tt_arena_deinit(&arena);
}

void tt_plans_clear(void) {
  for (int i = 0; i < BUCKETS; i++) {
    tt_plan *p = atomic_exchange(&buckets[i], NULL);
    while (p) {
      tt_plan *next = atomic_load(&p->next);
      plan_destroy(p);
      p = next;
    }
  }
  while (out) {
    tt_plan *p = out;
    out = p->next_out;
    plan_destroy(p);
  }
  n_plans = 0;
}

/* ---- letting go ---- */
static int by_age(const void *a, const void *b) {
  unsigned x = *(const unsigned *)a, y = *(const unsigned *)b;
  return (x > y) - (x < y);
}

/* Takes a quarter of the plans out of the table. Under the lock. */
static void take_out(void) {
  int64_t n = 0, quarter = n_plans / 4 + 1;
  unsigned *ages = tt_alloc((size_t)n_plans * sizeof *ages);
  if (!ages) return; /* next time */
  for (int i = 0; i < BUCKETS; i++)
    for (tt_plan *p = atomic_load(&buckets[i]); p; p = atomic_load(&p->next)) ages[n++] = atomic_load(&p->used);
  qsort(ages, (size_t)n, sizeof *ages, by_age);
  unsigned oldest = ages[quarter - 1], newest = atomic_load(&ever);
  tt_free(ages);
  for (int i = 0; i < BUCKETS && quarter; i++)
    for (_Atomic(tt_plan *) *at = &buckets[i]; atomic_load(at) && quarter;) {
      tt_plan *p = atomic_load(at);
      unsigned used = atomic_load(&p->used);
      if (used > oldest || used == newest) {
        at = &p->next;
        continue;
      }
      atomic_store(at, atomic_load(&p->next)); /* who is at p goes on from it */
      p->next_out = out;
      p->out = true;
      out = p;
      n_plans--;
      quarter--;
    }
  out_epoch = tt_epoch_next();
  out_due = true;
}

/* Of what was taken out, that which nobody can have any more, as a list to be freed without the lock. Under it. */
static tt_plan *take_dead(void) {
  tt_plan *dead = NULL;
  if (!out_due || !tt_epoch_passed(out_epoch)) return NULL;
  for (tt_plan *p = out; p; p = p->next_out) p->held = false;
  if (!tt_windows_let_go()) return NULL;
  for (tt_plan **at = &out; *at;) {
    tt_plan *p = *at;
    if (p->held) {
      at = &p->next_out;
      continue;
    }
    *at = p->next_out;
    p->next_out = dead;
    dead = p;
    n_dropped++;
  }
  out_due = false;
  return dead;
}

static int64_t said(const char *name) { /* 0: nothing */
  const char *text = tt_env(name);
  return text ? atoll(text) : 0;
}

/* How many pieces of memory the process has mapped, and may have; 0: not known. */
static int64_t maps_now(void) {
  FILE *f = fopen("/proc/self/maps", "r");
  char part[4096];
  int64_t lines = 0;
  for (size_t n; f && (n = fread(part, 1, sizeof part, f)) > 0;)
    for (size_t i = 0; i < n; i++) lines += part[i] == '\n';
  if (f) fclose(f);
  return lines;
}

static int64_t maps_most(void) {
  static int64_t most; /* under the lock */
  if (most) return most;
  FILE *f = fopen("/proc/sys/vm/max_map_count", "r");
  long long n;
  most = f && fscanf(f, "%lld", &n) == 1 && n > 0 ? n : 65530; /* Linux's default */
  if (f) fclose(f);
  return most;
}

/* Asked at each plan that is built; but loaded executables are looked at now and then: counting maps takes
 * milliseconds, and taking out plans does not help at once, nor where others hold what is too much. */
static bool too_many(void) {
  int64_t most = said("TORCH_TPU_PLANS"), loaded = said("TORCH_TPU_EXECUTABLES");
  if (most > 0 && n_plans > most) return true;
  if (atomic_load(&ever) - looked < PATIENCE || (loaded > 0 && tt_executables_live() <= loaded)) return false;
  looked = atomic_load(&ever);
  return loaded > 0 || maps_now() > maps_most() / 2;
}

void tt_plans_count(int64_t *kept, int64_t *dropped) {
  pthread_mutex_lock(&lock);
  *kept = n_plans;
  for (const tt_plan *p = out; p; p = p->next_out) ++*kept;
  *dropped = n_dropped;
  pthread_mutex_unlock(&lock);
}

/* ---- outputs: the bases they are kept in ---- */

/* Dims of the base and, where it is dense, its order: base dim i is the output's dim perm[i]. Else false: a flat base.
 */
static bool output_base(const tt_output *o, int64_t *dims, int *perm, int *rank) {
  if (tt_strides_dense(o->rank, o->sizes, o->strides, perm)) {
    *rank = o->rank;
    for (int i = 0; i < o->rank; i++) dims[i] = o->sizes[perm[i]];
    return true;
  }
  *rank = 1;
  dims[0] = tt_view_extent(o->rank, o->sizes, o->strides);
  return false;
}

hlo tt_output_to_base(hlo_module *m, const tt_output *o, hlo value) {
  int64_t dims[TT_MAX_RANK];
  int perm[TT_MAX_RANK], rank;
  if (output_base(o, dims, perm, &rank)) return hlo_transpose(m, value, perm);
  tt_view v = {o->dtype, o->rank, o->sizes, o->strides, 0};
  return tt_view_write(m, hlo_full(m, o->dtype, rank, dims, 0), &v, NULL, value);
}

static void *copy(tt_arena *a, const void *data, size_t bytes) {
  void *p = tt_arena_alloc(a, bytes ? bytes : 1);
  if (p && bytes) memcpy(p, data, bytes);
  return p;
}

static bool set_type(tt_arena *a, tt_type *type, uint8_t dtype, int rank, const int64_t *dims) {
  int64_t n = 1;
  for (int i = 0; i < rank; i++) n *= dims[i];
  *type =
      (tt_type){dtype, (uint8_t)rank, (n * tt_dtype_bits(dtype) + 7) / 8, copy(a, dims, (size_t)rank * sizeof *dims)};
  return type->dims != NULL;
}

/* ---- building ---- */

/* What the program gives back: outputs first, then the slots that were written. False if out of memory. */
static bool collect_results(tt_trace *t, tt_plan *p, const tt_output *outputs, int n_outputs, hlo *values, hlo *results,
                            int *donated_to) {
  tt_arena *a = &p->arena;
  for (uint32_t i = 0; i < t->n_operands; i++) donated_to[i] = -1;
  for (int k = 0; k < n_outputs; k++) {
    const tt_output *o = &outputs[k];
    p->outputs[k] = *o;
    if (!o->defined) continue;
    p->outputs[k].sizes = copy(a, o->sizes, o->rank * sizeof *o->sizes);
    p->outputs[k].strides = copy(a, o->strides, o->rank * sizeof *o->strides);
    hlo base = tt_output_to_base(t->m, o, values[k]);
    if (!p->outputs[k].sizes || !p->outputs[k].strides || !base) return false;
    if (p->shapes && t->call->grows) {
      base = tt_bucket_grown(t->call, o, &p->shapes[k]) ? tt_bucket_pad(t->m, &p->shapes[k], base) : NULL;
      if (!base) return false;
    }
    if (!set_type(a, &p->bases[k], base->dtype, base->rank, base->dims)) return false;
    p->types[p->n_results] = p->bases[k];
    p->destinations[p->n_results] = (tt_destination){false, (uint32_t)k};
    results[p->n_results++] = base;
  }
  for (uint32_t i = 0; i < t->call->n_slots; i++) {
    if (!t->slot_written[i]) continue;
    hlo v = t->slot_values[i];
    if (!set_type(a, &p->types[p->n_results], v->dtype, v->rank, v->dims)) return false;
    p->destinations[p->n_results] = (tt_destination){true, i};
    if (t->slot_operands[i] >= 0 && !t->n_requirements && !t->call->slots[i]->padded) {
      p->donate[t->slot_operands[i]] = true;
      donated_to[t->slot_operands[i]] = (int)p->n_results;
    }
    results[p->n_results++] = v;
  }
  if (!t->n_requirements) return true;
  p->n_requirements = t->n_requirements;
  p->requirements = tt_arena_alloc(a, t->n_requirements * sizeof *p->requirements);
  if (!p->requirements) return false;
  uint32_t n = 0;
  for (const tt_requirement *r = t->requirements; r; r = r->next) {
    const char *message = copy(a, r->message, strlen(r->message) + 1);
    if (!message) return false;
    p->requirements[n++] = (tt_requirement){.code = r->code, .message = message};
  }
  hlo said = tt_trace_requirements(t);
  if (!said || !set_type(a, &p->types[p->n_results], said->dtype, said->rank, said->dims)) return false;
  results[p->n_results++] = said;
  return true;
}

/* The program's text and what it is a part as; compiled, unless the call is only to be recorded. */
static void program_of(tt_trace *t, tt_plan *p, const hlo *results, const int *donated_to, tt_error *err) {
  size_t length;
  const char *text = hlo_function(t->m, (int)p->n_results, results, &length, err);
  /* windows look at no conditions, and have the client's options */
  bool alone = p->n_requirements || tt_options_owned();
  if (text && (length <= LARGEST_PART || t->call->variant->graph) && !alone) {
    p->function = copy(&p->arena, text, length);
    p->function_length = length;
    const hlo_foreign *const *used = hlo_foreign_used(t->m, &p->n_foreign);
    p->foreign = copy(&p->arena, used, p->n_foreign * sizeof *used);
    if (!p->foreign) p->function = NULL;
  }
  text = text ? hlo_finish(t->m, (int)p->n_results, results, donated_to, &length, err) : NULL;
  if (text && p->function && tt_get_mode() == TT_MODE_FUSE) {
    p->text = copy(&p->arena, text, length);
    p->text_length = length;
    if (!p->text) tt_no_memory(err, length);
  } else if (text) {
    atomic_store(&p->executable, tt_cache_get(t->call->client, text, length, err));
  }
}

tt_executable *tt_plan_executable(const tt_plan *p, tt_client *c, tt_error *err) {
  tt_executable *e = atomic_load_explicit(&p->executable, memory_order_acquire);
  if (e || !p->text) return e;
  tt_executable *made = tt_cache_get(c, p->text, p->text_length, err);
  if (!made || atomic_compare_exchange_strong(&((tt_plan *)p)->executable, &e, made)) return made;
  tt_cache_drop(made); /* another thread has brought it meanwhile */
  return e;
}

/* Bookkeeping of a trace that has been lowered; everything in the plan's own arena. */
static tt_plan *plan_of_trace(tt_trace *t, const tt_output *outputs, int n_outputs, hlo *values, tt_error *err) {
  const tt_call *call = t->call;
  tt_arena arena = {0};
  tt_plan *p = tt_arena_alloc(&arena, sizeof *p);
  if (!p) {
    tt_no_memory(err, sizeof *p);
    return NULL;
  }
  uint32_t most = (uint32_t)n_outputs + call->n_slots;
  p->hash = call->hash;
  p->n_words = call->n_words;
  p->n_outputs = (uint32_t)n_outputs;
  p->n_operands = t->n_operands;
  p->name = call->variant->name;
  p->uses_random = t->random != NULL;
  p->random_total = t->random_total;
  p->randoms_from_call = t->randoms_from_call;
  p->words = copy(&arena, call->words, call->n_words * sizeof *p->words);
  p->operands = copy(&arena, t->operands, t->n_operands * sizeof *p->operands);
  p->donate = tt_arena_alloc(&arena, t->n_operands + 1);
  p->types = tt_arena_alloc(&arena, (most + 1) * sizeof *p->types);
  p->destinations = tt_arena_alloc(&arena, (most + 1) * sizeof *p->destinations);
  p->outputs = tt_arena_alloc(&arena, ((size_t)n_outputs + 1) * sizeof *p->outputs);
  p->bases = tt_arena_alloc(&arena, ((size_t)n_outputs + 1) * sizeof *p->bases);
  if (call->grows) p->shapes = tt_arena_alloc(&arena, ((size_t)n_outputs + 1) * sizeof *p->shapes);
  if (call->n_symbols) p->shapes = copy(&arena, call->shapes, (size_t)n_outputs * sizeof *p->shapes);
  hlo *results = tt_arena_alloc(&arena, (most + 1) * sizeof *results);
  int *donated_to = tt_arena_alloc(&arena, (t->n_operands + 1) * sizeof *donated_to);
  bool made = (p->shapes || !(call->grows || call->n_symbols)) && p->words && p->operands && p->donate && p->types &&
              p->destinations && p->outputs && p->bases && results && donated_to;
  p->arena = arena; /* from here on allocations go there */
  if (!made || !collect_results(t, p, outputs, n_outputs, values, results, donated_to)) {
    hlo_get_error(t->m, err);
    if (!err->code) tt_no_memory(err, 0);
  } else if (p->n_results) {
    program_of(t, p, results, donated_to, err);
  } else {
    p->n_operands = 0; /* nothing to compute: nothing to bring */
  }
  if (err->code) {
    arena = p->arena;
    tt_arena_deinit(&arena);
    return NULL;
  }
  for (uint32_t i = 0; i < p->n_operands; i++)
    if (p->operands[i].source == FROM_CAPTURE) tt_storage_retain(p->operands[i].capture);
  return p;
}

static tt_plan *build(const tt_call *call, const tt_output *outputs, int n_outputs, tt_error *err) {
  tt_trace t;
  if (tt_trace_init(&t, call, err)) return NULL;
  tt_plan *p = NULL;
  hlo *values = hlo_alloc(t.m, ((size_t)n_outputs + 1) * sizeof *values);
  if (!values || !tt_bucket_begin(&t)) {
    hlo_get_error(t.m, err);
  } else if (!tt_lower_call(&t, t.call, outputs, n_outputs, values, err)) {
    if (call->flags & TT_CALL_NONFINITE) tt_trace_require_finite(&t, outputs, n_outputs, values);
    if (tt_bucket_check(&t, n_outputs, values)) p = plan_of_trace(&t, outputs, n_outputs, values, err);
    else hlo_get_error(t.m, err);
  }
  if (!p && !err->where[0]) strncpy(err->where, call->variant->name, sizeof err->where - 1);
  tt_trace_deinit(&t);
  return p;
}

static bool same_key(const tt_call *a, const tt_call *b) {
  return a->hash == b->hash && a->n_words == b->n_words && !memcmp(a->words, b->words, a->n_words * sizeof *a->words);
}

const tt_plan *tt_plan_build(const tt_call *call, const tt_output *outputs, int n_outputs, tt_error *err) {
  tt_error local;
  if (!err) err = &local;
  *err = (tt_error){0};
  pthread_mutex_lock(&lock);
  for (struct building *b = building; b;) {
    if (same_key(b->call, call)) {
      pthread_cond_wait(&built, &lock);
      b = building;
    } else {
      b = b->next;
    }
  }
  const tt_plan *known = tt_plan_find(call);
  struct building mine = {call, building};
  if (!known) building = &mine;
  pthread_mutex_unlock(&lock);
  if (known) return known;

  tt_cache_asker = call;
  tt_plan *p = build(call, outputs, n_outputs, err);
  tt_cache_asker = NULL;

  pthread_mutex_lock(&lock);
  struct building **at = &building;
  while (*at != &mine) at = &(*at)->next;
  *at = mine.next;
  if (p) insert(p);
  if (too_many()) take_out();
  tt_plan *dead = take_dead();
  pthread_cond_broadcast(&built);
  pthread_mutex_unlock(&lock);
  while (dead) {
    tt_plan *next = dead->next_out;
    plan_destroy(dead);
    dead = next;
  }
  return p;
}
