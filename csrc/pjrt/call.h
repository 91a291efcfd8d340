/* call.h: the single funnel of PJRT calls, and what the files of this folder share.
 *
 * A call goes through only if the plugin is new enough to have the entry and this process may still use it; its error
 * is converted and destroyed here, so no other file ever sees a PJRT_Error. Plugins older and newer than the header
 * work: the plugin's table is copied once, with entries it does not have left NULL, and struct sizes say what we know
 * of. Refuses to call anything in a forked child: plugins have threads, which a fork does not copy. */
#ifndef TT_CALL_H
#define TT_CALL_H
#include "pjrt/counters.h"
#include "pjrt/pjrt.h"
#include "pjrt_c_api.h"

struct tt_plugin {
  const PJRT_Api *api;         /* our copy of the plugin's table */
  char *path;
  char build[128];
  struct tt_plugin *next;
};

struct tt_client {
  tt_plugin *plugin;
  PJRT_Client *client;
  PJRT_Device *const *devices; /* addressable ones; the client's */
  int n_devices;
  char platform[32];
  bool for_tpu;
  char (*kinds)[64];
  bool is_cpu;
  char *options;               /* serialized CompileOptionsProto */
  size_t options_length;
  struct tt_inflight *inflight; /* one for each device */
  struct tt_client *next;      /* of all that live, under client.c's lock */
};

/* Fields are fixed once made, but for refs, and spent and until, which the only holder of a reference sets. */
struct tt_buffer {
  atomic_int refs;
  bool spent;
  int device;
  uint64_t until;              /* spent: by work at this place in the device's order (tt_inflight_add) */
  tt_client *client;
  PJRT_Buffer *buffer;         /* NULL in a record that waits for one */
  const char *name;            /* the operator that made it, or NULL */
  tt_type type;                /* dims: own */
  int64_t own[TT_MAX_RANK];
  tt_buffer *next;             /* in the pool, or among those that are spent */
};

/* ---- calling ---- */
/* Declares args v of type T, zero but for its size and the fields given. */
#define PJRT_ARGS(T, v, ...) T v = {.struct_size = T##_STRUCT_SIZE, __VA_ARGS__}

/* Calls NAME; evaluates to a tt_code. err must not be NULL. */
#define PJRT_CALL(plugin, NAME, args, err)                                    \
  (tt_pjrt_enter((plugin)->api, (plugin)->api->NAME != NULL, #NAME, err)      \
       ? tt_pjrt_leave((plugin)->api, (plugin)->api->NAME(args), #NAME, err)  \
       : (err)->code)

/* Calls NAME, which frees something: cannot fail, is never made to fail, and does nothing in a forked child. */
#define PJRT_DROP(plugin, NAME, args) \
  ((plugin)->api->NAME && !tt_forked() ? tt_pjrt_ignore((plugin)->api, (plugin)->api->NAME(args)) : (void)0)

/* Whether the plugin has the entry at all. */
#define PJRT_HAS(plugin, NAME) ((plugin)->api->NAME != NULL)

extern atomic_int tt_pjrt_gate; /* 0: calls go straight through; else tt_pjrt_look looks closer */
bool tt_pjrt_look(const PJRT_Api *api, bool present, const char *name, tt_error *err);
static inline bool tt_pjrt_enter(const PJRT_Api *api, bool present, const char *name, tt_error *err) {
  bool straight = present && !atomic_load_explicit(&tt_pjrt_gate, memory_order_relaxed);
  return __builtin_expect(straight, 1) || tt_pjrt_look(api, present, name, err);
}
tt_code tt_pjrt_convert(const PJRT_Api *api, PJRT_Error *e, const char *name, tt_error *err); /* destroys e */
void tt_pjrt_ignore(const PJRT_Api *api, PJRT_Error *e);
static inline tt_code tt_pjrt_leave(const PJRT_Api *api, PJRT_Error *e, const char *name, tt_error *err) {
  return __builtin_expect(e != NULL, 0) ? tt_pjrt_convert(api, e, name, err) : TT_OK;
}
void tt_wait_at_exit(void); /* the process waits for its devices before what has been initialised so far is torn down */
void tt_pjrt_begin(void); /* threads of a plugin are about to start: a child forked from now on may not call it */

/* Appends what the plugin serializes e to. */
tt_code tt_executable_write(tt_plugin *p, PJRT_Executable *e, tt_buf *out, tt_error *err);
/* What the plugin says of the memory that e takes. */
tt_code tt_executable_memory(tt_plugin *p, PJRT_Executable *e, tt_aot_memory *out, tt_error *err);

/* ---- starting ---- */
const void *tt_options_with_own(const void *options, size_t *length);
tt_code tt_options_write(bool is_cpu, tt_buf *b, tt_error *err); /* CompileOptionsProto */
/* the same for a topology, with those of list */
tt_code tt_options_for(int replicas, const char *list, tt_buf *b, tt_error *err);
bool tt_plugin_is_cpu(const char *path); /* by the name of the file */
/* drops what a noisy plugin writes to stderr until quiet_end; returns what that takes */
int tt_quiet_begin(const char *path);
void tt_quiet_end(int saved);

/* ---- completion: executions and uploads of one device that have not ended ---- */
tt_code tt_inflight_create(tt_client *c, tt_error *err);
void tt_inflight_destroy(tt_client *c); /* waits for all of them */
/* Takes ownership of e, the completion of work by the operator name. 0 if that has ended, without failure, already;
 * else its place in the device's order, from 1. */
uint64_t tt_inflight_add(tt_client *c, int device, PJRT_Event *e, const char *name);
void tt_inflight_bury(tt_buffer *b); /* destroys b, which is spent and released, once the work that took it has ended */
bool tt_inflight_none(const tt_client *c, int device); /* nothing known to be under way; no lock */
/* *err is a failure met while reading results. Puts the first failure on the device in its place, which is its cause,
 * and counts that as reported; if there is none, name becomes the place. */
void tt_inflight_blame(tt_client *c, int device, const char *name, tt_error *err);
void tt_event_drop(tt_plugin *p, PJRT_Event *e);

/* ---- buffers ---- */
/* Takes n records from the pool, or allocates them: all or none. */
tt_code tt_buffer_reserve(int n, tt_buffer **records, tt_error *err);
void tt_buffer_unreserve(int n, tt_buffer **records);
/* Makes a record a buffer with one reference. Cannot fail. */
void tt_buffer_init(tt_buffer *record, tt_client *c, int device, PJRT_Buffer *b, const tt_type *type, const char *name);
/* Its memory went to a result of a program, which is counted there, at this place in the device's order. */
void tt_buffer_spend(tt_buffer *b, uint64_t until);
void tt_buffer_destroy(tt_buffer *b); /* what PJRT has of it, and the record */
#endif
