/* event.c: what has been submitted and not ended, and moments in that order.
 *
 * Each device keeps a ring of completion events of work under way, in order of submission, each with the name of its
 * operator. Most small programs on a CPU plugin have ended when Execute returns and never enter it. An event recorded
 * now remembers how much had been submitted, and is done when the ring has dropped all of that; its time is taken by
 * completion callbacks on the work that was pending. The first asynchronous failure of a device is kept, under its
 * operator's name, until somebody waits. Any thread; nobody waits for the device while holding the lock.
 *
 * A plugin that is told to destroy a buffer whose memory a program takes waits until that program begins, that is, for
 * all that is under way (XLA's CPU plugins; seen as 0.7 ms of a step of 4). So spent buffers are destroyed by the ring,
 * with the work that took them.
 *
 * Measured with [8, 8] adds, quiet machine, two CPU plugins of XLA: asking Execute for its completion event, looking at
 * it and destroying it costs 0.19 and 0.21 us of 1.3 and 1.9; naming the device in the call saves 0.12 and 0.10 of that
 * again. Asking results for their ready events instead costs 0.18 and 0.27, and loses work whose results were dropped.
 * Programs that have shown to run inside Execute go without (executable.c). */
#include <pthread.h>
#include <stdio.h>
#include <string.h>
#include <time.h>
#include "pjrt/call.h"

enum { RING = 256 };

struct tt_inflight {
  pthread_mutex_t lock;
  pthread_cond_t moved;         /* ended has grown, or nobody waits for the head any more */
  struct { PJRT_Event *event; const char *name; } ring[RING];
  uint64_t submitted, ended;    /* work that entered the ring, and how much of it is over, in order */
  atomic_uint pending;          /* the difference, for whoever has no lock */
  bool awaited;                 /* a thread waits for the head, outside the lock: it must stay */
  tt_buffer *spent, **spent_end; /* released, and not destroyed yet, as the work that takes their memory goes on */
  tt_error failure;             /* the first asynchronous one not yet reported; code TT_OK: none */
};

struct tt_event {
  atomic_int refs;              /* the caller's, and one for each callback to come */
  atomic_int pending;           /* callbacks to come, and one while they are being set up */
  _Atomic int64_t time;
  tt_client *client;
  int device;
  uint64_t until;
};

static int64_t now(void) {
  struct timespec t;
  clock_gettime(CLOCK_MONOTONIC, &t);
  return t.tv_sec * 1000000000ll + t.tv_nsec;
}

void tt_event_drop(tt_plugin *p, PJRT_Event *e) {
  if (!e) return;
  PJRT_ARGS(PJRT_Event_Destroy_Args, destroy, .event = e);
  PJRT_DROP(p, PJRT_Event_Destroy, &destroy);
}

/* ---- the ring ---- */
tt_code tt_inflight_create(tt_client *c, tt_error *err) {
  c->inflight = tt_alloc((size_t)c->n_devices * sizeof *c->inflight);
  if (!c->inflight) return tt_no_memory(err, (size_t)c->n_devices * sizeof *c->inflight);
  for (int i = 0; i < c->n_devices; i++) {
    pthread_mutex_init(&c->inflight[i].lock, NULL);
    pthread_cond_init(&c->inflight[i].moved, NULL);
    c->inflight[i].spent_end = &c->inflight[i].spent;
  }
  return TT_OK;
}

static bool is_ready(tt_plugin *p, PJRT_Event *e) {
  tt_error ignored;
  PJRT_ARGS(PJRT_Event_IsReady_Args, ready, .event = e);
  return !PJRT_CALL(p, PJRT_Event_IsReady, &ready, &ignored) && ready.is_ready;
}

/* Ends the work at the head, keeping its failure under the operator's name. Under the lock, when nobody awaits the
 * head. */
