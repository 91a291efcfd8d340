/* fuse.c: a window that repeats becomes one executable.
 *
 * A plan keeps its program as a function, so a window's program needs no second lowering: main calls the functions of
 * the records that are needed, wired as they were recorded, and XLA inlines and fuses them. Numbers arrive packed,
 * vectors of each dtype, so a step with hundreds of them uploads a few buffers, or none where they are those of last
 * time. A storage that the window writes gives its old buffer to the program, and so does an input that nobody has any
 * more.
 *
 * When to compile. Nobody waits for a compile that executables in memory could replace: a window all of whose plans are
 * compiled runs by them at first, and its program is made in the background when it comes a second time. A window of
 * new plans is compiled at once: one compile is less than many. Operators that came in many shapes and never twice in
 * the same (a growing cache) are not fused again until one repeats. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include "base/base.h"
#include "graph/cache.h"
#include "graph/window.h"
#include "hlo/foreign.h"
#include "pjrt/counters.h"

enum { BUCKETS = 1024, SKELETONS = 1024, GROWING = 4, INLINE = 64 };
enum { PATIENCE = 1024 };          /* records of a window that is compiled while its caller waits */
enum { KEPT = 4096, SEEN_KEPT = 512 }; /* windows ago: programs and mere sightings that old are forgotten */

typedef enum tt_state { SEEN, QUEUED, READY, HOPELESS } tt_state;

typedef struct tt_out { uint32_t value, origin; } tt_out;
typedef struct tt_place { uint32_t pack, at; } tt_place; /* of a number: element `at` of a pack */
typedef struct tt_pack {
  uint8_t dtype;
  uint32_t count;
  size_t at;
  tt_buffer *last;
  tt_type type;
  int64_t dims[1];
} tt_pack;

struct tt_program {
  tt_program *next;
  uint64_t hash, used;       /* used: which window was the last to ask for it */
  tt_client *client;
  /* The window it stands for. */
  uint32_t n_records, n_wires, n_outs;
  const tt_plan **plans;
  uint32_t *wires;
  tt_out *outs;
  /* How it is run. */
  _Atomic int state;
  _Atomic(tt_executable *) executable;
  const char *text;
  size_t text_length;
  const char *name;          /* kept for ever: failures that come late bear it */
  uint32_t n_parameters, n_results, n_packs;
  uint32_t *inputs;          /* the value of each parameter; NO_VALUE: a pack */
  bool *donate;
  tt_type *types;
  uint32_t *results;         /* the value of each result */
  tt_pack *packs;
  tt_place *places;          /* of each number; pack NO_VALUE: its record is not needed */
  char *staging, *uploaded;  /* what the packs hold, now and last time */
  size_t staging_size;
  tt_arena arena;
  tt_program *next_queued;
};

static tt_program *buckets[BUCKETS];
/* windows of the same operators in any shapes */
typedef struct tt_skeleton { uint64_t hash; uint32_t keys, repeats; } tt_skeleton;
static tt_skeleton skeletons[SKELETONS];
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER; /* of the tables and of the queue; held for moments */

static uint64_t asked; /* windows so far; under the lock */

static uint32_t number_width(const tt_operand *o) { /* elements of its dtype */
  return o->source == FROM_RANDOM ? 2 : 1;
}

/* ---- the table ---- */
/* What is wanted of the window, in the order of its pending storages. False: out of memory. */
static uint32_t wanted(const tt_window *w, tt_out *outs) {
  uint32_t n = 0;
  for (uint32_t i = 0; i < w->pending.n; i++) {
    const tt_pending *p = &w->pending.at[i];
    if (p->alive) outs[n++] = (tt_out){p->value, p->origin};
  }
  return n;
}

