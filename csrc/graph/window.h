/* window.h: what DeferAndFuse records, and the programs it becomes. For window.c, replay.c, fuse.c,
 * period.c and join.c.
 *
 * A window is straight-line code over values that are written once: inputs (buffers that were there) and results of
 * records (plans with their operands). A storage that a record writes is pending: it stands for one value, its buffer
 * is stale until the window is flushed. Everything in a window is under its lock. */
#ifndef TT_WINDOW_H
#define TT_WINDOW_H
#include <pthread.h>
#include "graph/graph.h"

enum { NO_VALUE = UINT32_MAX };

typedef struct tt_value {
  const tt_type *type;    /* of a result; NULL: an input, whose buffer knows */
  tt_buffer *buffer;      /* of an input, or once computed */
  uint32_t uses;          /* while flushing: by records still to run and by pending storages */
} tt_value;

typedef struct tt_record {
  const tt_plan *plan;
  const char *name;       /* for failures: the call's place or its operator */
  uint32_t wires; /* first of its entries in wires: a value for each operand that is one, then one for each result */
  uint32_t numbers;       /* first of its numbers: one for each other operand */
  uint32_t first_result;  /* the value of result 0; the others follow */
  bool needed;            /* while flushing */
} tt_record;

typedef struct tt_pending {
  tt_storage *storage;    /* retained; NULL: given other contents meanwhile */
  uint32_t value;
  uint32_t origin;        /* the input that was its buffer, or NO_VALUE */
  uint32_t padded;        /* which dims of that buffer were */
  bool alive;             /* while flushing: somebody besides the window has it */
} tt_pending;

/* A loop that fills windows, and where in its least rotation they begin. */
typedef struct tt_loop { uint64_t hash; uint32_t start; } tt_loop;
enum { LOOPS = 32 };

/* A growing array of T. */
#define TT_LIST(T) struct { T *at; uint32_t n, cap; }

struct tt_window {
  pthread_mutex_t lock;
  tt_client *client;
  int device;
  uint64_t serial;        /* of this filling; storages remember it beside the value they stand for */
  TT_LIST(tt_record) records;
  TT_LIST(uint32_t) wires;
  TT_LIST(tt_value) values;
  TT_LIST(tt_pending) pending;
  TT_LIST(tt_scalar) numbers; /* a random state is one of dtype u64 that fills all its bits */
  uint64_t hash, skeleton;    /* of plans and wires; of operators alone */
  int64_t bytes;              /* of all results */
  uint32_t cut;               /* it is full after this many records; 0: at the limit */
  bool joining;               /* it is of compiled graphs, in Strict mode (join.c) ... */
  uint32_t end;               /* ... and full after this many records; 0: at the limit */
  _Atomic(const char *) thread; /* the last that recorded: where its `here` lies; NULL: none, or it is joining */
  uint32_t fulls;             /* full windows since one that was not */
  tt_error failure;           /* of the last flush that failed */
  uint32_t *history, n_history; /* the operators of the last windows */
  uint32_t period;            /* of the operators' history, the last that was found */
  tt_loop loops[LOOPS];
};

tt_window *tt_window_of(int device);
tt_code tt_window_flush(tt_window *w, tt_flush_reason reason, tt_error *err); /* under its lock */

/* ---- join.c ---- */
bool tt_join_holds(const tt_window *w, const tt_plan *p); /* under its lock: a record of p's operator */
void tt_join_ended(tt_window *w); /* under its lock, while it still has its records */

/* ---- fuse.c: windows that repeat become one executable ---- */
typedef struct tt_program tt_program;
/* The program for the window as marked, if it is ready to run; else NULL: replay. May compile. passing: the window is a
 * piece of a loop, and the next will end elsewhere in it. */
tt_program *tt_program_for(tt_window *w, bool passing);
tt_code tt_program_run(tt_program *p, tt_window *w, tt_error *err); /* fills the values that are needed after it */
void tt_programs_let_go(void); /* of plans that are out and not held: the programs go, or the plans are held */
void tt_programs_clear(void); /* gives back what is kept of them; while no call runs */

/* ---- replay.c: the records one by one, by their own executables ---- */
tt_code tt_window_replay(tt_window *w, tt_error *err);

/* ---- period.c: where a loop without reads repeats ---- */
/* How many records a window of periods should have: of short ones, and of others, whose programs take longer to
 * compile. */
enum { HISTORY = 1 << 14, LARGE = 256, MEDIUM = 64, SHORT = 8 };
void tt_period_note(tt_window *w);                       /* appends the window's operators to the history */
/* After how many records the next window should end, 0: unknown. Sets w->period, but for that. */
uint32_t tt_period_cut(tt_window *w, uint32_t limit);
#endif