static void pop(tt_plugin *p, struct tt_inflight *f) {
  tt_error err;
  PJRT_Event *e = f->ring[f->ended % RING].event;
  PJRT_ARGS(PJRT_Event_Error_Args, error, .event = e);
  if (PJRT_CALL(p, PJRT_Event_Error, &error, &err) && err.code != TT_UNIMPLEMENTED && !f->failure.code) {
    f->failure = err;
    snprintf(f->failure.where, sizeof f->failure.where, "%s", f->ring[f->ended % RING].name);
  }
  tt_event_drop(p, e);
  f->ended++;
  atomic_fetch_sub_explicit(&f->pending, 1, memory_order_release);
  while (f->spent && f->spent->until <= f->ended) {
    tt_buffer *b = f->spent;
    if (!(f->spent = b->next)) f->spent_end = &f->spent;
    tt_buffer_destroy(b);
  }
}

/* Drops what has ended at the head; then waits until `until` pieces of work have. Under the lock, which it leaves to
 * wait. */
static void advance(tt_plugin *p, struct tt_inflight *f, uint64_t until) {
  for (;;) {
    while (!f->awaited && f->ended < f->submitted && is_ready(p, f->ring[f->ended % RING].event)) pop(p, f);
    if (f->ended >= until) return;
    if (f->awaited) {
      pthread_cond_wait(&f->moved, &f->lock);
      continue;
    }
    tt_error ignored;
    PJRT_ARGS(PJRT_Event_Await_Args, wait, .event = f->ring[f->ended % RING].event);
    f->awaited = true;
    pthread_mutex_unlock(&f->lock);
    bool failed = PJRT_CALL(p, PJRT_Event_Await, &wait, &ignored); /* the work's failure, or that of waiting */
    if (failed) (void)PJRT_CALL(p, PJRT_Event_Await, &wait, &ignored);
    pthread_mutex_lock(&f->lock);
    f->awaited = false;
    pop(p, f);
    pthread_cond_broadcast(&f->moved);
  }
}

void tt_inflight_destroy(tt_client *c) {
  if (!c->inflight || tt_forked()) return;
  for (int i = 0; i < c->n_devices; i++) {
    struct tt_inflight *f = &c->inflight[i];
    pthread_mutex_lock(&f->lock);
    advance(c->plugin, f, f->submitted);
    pthread_mutex_unlock(&f->lock);
    pthread_cond_destroy(&f->moved);
    pthread_mutex_destroy(&f->lock);
  }
  tt_free(c->inflight);
}

bool tt_inflight_none(const tt_client *c, int device) {
  return !atomic_load_explicit(&c->inflight[device].pending, memory_order_acquire);
}

uint64_t tt_inflight_add(tt_client *c, int device, PJRT_Event *e, const char *name) {
  struct tt_inflight *f = &c->inflight[device];
  if (is_ready(c->plugin, e)) {
    tt_error err;
    PJRT_ARGS(PJRT_Event_Error_Args, error, .event = e);
    if (!PJRT_CALL(c->plugin, PJRT_Event_Error, &error, &err) || err.code == TT_UNIMPLEMENTED) {
      tt_event_drop(c->plugin, e);
      return 0;
    }
  }
  pthread_mutex_lock(&f->lock);
  static pthread_once_t once = PTHREAD_ONCE_INIT;
  pthread_once(&once, tt_wait_at_exit); /* again, now that the plugin has begun to use its threads */
  advance(c->plugin, f, 0);
  while (f->submitted - f->ended == RING) advance(c->plugin, f, f->ended + 1); /* far enough ahead of the device */
  f->ring[f->submitted % RING].event = e;
  f->ring[f->submitted % RING].name = name;
  uint64_t place = ++f->submitted;
  atomic_fetch_add_explicit(&f->pending, 1, memory_order_release);
  pthread_mutex_unlock(&f->lock);
  return place;
}

void tt_inflight_bury(tt_buffer *b) {
  struct tt_inflight *f = &b->client->inflight[b->device];
  pthread_mutex_lock(&f->lock);
  bool over = b->until <= f->ended;
  if (!over) {
    b->next = NULL;
    *f->spent_end = b;
    f->spent_end = &b->next;
  }
  pthread_mutex_unlock(&f->lock);
  if (over) tt_buffer_destroy(b);
}

static tt_code take_failure(struct tt_inflight *f, tt_error *err) {
  tt_code code = f->failure.code;
  if (code && err) *err = f->failure;
  f->failure.code = TT_OK;
  return code;
}