static bool same(const tt_program *p, const tt_window *w, uint64_t hash, const tt_out *outs, uint32_t n_outs) {
  if (p->hash != hash || p->client != w->client || p->n_records != w->records.n || p->n_wires != w->wires.n ||
      p->n_outs != n_outs || memcmp(p->wires, w->wires.at, p->n_wires * sizeof *p->wires) ||
      memcmp(p->outs, outs, n_outs * sizeof *outs))
    return false;
  for (uint32_t i = 0; i < p->n_records; i++)
    if (p->plans[i] != w->records.at[i].plan) return false;
  return true;
}

static void *keep(tt_arena *a, const void *data, size_t bytes) {
  void *p = tt_arena_alloc(a, bytes ? bytes : 1);
  if (p && data && bytes) memcpy(p, data, bytes);
  return p;
}

static void forget(tt_pack *k) {
  tt_count_kept(k->last, -1);
  tt_buffer_release(k->last);
  k->last = NULL;
}

static void program_destroy(tt_program *p) {
  for (uint32_t i = 0; i < p->n_packs; i++) forget(&p->packs[i]);
  tt_cache_drop(atomic_load(&p->executable));
  tt_arena arena = p->arena;
  tt_arena_deinit(&arena);
}

static tt_program *program_create(const tt_window *w, uint64_t hash, const tt_out *outs, uint32_t n_outs) {
  tt_arena arena = {0};
  tt_program *p = tt_arena_alloc(&arena, sizeof *p);
  if (!p) return NULL;
  *p = (tt_program){
      .hash = hash, .client = w->client, .n_records = w->records.n, .n_wires = w->wires.n, .n_outs = n_outs};
  p->plans = keep(&arena, NULL, w->records.n * sizeof *p->plans);
  p->wires = keep(&arena, w->wires.at, w->wires.n * sizeof *p->wires);
  p->outs = keep(&arena, outs, n_outs * sizeof *outs);
  bool made = p->plans && p->wires && p->outs;
  for (uint32_t i = 0; made && i < w->records.n; i++) p->plans[i] = w->records.at[i].plan;
  p->arena = arena;
  if (made) return p;
  program_destroy(p);
  return NULL;
}

/* Forgets what has not been asked for in a long time. Under the lock. */
static void forget_old(void) {
  for (int i = 0; i < BUCKETS; i++)
    for (tt_program **at = &buckets[i]; *at;) {
      tt_program *p = *at;
      int state = atomic_load(&p->state);
      if (state == QUEUED || asked - p->used < (state == READY ? KEPT : SEEN_KEPT)) {
        at = &p->next;
        continue;
      }
      *at = p->next;
      program_destroy(p);
    }
}

/* The text, for ever: there are as many as there are operators to begin with and numbers of them. */
static const char *label(const char *text) {
  static struct known { struct known *next; char text[96]; } *all;
  static pthread_mutex_t own = PTHREAD_MUTEX_INITIALIZER;
  pthread_mutex_lock(&own);
  struct known *k = all;
  while (k && strcmp(k->text, text)) k = k->next;
  if (!k && (k = malloc(sizeof *k))) {
    snprintf(k->text, sizeof k->text, "%s", text);
    k->next = all;
    all = k;
  }
  pthread_mutex_unlock(&own);
  return k ? k->text : "a window";
}

/* ---- text ---- */
typedef struct tt_part { const tt_plan *plan; int function; struct tt_part *next; } tt_part;
enum { PARTS = 256 };

typedef struct tt_builder {
  hlo_module *m;
  tt_program *p;
  const tt_window *w;
  hlo *values, *packs;
  tt_part *parts[PARTS];
} tt_builder;

static int function_of(tt_builder *b, const tt_plan *plan) {
  tt_part **at = &b->parts[(uintptr_t)plan / 64 % PARTS];
  for (tt_part *k = *at; k; k = k->next)
    if (k->plan == plan) return k->function;
  tt_part *k = hlo_alloc(b->m, sizeof *k);
  if (!k) return 0;
  *k = (tt_part){plan, hlo_add_function(b->m, plan->function, plan->function_length), *at};
  *at = k;
  for (uint32_t i = 0; i < plan->n_foreign; i++) hlo_use_foreign(b->m, plan->foreign[i]);
  return k->function;
}

