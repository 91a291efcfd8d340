/* fake_pjrt.c: a PJRT plugin for tests: two devices, no compiler, and no patience with misuse.
 *
 * A program is its text: result i is the sum of those operands that have its type (float32, else bytes), or bytes of
 * i + 1 if there are none. Device memory cannot be read or written outside of transfers and executions, and is followed
 * by sentinels that are checked when it is freed. Work can be queued, slowed, reordered and made to fail, on demand.
 * The environment gives what has to be known at the start: FAKE_PJRT_SHORT=1 shows a table that ends early, as an old
 * plugin's; FAKE_PJRT_PLATFORM names the platform, "fake" if unset. Refuses to be fast. */
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>
#include "fake_pjrt.h"
#include "pjrt_c_api.h"

#define SHOWN __attribute__((visibility("default")))
SHOWN struct fake_control fake_control;
#define control fake_control
enum { DEVICES = 2, SENTINEL = 0xa5, MOST = 128 };

static void broken(const char *what) {
  fprintf(stderr, "fake plugin: %s\n", what);
  atomic_fetch_add(&control.broken, 1);
}
static void *make(size_t bytes) {
  void *p = calloc(1, bytes);
  if (!p) abort(); /* a fake may */
  atomic_fetch_add(&control.live, 1);
  return p;
}
static void unmake(void *p) {
  atomic_fetch_sub(&control.live, 1);
  free(p);
}
static bool take(atomic_int *n) { /* one of n that are to fail */
  int have = atomic_load(n);
  while (have > 0 && !atomic_compare_exchange_weak(n, &have, have - 1)) {}
  return have > 0;
}