void tt_inflight_blame(tt_client *c, int device, const char *name, tt_error *err) {
  struct tt_inflight *f = &c->inflight[device];
  pthread_mutex_lock(&f->lock);
  advance(c->plugin, f, 0);
  if (!take_failure(f, err) && name) snprintf(err->where, sizeof err->where, "%s", name);
  pthread_mutex_unlock(&f->lock);
}

tt_code tt_client_synchronize(tt_client *c, int device, tt_error *err) {
  if (tt_fork_check(err)) return TT_FAILED_PRECONDITION;
  struct tt_inflight *f = &c->inflight[device];
  pthread_mutex_lock(&f->lock);
  advance(c->plugin, f, f->submitted);
  tt_code code = take_failure(f, err);
  pthread_mutex_unlock(&f->lock);
  return code;
}

/* ---- recorded events ---- */
static void unref(tt_event *e) {
  if (atomic_fetch_sub(&e->refs, 1) == 1) tt_free(e);
}

static void set_time(tt_event *e) {
  int64_t unset = 0;
  atomic_compare_exchange_strong(&e->time, &unset, now());
}

static void arrive(tt_event *e) {
  if (atomic_fetch_sub(&e->pending, 1) == 1) set_time(e);
}

struct arrival { tt_event *event; tt_plugin *plugin; };

static void on_ended(PJRT_Error *error, void *user) {
  struct arrival *a = user;
  tt_pjrt_ignore(a->plugin->api, error);
  arrive(a->event);
  unref(a->event);
  tt_free(a);
}

/* Calls on_ended when the work at position i of the ring ends. False if it cannot be told. */
static bool notify(tt_event *e, struct tt_inflight *f, uint64_t i) {
  tt_plugin *p = e->client->plugin;
  struct arrival *a = tt_alloc(sizeof *a);
  if (!a) return false;
  *a = (struct arrival){e, p};
  atomic_fetch_add(&e->refs, 1);
  atomic_fetch_add(&e->pending, 1);
  tt_error ignored;
  PJRT_ARGS(PJRT_Event_OnReady_Args, ready, .event = f->ring[i % RING].event, .callback = on_ended, .user_arg = a);
  if (!PJRT_CALL(p, PJRT_Event_OnReady, &ready, &ignored)) return true;
  atomic_fetch_sub(&e->pending, 1);
  unref(e);
  tt_free(a);
  return false;
}

tt_event *tt_event_record(tt_client *c, int device, tt_error *err) {
  if (tt_fork_check(err)) return NULL;
  tt_event *e = tt_alloc(sizeof *e);
  if (!e) {
    tt_no_memory(err, sizeof *e);
    return NULL;
  }
  struct tt_inflight *f = &c->inflight[device];
  atomic_init(&e->refs, 1);
  atomic_init(&e->pending, 1);
  e->client = c;
  e->device = device;
  pthread_mutex_lock(&f->lock);
  advance(c->plugin, f, 0);
  e->until = f->submitted;
  uint64_t first = f->ended;
  if (!c->is_cpu && first < e->until) first = e->until - 1; /* other devices run in order: the last one tells */
  bool told = true;
  for (uint64_t i = first; i < e->until; i++) told &= notify(e, f, i);
  pthread_mutex_unlock(&f->lock);
  if (told) arrive(e); /* else its time is that of the first look after the end */
  return e;
}

static tt_code reach(tt_event *e, bool wait, tt_error *err) {
  struct tt_inflight *f = &e->client->inflight[e->device];
  pthread_mutex_lock(&f->lock);
  advance(e->client->plugin, f, wait ? e->until : 0);
  if (f->ended >= e->until) set_time(e);
  tt_code code = wait ? take_failure(f, err) : TT_OK;
  pthread_mutex_unlock(&f->lock);
  return code;
}

bool tt_event_done(tt_event *e) {
  if (!atomic_load(&e->time) && !tt_forked()) reach(e, false, NULL);
  return atomic_load(&e->time) != 0;
}

tt_code tt_event_await(tt_event *e, tt_error *err) {
  return tt_fork_check(err) ? TT_FAILED_PRECONDITION : reach(e, true, err);
}

int64_t tt_event_time(tt_event *e) {
  tt_event_done(e);
  return atomic_load(&e->time);
}

void tt_event_destroy(tt_event *e) {
  if (e) unref(e);
}