/* XLA's CPU executor runs a program in one thread if none of its buffers is larger than 512 bytes, where handing small
 * steps from thread to thread costs more than they do: so a pack is not larger where no value is. */
enum { SMALL = 512 };
static size_t most_of_pack(const tt_window *w) {
  for (uint32_t i = 0; i < w->values.n; i++) {
    const tt_value *v = &w->values.at[i];
    if ((v->type ? (size_t)v->type->bytes : v->buffer ? tt_buffer_bytes(v->buffer) : 0) > SMALL) return SIZE_MAX;
  }
  return SMALL;
}

/* Where each number goes. */
static bool plan_packs(tt_builder *b) {
  tt_program *p = b->p;
  const tt_window *w = b->w;
  size_t most = most_of_pack(w);
  tt_pack *open[TT_DTYPES] = {0};
  p->places = tt_arena_alloc(&p->arena, (w->numbers.n + 1) * sizeof *p->places);
  p->packs = tt_arena_alloc(&p->arena, (w->numbers.n + 1) * sizeof *p->packs);
  if (!p->places || !p->packs) return false;
  for (uint32_t r = 0; r < w->records.n; r++) {
    const tt_record *record = &w->records.at[r];
    uint32_t number = record->numbers;
    for (uint32_t i = 0; i < record->plan->n_operands; i++) {
      const tt_operand *o = &record->plan->operands[i];
      if (tt_operand_is_value(o)) continue;
      tt_pack **k = &open[o->dtype];
      uint32_t width = number_width(o);
      if (record->needed && (!*k || ((*k)->count + width) * (size_t)tt_dtype_bits((tt_dtype)o->dtype) / 8 > most)) {
        *k = &p->packs[p->n_packs++];
        **k = (tt_pack){.dtype = o->dtype};
      }
      p->places[number++] = record->needed ? (tt_place){(uint32_t)(*k - p->packs), (*k)->count} : (tt_place){NO_VALUE, 0};
      if (record->needed) (*k)->count += width;
    }
  }
  for (uint32_t i = 0; i < p->n_packs; i++) {
    tt_pack *k = &p->packs[i];
    k->at = p->staging_size;
    k->dims[0] = k->count;
    k->type = (tt_type){k->dtype, 1, (int64_t)k->count * tt_dtype_bits(k->dtype) / 8, k->dims};
    p->staging_size += ((size_t)k->type.bytes + 15) & ~(size_t)15;
  }
  p->staging = tt_arena_alloc(&p->arena, p->staging_size + 1);
  p->uploaded = tt_arena_alloc(&p->arena, p->staging_size + 1);
  return p->staging && p->uploaded;
}

static hlo parameter(tt_builder *b, tt_dtype dtype, int rank, const int64_t *dims, uint32_t value) {
  tt_program *p = b->p;
  hlo v = hlo_parameter(b->m, dtype, rank, dims);
  if (v) p->inputs[p->n_parameters++] = value;
  return v;
}

static hlo value_of(tt_builder *b, uint32_t id) {
  if (b->values[id]) return b->values[id];
  const tt_buffer *in = b->w->values.at[id].buffer;
  if (!in) return hlo_fail(b->m, TT_INTERNAL, "a value of the window is read before it is made");
  return b->values[id] = parameter(b, tt_buffer_dtype(in), tt_buffer_rank(in), tt_buffer_dims(in), id);
}

static hlo number_of(tt_builder *b, const tt_operand *o, uint32_t number) {
  tt_place place = b->p->places[number];
  int64_t start = place.at, limit = start + number_width(o);
  hlo v = hlo_slice(b->m, b->packs[place.pack], &start, &limit, NULL);
  return o->source == FROM_RANDOM ? v : hlo_reshape(b->m, v, 0, NULL);
}