/* ---- errors ---- */
struct PJRT_Error { PJRT_Error_Code code; const char *message; };
static PJRT_Error *fail(PJRT_Error_Code code, const char *message) {
  if (!code) return NULL;
  PJRT_Error *e = make(sizeof *e);
  *e = (PJRT_Error){code, message};
  return e;
}
#define SIZED(a, T)                                                                                                    \
  if ((a)->struct_size < T##_STRUCT_SIZE)                                                                              \
  return fail(PJRT_Error_Code_INVALID_ARGUMENT, "struct_size of " #T " is too small")
static void error_destroy(PJRT_Error_Destroy_Args *a) { if (a->error) unmake(a->error); }
static void error_message(PJRT_Error_Message_Args *a) {
  a->message = a->error->message;
  a->message_size = strlen(a->message);
}
static PJRT_Error *error_code(PJRT_Error_GetCode_Args *a) {
  a->code = a->error->code;
  return NULL;
}

/* ---- events: shared by whoever waits and whoever signals ---- */
struct PJRT_Event {
  pthread_mutex_t lock;
  pthread_cond_t cond;
  int refs;
  bool done;
  PJRT_Error_Code code;
  const char *message;
  struct callback { PJRT_Event_OnReadyCallback run; void *arg; struct callback *next; } *callbacks;
};
static PJRT_Event *event_new(int refs) {
  PJRT_Event *e = make(sizeof *e);
  pthread_mutex_init(&e->lock, NULL);
  pthread_cond_init(&e->cond, NULL);
  e->refs = refs;
  return e;
}
static PJRT_Event *event_retain(PJRT_Event *e) {
  pthread_mutex_lock(&e->lock);
  e->refs++;
  pthread_mutex_unlock(&e->lock);
  return e;
}
static void event_unref(PJRT_Event *e) {
  pthread_mutex_lock(&e->lock);
  bool last = --e->refs == 0;
  pthread_mutex_unlock(&e->lock);
  if (!last) return;
  pthread_mutex_destroy(&e->lock);
  pthread_cond_destroy(&e->cond);
  unmake(e);
}
static void event_set(PJRT_Event *e, PJRT_Error_Code code, const char *message) {
  pthread_mutex_lock(&e->lock);
  e->done = true;
  e->code = code;
  e->message = message;
  struct callback *c = e->callbacks;
  e->callbacks = NULL;
  pthread_cond_broadcast(&e->cond);
  pthread_mutex_unlock(&e->lock);
  for (struct callback *next; c; c = next) {
    next = c->next;
    c->run(fail(code, message), c->arg);
    free(c);
  }
}
static void event_wait(PJRT_Event *e) {
  pthread_mutex_lock(&e->lock);
  while (!e->done) pthread_cond_wait(&e->cond, &e->lock);
  pthread_mutex_unlock(&e->lock);
}
static PJRT_Error *event_destroy(PJRT_Event_Destroy_Args *a) {
  if (a->event) event_unref(a->event);
  return NULL;
}
static PJRT_Error *event_is_ready(PJRT_Event_IsReady_Args *a) {
  SIZED(a, PJRT_Event_IsReady_Args);
  pthread_mutex_lock(&a->event->lock);
  a->is_ready = a->event->done;
  pthread_mutex_unlock(&a->event->lock);
  return NULL;
}
static PJRT_Error *event_error(PJRT_Event_Error_Args *a) {
  pthread_mutex_lock(&a->event->lock);
  if (!a->event->done) broken("the error of an event that is not ready was asked for");
  PJRT_Error *e = fail(a->event->code, a->event->message);
  pthread_mutex_unlock(&a->event->lock);
  return e;
}
static PJRT_Error *event_await(PJRT_Event_Await_Args *a) {
  event_wait(a->event);
  return fail(a->event->code, a->event->message);
}
static PJRT_Error *event_on_ready(PJRT_Event_OnReady_Args *a) {
  PJRT_Event *e = event_retain(a->event);
  pthread_mutex_lock(&e->lock);
  bool now = e->done;
  if (!now) {
    struct callback *c = calloc(1, sizeof *c);
    if (!c) abort();
    *c = (struct callback){a->callback, a->user_arg, e->callbacks};
    e->callbacks = c;
  }
  pthread_mutex_unlock(&e->lock);
  if (now) a->callback(fail(e->code, e->message), a->user_arg);
  event_unref(e);
  return NULL;
}

/* ---- memory: closed but while somebody transfers ---- */
struct memory { pthread_mutex_t lock; int refs, open; unsigned char *bytes; size_t size, room; };
static struct memory *memory_new(size_t size) {
  struct memory *m = make(sizeof *m);
  size_t page = (size_t)sysconf(_SC_PAGESIZE);
  pthread_mutex_init(&m->lock, NULL);
  m->refs = 1;
  m->size = size;
  m->room = (size / page + 1) * page;
  m->bytes = mmap(NULL, m->room, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (m->bytes == MAP_FAILED) abort();
  memset(m->bytes, SENTINEL, m->room); /* what was never written shows */
  mprotect(m->bytes, m->room, PROT_NONE);
  return m;
}
static unsigned char *memory_open(struct memory *m) {
  pthread_mutex_lock(&m->lock);
  if (!m->open++) mprotect(m->bytes, m->room, PROT_READ | PROT_WRITE);
  pthread_mutex_unlock(&m->lock);
  return m->bytes;
}
static void memory_close(struct memory *m) {
  pthread_mutex_lock(&m->lock);
  if (!--m->open) mprotect(m->bytes, m->room, PROT_NONE);
  pthread_mutex_unlock(&m->lock);
}
static struct memory *memory_retain(struct memory *m) {
  pthread_mutex_lock(&m->lock);
  m->refs++;
  pthread_mutex_unlock(&m->lock);
  return m;
}
static void memory_release(struct memory *m) {
  pthread_mutex_lock(&m->lock);
  bool last = --m->refs == 0;
  pthread_mutex_unlock(&m->lock);
  if (!last) return;
  unsigned char *p = memory_open(m);
  for (size_t i = m->size; i < m->room; i++)
    if (p[i] != SENTINEL) {
      broken("bytes behind a buffer were overwritten");
      break;
    }
  munmap(m->bytes, m->room);
  pthread_mutex_destroy(&m->lock);
  unmake(m);
}

/* ---- types and programs ---- */
struct type { char name[24]; size_t bytes; };
struct program { int n_args, n_results; struct type args[MOST], results[MOST]; bool donated[MOST]; };
struct PJRT_Executable { atomic_int refs; char *text; size_t length; struct program program; };
struct PJRT_LoadedExecutable { PJRT_Client *client; PJRT_Executable *executable; };

static size_t width(const char *element) {
  if (strstr(element, "complex<f64>")) return 16;
  if (strstr(element, "complex<f32>") || strstr(element, "64")) return 8;
  if (strstr(element, "32")) return 4;
  if (strstr(element, "16")) return 2;
  return 1;
}

/* Reads one "tensor<2x3xf32>" behind *p. */
static bool read_type(const char **p, const char *end, struct type *t) {
  const char *s = strstr(*p, "tensor<");
  if (!s || s >= end) return false;
  s += 7;
  size_t n = 1;
  for (char *rest; *s >= '0' && *s <= '9'; s = rest + (*rest == 'x')) n *= (size_t)strtoul(s, &rest, 10);
  size_t i = 0;
  for (int depth = 0; *s && (*s != '>' || depth) && i + 1 < sizeof t->name; s++) {
    depth += *s == '<' ? 1 : *s == '>' ? -1 : 0;
    t->name[i++] = *s;
  }
  t->name[i] = 0;
  t->bytes = n * width(t->name);
  *p = s;
  return true;
}

static bool parse(const char *text, struct program *out) {
  memset(out, 0, sizeof *out);
  const char *p = strstr(text, "@main("), *arrow = p ? strstr(p, "->") : NULL,
             *body = arrow ? strchr(arrow, '\n') : NULL;
  if (!arrow) return false;
  if (!body || (strchr(arrow, '{') && strchr(arrow, '{') < body)) body = strchr(arrow, '{');
  if (!body) return false;
  while (out->n_args < MOST && read_type(&p, arrow, &out->args[out->n_args])) {
    const char *next = strstr(p, "tensor<"), *alias = strstr(p, "tf.aliasing_output"),
               *donor = strstr(p, "jax.buffer_donor");
    if (!next || next > arrow) next = arrow;
    out->donated[out->n_args++] = (alias && alias < next) || (donor && donor < next);
  }
  for (p = arrow; out->n_results < MOST && read_type(&p, body, &out->results[out->n_results]);) out->n_results++;
  return true;
}

/* ---- clients, devices and their queues ---- */
struct PJRT_Device { int id; };
struct PJRT_DeviceDescription { int id; };
static struct PJRT_Device devices[DEVICES] = {{0}, {1}};
static struct PJRT_DeviceDescription descriptions[DEVICES] = {{0}, {1}};
static PJRT_Device *const device_list[DEVICES] = {&devices[0], &devices[1]};

struct PJRT_Buffer {
  PJRT_Client *client;
  struct memory *memory;
  struct type type;
  PJRT_Event *ready;
  int device;
  bool gone;
};

struct task {
  struct task *next;
  PJRT_Event *event;                        /* its end */
  struct program *program;                  /* an execution, or NULL: a copy */
  PJRT_Executable *executable;
  int n_in, n_out;
  struct memory *in[MOST], *out[MOST];
  PJRT_Event *needs[MOST], *makes[MOST];
  void *to; const void *from; size_t bytes; /* a copy: one of them is in[0] or out[0] */
  bool fails;
  PJRT_Error_Code code;
  const char *message;
};
struct PJRT_Client {
  pthread_mutex_t lock;
  pthread_cond_t cond;
  bool closing;
  struct queue { struct task *first, **last; pthread_t thread; bool running; PJRT_Client *client; } queues[DEVICES];
};

static void compute(struct program *p, struct task *t) {
  for (int k = 0; k < t->n_out; k++) {
    unsigned char *out = memory_open(t->out[k]);
    struct type *type = &p->results[k];
    bool any = false, is_float = !strcmp(type->name, "f32");
    unsigned char *sum = calloc(1, type->bytes + 1);
    for (int i = 0; i < t->n_in; i++) {
      if (strcmp(p->args[i].name, type->name) || p->args[i].bytes != type->bytes) continue;
      unsigned char *in = memory_open(t->in[i]);
      any = true;
      if (is_float) for (size_t j = 0; j < type->bytes / 4; j++) ((float *)sum)[j] += ((float *)in)[j];
      else for (size_t j = 0; j < type->bytes; j++) sum[j] = (unsigned char)(sum[j] + in[j]);
      memory_close(t->in[i]);
    }
    if (any) memcpy(out, sum, type->bytes);
    else memset(out, k + 1, type->bytes);
    free(sum);
    memory_close(t->out[k]);
  }
}

static void work(struct task *t) {
  for (int i = 0; i < t->n_in; i++) {
    if (!t->needs[i]) continue;
    event_wait(t->needs[i]);
    if (t->needs[i]->code && !t->code) t->code = t->needs[i]->code, t->message = t->needs[i]->message;
  }
  if (t->fails && !t->code) t->code = PJRT_Error_Code_INTERNAL, t->message = "the fake device failed\nin the middle";
  if (t->code) return;
  if (t->program) {
    compute(t->program, t);
  } else if (t->n_in) {
    memcpy(t->to, memory_open(t->in[0]), t->bytes);
    memory_close(t->in[0]);
  } else {
    memcpy(memory_open(t->out[0]), t->from, t->bytes);
    memory_close(t->out[0]);
  }
}

static void finish(struct task *t) {
  for (int i = 0; i < t->n_in; i++) {
    memory_release(t->in[i]);
    if (t->needs[i]) event_unref(t->needs[i]);
  }
  for (int i = 0; i < t->n_out; i++) {
    memory_release(t->out[i]);
    event_set(t->makes[i], t->code, t->message);
    event_unref(t->makes[i]);
  }
  if (t->event) {
    event_set(t->event, t->code, t->message);
    event_unref(t->event);
  }
  if (t->executable && atomic_fetch_sub(&t->executable->refs, 1) == 1) {
    free(t->executable->text);
    unmake(t->executable);
  }
  unmake(t);
}

static struct task *next_task(PJRT_Client *c, struct queue *q) { /* under the lock */
  struct task *t = q->first;
  if (t && !(q->first = t->next)) q->last = &q->first;
  (void)c;
  return t;
}

static void *serve(void *user) {
  struct queue *q = user;
  PJRT_Client *c = q->client;
  pthread_mutex_lock(&c->lock);
  for (;;) {
    struct task *a = next_task(c, q), *b = NULL;
    if (!a) {
      if (c->closing) break;
      pthread_cond_wait(&c->cond, &c->lock);
      continue;
    }
    if (atomic_load(&control.reversed)) b = next_task(c, q);
    pthread_mutex_unlock(&c->lock);
    if (atomic_load(&control.slow_us)) usleep((useconds_t)atomic_load(&control.slow_us));
    work(a);
    for (int i = 0; b && i < a->n_out; i++) event_set(a->makes[i], a->code, a->message); /* b may need them */
    if (b) {
      work(b);
      finish(b);
    }
    finish(a);
    pthread_mutex_lock(&c->lock);
  }
  pthread_mutex_unlock(&c->lock);
  return NULL;
}

static void submit(PJRT_Client *c, int device, struct task *t) {
  struct queue *q = &c->queues[device];
  pthread_mutex_lock(&c->lock);
  if (!atomic_load(&control.async) && !q->running) {
    pthread_mutex_unlock(&c->lock);
    work(t);
    finish(t);
    return;
  }
  *q->last = t;
  q->last = &t->next;
  if (!q->running) q->running = !pthread_create(&q->thread, NULL, serve, q);
  pthread_cond_broadcast(&c->cond);
  pthread_mutex_unlock(&c->lock);
}

static PJRT_Error *initialize(PJRT_Plugin_Initialize_Args *a) {
  SIZED(a, PJRT_Plugin_Initialize_Args);
  return NULL;
}
static PJRT_Error *client_create(PJRT_Client_Create_Args *a) {
  SIZED(a, PJRT_Client_Create_Args);
  if (a->num_options) return fail(PJRT_Error_Code_INVALID_ARGUMENT, "unknown option");
  PJRT_Client *c = make(sizeof *c);
  pthread_mutex_init(&c->lock, NULL);
  pthread_cond_init(&c->cond, NULL);
  for (int i = 0; i < DEVICES; i++) c->queues[i] = (struct queue){.last = &c->queues[i].first, .client = c};
  a->client = c;
  return NULL;
}
static PJRT_Error *client_destroy(PJRT_Client_Destroy_Args *a) {
  PJRT_Client *c = a->client;
  pthread_mutex_lock(&c->lock);
  c->closing = true;
  pthread_cond_broadcast(&c->cond);
  pthread_mutex_unlock(&c->lock);
  for (int i = 0; i < DEVICES; i++)
    if (c->queues[i].running) pthread_join(c->queues[i].thread, NULL);
  pthread_mutex_destroy(&c->lock);
  pthread_cond_destroy(&c->cond);
  unmake(c);
  return NULL;
}
static PJRT_Error *platform_name(PJRT_Client_PlatformName_Args *a) {
  const char *name = getenv("FAKE_PJRT_PLATFORM");
  a->platform_name = name ? name : "fake";
  a->platform_name_size = strlen(a->platform_name);
  return NULL;
}
static PJRT_Error *addressable_devices(PJRT_Client_AddressableDevices_Args *a) {
  a->addressable_devices = device_list;
  a->num_addressable_devices = DEVICES;
  return NULL;
}
static PJRT_Error *get_description(PJRT_Device_GetDescription_Args *a) {
  a->device_description = &descriptions[a->device->id];
  return NULL;
}
static PJRT_Error *kind(PJRT_DeviceDescription_Kind_Args *a) {
  a->device_kind = "fake device";
  a->device_kind_size = strlen(a->device_kind);
  return NULL;
}
static PJRT_Error *memory_stats(PJRT_Device_MemoryStats_Args *a) {
  SIZED(a, PJRT_Device_MemoryStats_Args);
  a->bytes_in_use = 1000 + a->device->id;
  a->bytes_limit = 1 << 30;
  a->bytes_limit_is_set = true;
  return NULL;
}

/* ---- executables ---- */
static PJRT_Error *executable_new(const char *text, size_t length, PJRT_Executable **out) {
  PJRT_Executable *e = make(sizeof *e);
  atomic_init(&e->refs, 1);
  e->text = calloc(1, length + 1);
  e->length = length;
  memcpy(e->text, text, length);
  *out = e;
  if (parse(e->text, &e->program)) return NULL;
  free(e->text);
  unmake(e);
  return fail(PJRT_Error_Code_INVALID_ARGUMENT, "the program has no @main");
}
static void executable_unref(PJRT_Executable *e) {
  if (atomic_fetch_sub(&e->refs, 1) != 1) return;
  free(e->text);
  unmake(e);
}
static PJRT_Error *load(PJRT_Client *c, const char *text, size_t length, PJRT_LoadedExecutable **out) {
  PJRT_Executable *e;
  PJRT_Error *failed = executable_new(text, length, &e);
  if (failed) return failed;
  PJRT_LoadedExecutable *l = make(sizeof *l);
  *l = (PJRT_LoadedExecutable){c, e};
  *out = l;
  return NULL;
}
static PJRT_Error *client_compile(PJRT_Client_Compile_Args *a) {
  SIZED(a, PJRT_Client_Compile_Args);
  if (a->compile_options_size < 6 || a->compile_options[0] != 0x1a)
    return fail(PJRT_Error_Code_INVALID_ARGUMENT, "the compile options cannot be read");
  if (take(&control.fail_compile)) return fail(PJRT_Error_Code_INVALID_ARGUMENT, "the fake compiler failed");
  if (atomic_load(&control.slow_us)) usleep((useconds_t)atomic_load(&control.slow_us));
  atomic_fetch_add(&control.compiles, 1);
  return load(a->client, a->program->code, a->program->code_size, &a->executable);
}
static PJRT_Error *compile_for_topology(PJRT_Compile_Args *a) {
  SIZED(a, PJRT_Compile_Args);
  return executable_new(a->program->code, a->program->code_size, &a->executable);
}
static PJRT_Error *get_executable(PJRT_LoadedExecutable_GetExecutable_Args *a) {
  atomic_fetch_add(&a->loaded_executable->executable->refs, 1);
  a->executable = a->loaded_executable->executable;
  return NULL;
}
static PJRT_Error *executable_destroy(PJRT_Executable_Destroy_Args *a) {
  executable_unref(a->executable);
  return NULL;
}
static PJRT_Error *loaded_destroy(PJRT_LoadedExecutable_Destroy_Args *a) {
  executable_unref(a->executable->executable);
  unmake(a->executable);
  return NULL;
}
static const char mark[] = "FAKE";
static void serialized_delete(PJRT_SerializedExecutable *s) { unmake(s); }
static PJRT_Error *serialize(PJRT_Executable_Serialize_Args *a) {
  char *s = make(a->executable->length + 4);
  memcpy(s, mark, 4);
  memcpy(s + 4, a->executable->text, a->executable->length);
  a->serialized_bytes = s;
  a->serialized_bytes_size = a->executable->length + 4;
  a->serialized_executable = (PJRT_SerializedExecutable *)s;
  a->serialized_executable_deleter = serialized_delete;
  return NULL;
}
static PJRT_Error *deserialize(PJRT_Executable_DeserializeAndLoad_Args *a) {
  if (a->serialized_executable_size < 4 || memcmp(a->serialized_executable, mark, 4) || take(&control.fail_load))
    return fail(PJRT_Error_Code_INVALID_ARGUMENT, "this is no serialized executable");
  return load(a->client, a->serialized_executable + 4, a->serialized_executable_size - 4, &a->loaded_executable);
}

/* ---- buffers ---- */
static PJRT_Buffer *buffer_new(PJRT_Client *c, int device, const struct type *type) {
  PJRT_Buffer *b = make(sizeof *b);
  *b = (PJRT_Buffer){c, memory_new(type->bytes), *type, event_new(1), device, false};
  return b;
}
static PJRT_Error *buffer_destroy(PJRT_Buffer_Destroy_Args *a) {
  memory_release(a->buffer->memory);
  event_unref(a->buffer->ready);
  unmake(a->buffer);
  return NULL;
}
static const struct { const char *name; int bytes;
} elements[] = {
    [PJRT_Buffer_Type_PRED] = {"i1", 1},
    [PJRT_Buffer_Type_S8] = {"i8", 1},
    [PJRT_Buffer_Type_S16] = {"i16", 2},
    [PJRT_Buffer_Type_S32] = {"i32", 4},
    [PJRT_Buffer_Type_S64] = {"i64", 8},
    [PJRT_Buffer_Type_U8] = {"ui8", 1},
    [PJRT_Buffer_Type_U16] = {"ui16", 2},
    [PJRT_Buffer_Type_U32] = {"ui32", 4},
    [PJRT_Buffer_Type_U64] = {"ui64", 8},
    [PJRT_Buffer_Type_F16] = {"f16", 2},
    [PJRT_Buffer_Type_F32] = {"f32", 4},
    [PJRT_Buffer_Type_F64] = {"f64", 8},
    [PJRT_Buffer_Type_BF16] = {"bf16", 2},
    [PJRT_Buffer_Type_C64] = {"complex<f32>", 8},
    [PJRT_Buffer_Type_C128] = {"complex<f64>", 16},
};
static PJRT_Error *from_host(PJRT_Client_BufferFromHostBuffer_Args *a) {
  SIZED(a, PJRT_Client_BufferFromHostBuffer_Args);
  if ((size_t)a->type >= sizeof elements / sizeof *elements || !elements[a->type].name)
    return fail(PJRT_Error_Code_UNIMPLEMENTED, "the fake does not know this element type");
  struct type type = {.bytes = (size_t)elements[a->type].bytes};
  snprintf(type.name, sizeof type.name, "%s", elements[a->type].name);
  for (size_t i = 0; i < a->num_dims; i++) type.bytes *= (size_t)a->dims[i];
  PJRT_Buffer *b = buffer_new(a->client, a->device->id, &type);
  a->buffer = b;
  a->done_with_host_buffer = event_new(1);
  if (a->host_buffer_semantics == PJRT_HostBufferSemantics_kImmutableOnlyDuringCall) {
    if (type.bytes) memcpy(memory_open(b->memory), a->data, type.bytes);
    if (type.bytes) memory_close(b->memory);
    event_set(b->ready, 0, NULL);
    event_set(a->done_with_host_buffer, 0, NULL);
    return NULL;
  }
  struct task *t = make(sizeof *t);
  t->event = event_retain(a->done_with_host_buffer);
  t->n_out = 1;
  t->out[0] = memory_retain(b->memory);
  t->makes[0] = event_retain(b->ready);
  t->from = a->data;
  t->bytes = type.bytes;
  submit(a->client, b->device, t);
  return NULL;
}
static PJRT_Error *to_host(PJRT_Buffer_ToHostBuffer_Args *a) {
  SIZED(a, PJRT_Buffer_ToHostBuffer_Args);
  PJRT_Buffer *b = a->src;
  if (b->gone) return fail(PJRT_Error_Code_INVALID_ARGUMENT, "the buffer has been donated");
  size_t room = a->dst_size;
  a->dst_size = b->type.bytes;
  if (!a->dst) return NULL;
  if (room < b->type.bytes) return fail(PJRT_Error_Code_INVALID_ARGUMENT, "the destination is too small");
  struct task *t = make(sizeof *t);
  a->event = event_new(1);
  t->event = event_retain(a->event);
  t->n_in = 1;
  t->in[0] = memory_retain(b->memory);
  t->needs[0] = event_retain(b->ready);
  t->to = a->dst;
  t->bytes = b->type.bytes;
  submit(b->client, b->device, t);
  return NULL;
}
static PJRT_Error *ready_event(PJRT_Buffer_ReadyEvent_Args *a) {
  a->event = event_retain(a->buffer->ready);
  return NULL;
}

static bool listed(const PJRT_ExecuteOptions *o, int i) {
  for (size_t k = 0; k < o->num_non_donatable_input_indices; k++)
    if (o->non_donatable_input_indices[k] == i) return true;
  return false;
}
static PJRT_Error *execute(PJRT_LoadedExecutable_Execute_Args *a) {
  SIZED(a, PJRT_LoadedExecutable_Execute_Args);
  PJRT_LoadedExecutable *e = a->executable;
  struct program *p = &e->executable->program;
  if (!a->execute_device) return fail(PJRT_Error_Code_INVALID_ARGUMENT, "a portable executable needs a device");
  if ((int)a->num_args != p->n_args) return fail(PJRT_Error_Code_INVALID_ARGUMENT, "the number of operands is wrong");
  for (int i = 0; i < p->n_args; i++) {
    PJRT_Buffer *b = a->argument_lists[0][i];
    if (b->gone) return fail(PJRT_Error_Code_INVALID_ARGUMENT, "an operand has been donated");
    if (b->device != a->execute_device->id)
      return fail(PJRT_Error_Code_INVALID_ARGUMENT, "an operand is on another device");
    if (b->type.bytes != p->args[i].bytes) return fail(PJRT_Error_Code_INVALID_ARGUMENT, "an operand has another size");
  }
  if (take(&control.fail_execute)) return fail(PJRT_Error_Code_RESOURCE_EXHAUSTED, "the fake device is full");
  atomic_fetch_add(&control.executions, 1);
  struct task *t = make(sizeof *t);
  t->program = p;
  t->executable = e->executable;
  atomic_fetch_add(&e->executable->refs, 1);
  t->fails = take(&control.fail_async);
  t->n_in = p->n_args;
  t->n_out = p->n_results;
  for (int i = 0; i < p->n_args; i++) {
    PJRT_Buffer *b = a->argument_lists[0][i];
    t->in[i] = memory_retain(b->memory);
    t->needs[i] = event_retain(b->ready);
    if (p->donated[i] && !listed(a->options, i)) b->gone = true;
  }
  for (int i = 0; i < p->n_results; i++) {
    PJRT_Buffer *b = a->output_lists[0][i] = buffer_new(e->client, a->execute_device->id, &p->results[i]);
    t->out[i] = memory_retain(b->memory);
    t->makes[i] = event_retain(b->ready);
  }
  if (a->device_complete_events) {
    a->device_complete_events[0] = event_new(1);
    t->event = event_retain(a->device_complete_events[0]);
  }
  submit(e->client, a->execute_device->id, t);
  return NULL;
}

/* ---- topologies ---- */
struct PJRT_TopologyDescription { int unused; };
static PJRT_DeviceDescription *const described[DEVICES] = {&descriptions[0], &descriptions[1]};
static PJRT_Error *topology_devices(PJRT_TopologyDescription_GetDeviceDescriptions_Args *a) {
  a->descriptions = described;
  a->num_descriptions = DEVICES;
  return NULL;
}
static PJRT_Error *description_id(PJRT_DeviceDescription_Id_Args *a) {
  a->id = a->device_description->id;
  return NULL;
}
static PJRT_Error *description_process(PJRT_DeviceDescription_ProcessIndex_Args *a) {
  a->process_index = 7;
  return NULL;
}
static PJRT_Error *description_attributes(PJRT_DeviceDescription_Attributes_Args *a) {
  static const int64_t at[3] = {4, 5, 6};
  static const PJRT_NamedValue known[2] = {
    {.name = "coords", .name_size = 6, .type = PJRT_NamedValue_kInt64List, .int64_array_value = at, .value_size = 3},
    {.name = "core_on_chip", .name_size = 12, .type = PJRT_NamedValue_kInt64, .int64_value = 1, .value_size = 1}};
  a->attributes = known;
  a->num_attributes = 2;
  return NULL;
}
static PJRT_Error *compiled_memory(PJRT_Executable_GetCompiledMemoryStats_Args *a) {
  SIZED(a, PJRT_Executable_GetCompiledMemoryStats_Args);
  a->argument_size_in_bytes = 16, a->output_size_in_bytes = 8, a->alias_size_in_bytes = 4, a->temp_size_in_bytes = 2;
  a->generated_code_size_in_bytes = (int64_t)a->executable->length, a->peak_memory_in_bytes = 26;
  return NULL;
}
static PJRT_Error *cost_analysis(PJRT_Executable_GetCostAnalysis_Args *a) {
  static const PJRT_NamedValue known[2] = {
    {.name = "flops", .name_size = 5, .type = PJRT_NamedValue_kFloat, .float_value = 1.5f, .value_size = 1},
    {.name = "kind", .name_size = 4, .type = PJRT_NamedValue_kString, .string_value = "fake", .value_size = 4}};
  a->properties = known;
  a->num_properties = 2;
  return NULL;
}
static PJRT_Error *optimized_program(PJRT_Executable_OptimizedProgram_Args *a) {
  a->program->format = "hlo", a->program->format_size = 3;
  if (a->program->code) memcpy(a->program->code, a->executable->text, a->executable->length);
  a->program->code_size = a->executable->length;
  return NULL;
}
static PJRT_Error *topology_create(PJRT_TopologyDescription_Create_Args *a) {
  if (a->topology_name_size < 5 || memcmp(a->topology_name, "fake:", 5))
    return fail(PJRT_Error_Code_INVALID_ARGUMENT, "unknown topology");
  a->topology = make(sizeof *a->topology);
  return NULL;
}
static PJRT_Error *topology_destroy(PJRT_TopologyDescription_Destroy_Args *a) {
  unmake(a->topology);
  return NULL;
}

/* ---- foreign functions: handlers are counted ---- */
typedef struct {
  size_t struct_size;
  const char *target;
  size_t target_length;
  void *handler;
  const char *platform;
  size_t platform_length;
  unsigned traits;
} handler_args;

static PJRT_Error *register_handler(handler_args *a) {
  if (a->struct_size < sizeof *a) return fail(PJRT_Error_Code_INVALID_ARGUMENT, "struct_size is too small");
  if (!a->handler || !a->target_length || a->platform_length != 4 || memcmp(a->platform, "Host", 4))
    return fail(PJRT_Error_Code_INVALID_ARGUMENT, "no handler of the CPU");
  atomic_fetch_add(&control.handlers, 1);
  return NULL;
}

static struct {
  PJRT_Extension_Base base;
  void *register_type, *add_user_data;
  PJRT_Error *(*register_handler)(handler_args *);
} ffi = {{sizeof ffi, PJRT_Extension_Type_FFI, NULL}, NULL, NULL, register_handler};

static PJRT_Api api = {
    .struct_size = PJRT_Api_STRUCT_SIZE,
    .extension_start = &ffi.base,
    .pjrt_api_version = {.struct_size = PJRT_Api_Version_STRUCT_SIZE,
                         .major_version = PJRT_API_MAJOR,
                         .minor_version = PJRT_API_MINOR},
    .PJRT_Error_Destroy = error_destroy,
    .PJRT_Error_Message = error_message,
    .PJRT_Error_GetCode = error_code,
    .PJRT_Plugin_Initialize = initialize,
    .PJRT_Event_Destroy = event_destroy,
    .PJRT_Event_IsReady = event_is_ready,
    .PJRT_Event_Error = event_error,
    .PJRT_Event_Await = event_await,
    .PJRT_Event_OnReady = event_on_ready,
    .PJRT_Client_Create = client_create,
    .PJRT_Client_Destroy = client_destroy,
    .PJRT_Client_PlatformName = platform_name,
    .PJRT_Client_AddressableDevices = addressable_devices,
    .PJRT_Client_Compile = client_compile,
    .PJRT_Client_BufferFromHostBuffer = from_host,
    .PJRT_Device_GetDescription = get_description,
    .PJRT_DeviceDescription_Kind = kind,
    .PJRT_Device_MemoryStats = memory_stats,
    .PJRT_Executable_Destroy = executable_destroy,
    .PJRT_Executable_Serialize = serialize,
    .PJRT_Executable_DeserializeAndLoad = deserialize,
    .PJRT_LoadedExecutable_Destroy = loaded_destroy,
    .PJRT_LoadedExecutable_GetExecutable = get_executable,
    .PJRT_LoadedExecutable_Execute = execute,
    .PJRT_Buffer_Destroy = buffer_destroy,
    .PJRT_Buffer_ToHostBuffer = to_host,
    .PJRT_Buffer_ReadyEvent = ready_event,
    .PJRT_TopologyDescription_Create = topology_create,
    .PJRT_TopologyDescription_Destroy = topology_destroy,
    .PJRT_TopologyDescription_GetDeviceDescriptions = topology_devices,
    .PJRT_DeviceDescription_Id = description_id,
    .PJRT_DeviceDescription_ProcessIndex = description_process,
    .PJRT_DeviceDescription_Attributes = description_attributes,
    .PJRT_Compile = compile_for_topology,
    .PJRT_Executable_GetCompiledMemoryStats = compiled_memory,
    .PJRT_Executable_GetCostAnalysis = cost_analysis,
    .PJRT_Executable_OptimizedProgram = optimized_program,
};

SHOWN const PJRT_Api *GetPjrtApi(void);
const PJRT_Api *GetPjrtApi(void) {
  /* An old table ends early; what follows it in memory is not a table any more. */
  static struct { PJRT_Api api; } old;
  if (!getenv("FAKE_PJRT_SHORT")) return &api;
  memset(&old, 0x5a, sizeof old);
  memcpy(&old.api, &api, offsetof(PJRT_Api, PJRT_TopologyDescription_Create));
  old.api.struct_size = offsetof(PJRT_Api, PJRT_TopologyDescription_Create);
  old.api.pjrt_api_version.minor_version = 1;
  return &old.api;
}