static void build_record(tt_builder *b, const tt_record *r) {
  const tt_plan *plan = r->plan;
  hlo *args = hlo_alloc(b->m, (plan->n_operands + 1) * sizeof *args);
  hlo_type *types = hlo_alloc(b->m, (plan->n_results + 1) * sizeof *types);
  if (!args || !types) return;
  uint32_t wire = r->wires, number = r->numbers;
  for (uint32_t i = 0; i < plan->n_operands; i++)
    args[i] = tt_operand_is_value(&plan->operands[i]) ? value_of(b, b->w->wires.at[wire++])
                                           : number_of(b, &plan->operands[i], number++);
  for (uint32_t i = 0; i < plan->n_results; i++)
    types[i] = (hlo_type){(tt_dtype)plan->types[i].dtype, plan->types[i].rank, plan->types[i].dims};
  hlo_call(b->m, function_of(b, plan), (int)plan->n_operands, args, (int)plan->n_results, types,
           b->values + r->first_result);
}

/* The parameter whose memory the result takes: what its storage was, unless another storage stands for that now. */
static uint32_t giver(const tt_builder *b, const tt_out *out, const int *donated_to) {
  const tt_program *p = b->p;
  uint32_t q = 0;
  if (out->origin == NO_VALUE) return NO_VALUE;
  for (uint32_t i = 0; i < p->n_outs; i++)
    if (p->outs[i].value == out->origin) return NO_VALUE;
  while (q < p->n_parameters && p->inputs[q] != out->origin) q++;
  if (q == p->n_parameters || donated_to[q] >= 0) return NO_VALUE;
  hlo from = b->values[out->origin], to = b->values[out->value];
  return from->dtype == to->dtype && hlo_same_dims(from, to) ? q : NO_VALUE;
}

/* Else that of an input of the same type that nobody but the window has by now. (Where that is otherwise in a later
 * window of the kind, the plugin keeps the input and copies.) */
static uint32_t spare(const tt_builder *b, uint32_t value, const int *donated_to) {
  const tt_program *p = b->p;
  for (uint32_t q = 0; q < p->n_parameters; q++) {
    uint32_t id = p->inputs[q], i = 0;
    if (id == NO_VALUE || donated_to[q] >= 0 || !tt_buffer_unique(b->w->values.at[id].buffer)) continue;
    if (b->values[id]->dtype != b->values[value]->dtype || !hlo_same_dims(b->values[id], b->values[value])) continue;
    while (i < p->n_outs && p->outs[i].value != id) i++;
    if (i == p->n_outs) return q;
  }
  return NO_VALUE;
}

static bool build(tt_builder *b, tt_error *err) {
  tt_program *p = b->p;
  const tt_window *w = b->w;
  hlo *results = hlo_alloc(b->m, (p->n_outs + 1) * sizeof *results);
  if (!plan_packs(b)) return false;
  uint32_t most = w->values.n + p->n_packs + 1; /* parameters */
  int *donated_to = hlo_alloc(b->m, most * sizeof *donated_to);
  p->inputs = tt_arena_alloc(&p->arena, most * sizeof *p->inputs);
  p->results = tt_arena_alloc(&p->arena, (p->n_outs + 1) * sizeof *p->results);
  p->types = tt_arena_alloc(&p->arena, (p->n_outs + 1) * sizeof *p->types);
  p->donate = tt_arena_alloc(&p->arena, most);
  b->packs = hlo_alloc(b->m, (p->n_packs + 1) * sizeof *b->packs);
  b->values = hlo_alloc(b->m, (w->values.n + 1) * sizeof *b->values);
  if (!results || !donated_to || !p->inputs || !p->results || !p->types || !p->donate || !b->values || !b->packs)
    return false;
  for (uint32_t i = 0; i < p->n_packs; i++)
    b->packs[i] = parameter(b, p->packs[i].dtype, 1, p->packs[i].dims, NO_VALUE);
  uint32_t needed = 0;
  const char *first = "";
  for (uint32_t r = 0; r < w->records.n; r++) {
    if (!w->records.at[r].needed) continue;
    if (!needed++) first = w->records.at[r].plan->name;
    build_record(b, &w->records.at[r]);
  }
  char name[96];
  snprintf(name, sizeof name, "%u operators from %s on", needed, first);
  p->name = label(name);
  for (uint32_t i = 0; i < most; i++) donated_to[i] = -1;
  for (uint32_t i = 0; i < p->n_outs; i++) {
    uint32_t id = p->outs[i].value, k = 0;
    const tt_type *type = w->values.at[id].type;
    if (!type) continue; /* an input, shared */
    while (k < p->n_results && p->results[k] != id) k++;
    if (k < p->n_results) continue; /* two storages of one value */
    p->results[k] = id;
    p->types[k] =
        (tt_type){type->dtype, type->rank, type->bytes, keep(&p->arena, type->dims, type->rank * sizeof *type->dims)};
    results[p->n_results++] = b->values[id];
    if (!p->types[k].dims) return false;
    uint32_t q = giver(b, &p->outs[i], donated_to);
    if (q == NO_VALUE) q = spare(b, id, donated_to);
    if (q == NO_VALUE) continue;
    donated_to[q] = (int)k;
    p->donate[q] = true;
  }
  size_t length;
  const char *text = hlo_finish(b->m, (int)p->n_results, results, donated_to, &length, err);
  if (!text || !(p->text = keep(&p->arena, text, length))) return false;
  p->text_length = length;
  return true;
}

static bool program_write(tt_program *p, const tt_window *w, tt_error *err) {
  tt_builder b = {.m = hlo_module_create(err), .p = p, .w = w};
  if (!b.m) return false;
  bool good = build(&b, err);
  if (!good) hlo_get_error(b.m, err);
  hlo_module_destroy(b.m);
  return good;
}

/* ---- compiling ---- */
static tt_program *queue, **queue_end = &queue, *compiling;
static pthread_cond_t queued = PTHREAD_COND_INITIALIZER, idle = PTHREAD_COND_INITIALIZER;
static bool working, stopped;

static void compile(tt_program *p, tt_error *err) {
  tt_executable *e = tt_cache_get(p->client, p->text, p->text_length, err);
  atomic_store(&p->executable, e);
  atomic_store(&p->state, e ? READY : HOPELESS);
  if (!e) tt_log("a window of %s was not compiled: %s", p->name, err->message);
}

static void *work(void *unused) {
  (void)unused;
  pthread_mutex_lock(&lock);
  for (;;) {
    while (!queue) {
      pthread_cond_broadcast(&idle);
      pthread_cond_wait(&queued, &lock);
    }
    compiling = queue;
    if (!(queue = compiling->next_queued)) queue_end = &queue;
    pthread_mutex_unlock(&lock);
    tt_error err = {0};
    compile(compiling, &err);
    pthread_mutex_lock(&lock);
    compiling = NULL;
  }
  return NULL;
}

/* A process that ends does not wait for a compile, which may take minutes, nor may the plugin's destructors run under
 * one: from here it goes at once. Registered when the plugin is loaded, so this runs before they do, and after Python
 * is finalized. */
static void leave(int status, void *unused) {
  (void)unused;
  if (tt_forked()) return;
  pthread_mutex_lock(&lock);
  bool busy = compiling != NULL;
  pthread_mutex_unlock(&lock);
  if (!busy) return;
  fflush(NULL);
  _exit(status);
}

static bool compile_later(tt_program *p) { /* under the lock */
  if (stopped || tt_forked()) return false;
  pthread_t thread;
  if (!working && (on_exit(leave, NULL) || pthread_create(&thread, NULL, work, NULL))) return false;
  if (!working) pthread_detach(thread);
  working = true;
  p->next_queued = NULL;
  *queue_end = p;
  queue_end = &p->next_queued;
  pthread_cond_signal(&queued);
  return true;
}

void tt_fuse_wait(bool stop) {
  pthread_mutex_lock(&lock);
  if (stop) {
    stopped = true;
    queue = NULL;
    queue_end = &queue;
  }
  while (!stop && (queue || compiling)) pthread_cond_wait(&idle, &lock);
  pthread_mutex_unlock(&lock);
}

/* ---- the decision ---- */
static bool all_compiled(const tt_window *w) {
  for (uint32_t r = 0; r < w->records.n; r++) {
    const tt_record *record = &w->records.at[r];
    if (record->needed && record->plan->n_results &&
        !atomic_load_explicit(&record->plan->executable, memory_order_relaxed))
      return false;
  }
  return true;
}

static uint32_t needed_records(const tt_window *w) {
  uint32_t n = 0;
  for (uint32_t r = 0; r < w->records.n; r++) n += w->records.at[r].needed;
  return n;
}

tt_program *tt_program_for(tt_window *w, bool passing) {
  uint32_t needed = needed_records(w);
  if (needed < 2) return NULL;
  tt_out few[256], *outs = w->pending.n > 256 ? tt_alloc(w->pending.n * sizeof *outs) : few;
  if (!outs) return NULL;
  uint32_t n_outs = wanted(w, outs);
  uint64_t hash = w->hash;
  for (uint32_t i = 0; i < n_outs; i++) hash = (hash ^ outs[i].value) * 0x9E3779B97F4A7C15ull, hash ^= hash >> 29;
  pthread_mutex_lock(&lock);
  if (++asked % SEEN_KEPT == 0) forget_old();
  tt_program *p = buckets[hash % BUCKETS];
  while (p && !same(p, w, hash, outs, n_outs)) p = p->next;
  bool fresh = !p, growing = false;
  tt_skeleton *k = &skeletons[w->skeleton % SKELETONS];
  if (k->hash != w->skeleton) *k = (tt_skeleton){.hash = w->skeleton};
  if (fresh) {
    growing = ++k->keys > GROWING && !k->repeats;
    if ((p = program_create(w, hash, outs, n_outs))) {
      p->next = buckets[hash % BUCKETS];
      buckets[hash % BUCKETS] = p;
    }
  } else {
    k->repeats++;
  }
  if (p) p->used = asked;
  pthread_mutex_unlock(&lock);
  if (outs != few) tt_free(outs);
  if (!p) return NULL;
  int state = atomic_load(&p->state);
  if (state == READY) return p;
  if (state != SEEN || growing || (fresh && (passing || needed > PATIENCE || all_compiled(w)))) return NULL;
  tt_error err = {0};
  if (!program_write(p, w, &err)) {
    atomic_store(&p->state, HOPELESS);
    tt_log("a window was not written: %s", err.message);
    return NULL;
  }
  atomic_store(&p->state, QUEUED);
  if (needed > PATIENCE || (!fresh && all_compiled(w))) {
    pthread_mutex_lock(&lock);
    bool later = compile_later(p);
    pthread_mutex_unlock(&lock);
    if (later) return NULL;
  }
  compile(p, &err);
  return atomic_load(&p->state) == READY ? p : NULL;
}

/* ---- running ---- */
static void fill_packs(tt_program *p, const tt_window *w) {
  for (uint32_t r = 0; r < w->records.n; r++) {
    const tt_record *record = &w->records.at[r];
    uint32_t number = record->numbers;
    if (!record->needed) continue;
    for (uint32_t i = 0; i < record->plan->n_operands; i++) {
      const tt_operand *o = &record->plan->operands[i];
      if (tt_operand_is_value(o)) continue;
      tt_place place = p->places[number];
      size_t width = tt_dtype_bits(o->dtype) / 8;
      memcpy(p->staging + p->packs[place.pack].at + place.at * width, w->numbers.at[number].bits,
             width * number_width(o));
      number++;
    }
  }
}

/* The pack as a buffer: last time's if it says the same. New. */
static tt_buffer *pack_buffer(tt_program *p, tt_pack *k, const tt_window *w, tt_error *err) {
  size_t bytes = (size_t)k->type.bytes;
  if (!k->last || memcmp(p->staging + k->at, p->uploaded + k->at, bytes)) {
    tt_buffer *b = tt_buffer_from_host(w->client, w->device, k->dtype, 1, k->dims, p->staging + k->at, err);
    if (!b) return NULL;
    forget(k);
    tt_count_kept(k->last = b, 1);
    memcpy(p->uploaded + k->at, p->staging + k->at, bytes);
  }
  return tt_buffer_retain(k->last);
}

tt_code tt_program_run(tt_program *p, tt_window *w, tt_error *err) {
  size_t n = p->n_parameters + p->n_results;
  tt_buffer *few[INLINE], **args = n > INLINE ? tt_alloc(n * sizeof *args) : few;
  if (!args) return tt_no_memory(err, n * sizeof *args);
  tt_buffer **outs = args + p->n_parameters;
  uint32_t bound = 0, pack = 0;
  fill_packs(p, w);
  for (; bound < p->n_parameters; bound++) {
    uint32_t id = p->inputs[bound];
    tt_buffer **own = id == NO_VALUE ? NULL : &w->values.at[id].buffer;
    args[bound] = own ? *own : pack_buffer(p, &p->packs[pack++], w, err);
    if (!args[bound]) break;
    if (own && !p->donate[bound]) tt_buffer_retain(args[bound]);
    else if (own) *own = NULL;
  }
  tt_code code = bound < p->n_parameters ? err->code
                 : tt_executable_run(atomic_load(&p->executable), w->device, p->name, (int)bound, args, p->donate,
                                     (int)p->n_results, p->types, outs, err);
  for (uint32_t i = 0; i < bound; i++) {
    if (code && p->donate[i] && p->inputs[i] != NO_VALUE) w->values.at[p->inputs[i]].buffer = args[i]; /* not taken */
    else tt_buffer_release(args[i]);
  }
  for (uint32_t k = 0; k < p->n_results && !code; k++) w->values.at[p->results[k]].buffer = outs[k];
  if (!code) tt_tally(executions, 1);
  if (args != few) tt_free(args);
  return code;
}

/* Calls that are recorded find their plans, so a program one of whose plans was not found for long was not run for as
 * long. */
void tt_programs_let_go(void) {
  pthread_mutex_lock(&lock);
  for (int i = 0; i < BUCKETS; i++)
    for (tt_program **at = &buckets[i]; *at;) {
      tt_program *p = *at;
      bool stale = false;
      for (uint32_t r = 0; r < p->n_records; r++) stale |= p->plans[r]->out && !p->plans[r]->held;
      if (stale && atomic_load(&p->state) == QUEUED) { /* being compiled */
        for (uint32_t r = 0; r < p->n_records; r++) ((tt_plan *)p->plans[r])->held = true;
        stale = false;
      }
      if (!stale) {
        at = &p->next;
        continue;
      }
      *at = p->next;
      program_destroy(p);
    }
  pthread_mutex_unlock(&lock);
}

void tt_programs_clear(void) {
  tt_fuse_wait(false);
  pthread_mutex_lock(&lock);
  for (int i = 0; i < BUCKETS; i++)
    while (buckets[i]) {
      tt_program *next = buckets[i]->next;
      program_destroy(buckets[i]);
      buckets[i] = next;
    }
  memset(skeletons, 0, sizeof skeletons);
  pthread_mutex_unlock(&lock);
}
