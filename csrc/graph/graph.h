/* graph.h: the private side of storages, plans and traces.
 *
 * A trace is a program that grows: an HLO module, the run-time operands it will need, and what each storage holds at
 * this point of it. Lowering one call for a plan and tracing a decomposition or a captured graph are the same thing
 * with different depth. A plan is what remains of a finished trace: an executable and where its operands come from. */
#ifndef TT_GRAPH_H
#define TT_GRAPH_H
#include <stdatomic.h>
#include "graph/holders.h"
#include "graph/contents.h"
#include "hlo/hlo.h"
#include "ops/op.h"
#include "pjrt/pjrt.h"
#include "view/view.h"

typedef struct tt_window tt_window;

/* ---- storages. Fields under .lock, except those marked fixed ---- */
struct tt_storage {
  atomic_int refs;
  atomic_flag lock;
  tt_client *client;          /* fixed */
  int device;                 /* fixed */
  size_t bytes;
  void *address;
  uint8_t dtype, rank;        /* of the base */
  uint32_t padded; /* bit b: the buffer has tt_bucket(dims[b], least[b]) places in dim b; behind dims[b] is garbage */
  bool hinted;                /* the base's shape was said, or follows from contents */
  bool escaped;               /* made in a trace that has ended: contents are gone for good */
  int64_t dims[TT_MAX_RANK];
  uint8_t least[TT_MAX_RANK];
  _Atomic(tt_buffer *) buffer; /* NULL: undefined, lent or traced. Written under the lock, looked at without */
  bool lost;                  /* what was to fill it has failed, and reading it says so, or is absent */
  bool lent;                  /* a running call has taken the buffer and will put one back soon */
  tt_trace *trace;            /* the trace whose value it holds, or NULL */
  hlo traced;                 /* NULL: undefined */
  bool traced_written;
  _Atomic(tt_window *) window; /* the window that is to fill it: buffer is stale. Written under that window's lock */
  uint64_t filling;           /* of the window that knows it ... */
  uint32_t place;             /* ... as this pending entry or, not pending, as this value */
  const char *made;           /* the operator that made it, and its line if that is traced; NULL: none did */
  tt_storage *next;           /* in the pool */
};
bool tt_storage_look(tt_storage *s, tt_holder *out); /* false: it has no contents */
void tt_storage_let_go(tt_storage *s); /* of its buffer, which it is to get anew */
bool tt_storage_undefined(tt_storage *s); /* nothing was ever put in */
/* Says that s has contents, which are not here: programs that read it can be lowered, none can run. */
void tt_storage_mark_absent(tt_storage *s);
/* As tt_storage_put, of a buffer padded in the dims of the bits of padded. */
void tt_storage_put_padded(tt_storage *s, tt_buffer *b, uint32_t padded);
void tt_storage_base(tt_storage *s, tt_dtype dtype, int rank, const int64_t *dims); /* fixes the base's shape */
/* An undefined storage whose base has no shape yet takes it from the first dense tensor that covers it. */
void tt_storage_hint_from(const tt_tensor *t);
/* The dims of the buffer. */
void tt_storage_physical(const tt_storage *s, int64_t *dims);
/* Makes the buffer as long as the base says, through the host. */
tt_code tt_storage_unpad(tt_storage *s, tt_error *err);
void tt_storage_pool_clear(void); /* frees pooled records: for leak checks */

/* ---- addresses: a reserved, never mapped range, cut into power-of-two classes ---- */
/* NULL for 0 bytes, and on failure (then err is set) */
void *tt_address_take(size_t bytes, tt_storage *owner, tt_error *err);
void tt_address_give(void *address);
/* each(user, s) for every storage that has an address. It may be on its way out; it stays a storage until each returns.
 */
void tt_address_each(void (*each)(void *user, tt_storage *s), void *user);

/* ---- scalars: small immutable buffers by value, kept for the next call that needs the same ---- */
typedef struct tt_scalar { uint8_t dtype; uint8_t bits[16]; } tt_scalar;
/* the dtype in which a number is handed to a program that wants t: f32 for the small floats */
tt_dtype tt_scalar_carrier(tt_dtype t);
tt_scalar tt_scalar_encode(const tt_arg *a, tt_dtype carrier);
tt_buffer *tt_scalar_buffer(tt_client *c, int device, tt_scalar s, tt_error *err); /* new */
/* A buffer that the core keeps for itself leaves the counts of live buffers (sign 1), or comes back into them (-1). */
void tt_count_kept(const tt_buffer *b, int sign);

/* ---- plans ---- */
typedef enum tt_source { FROM_SLOT, FROM_SCALAR, FROM_OFFSET, FROM_RANDOM, FROM_CAPTURE, FROM_SIZE } tt_source;
typedef struct tt_operand {
  uint8_t source, dtype;
  bool from_call;             /* RANDOM: the call's own generator, not the default one */
  int32_t arg,
      element; /* SCALAR, OFFSET, RANDOM: where in the arguments; element -1: not in a list. SIZE: arg is the symbol */
  uint32_t slot;              /* SLOT */
  tt_storage *capture;        /* CAPTURE: retained */
} tt_operand;
/* True of what a storage holds; false of a number, which each call brings itself. */
static inline bool tt_operand_is_value(const tt_operand *o) {
  return o->source == FROM_SLOT || o->source == FROM_CAPTURE;
}
/* The storage of such an operand in the call, or NULL for a number. Borrowed. */
static inline tt_storage *tt_operand_storage(const tt_call *call, const tt_operand *o) {
  return o->source == FROM_SLOT ? call->slots[o->slot] : o->source == FROM_CAPTURE ? o->capture : NULL;
}
typedef struct tt_destination { bool is_slot; uint32_t index; } tt_destination;

/* What Debug mode looks at after a run: i64[2], not 0 where the condition fails and the element that fails it. */
typedef struct tt_requirement {
  struct tt_requirement *next; /* in a trace */
  tt_code code;
  const char *message;        /* "{}": the element */
  hlo pair;                   /* in a trace */
} tt_requirement;

/* Found without a lock, by threads between tt_call_begin and tt_call_end. Windows and their programs hold plans too. */
struct tt_plan {
  _Atomic(struct tt_plan *) next;
  atomic_uint used;           /* how many plans had been built when it was last found */
  bool out, held;             /* taken out of the table; by a window, of those: while looking which may be freed */
  struct tt_plan *next_out;   /* of those taken out of the table, until they may be freed */
  uint64_t hash;
  uint32_t n_words, n_operands, n_results, n_outputs, n_requirements;
  tt_requirement *requirements; /* if there are any, the last result is what they say */
  uint64_t *words;
  _Atomic(tt_executable *) executable; /* NULL: the call does nothing, or only its text is known yet */
  const char *text;           /* of a plan that was made to be recorded, the program */
  size_t text_length;
  const char *function;       /* the program as a part of others (hlo_add_function); NULL: too large for that */
  size_t function_length;
  const struct hlo_foreign *const *foreign; /* what the function calls of others' (hlo/foreign.h) */
  uint32_t n_foreign;
  const char *name;
  tt_operand *operands;
  bool *donate;
  tt_type *types;             /* of the program's results */
  tt_destination *destinations;
  tt_output *outputs;
  tt_type *bases;             /* of each output: what its storage is made as */
  tt_shape *shapes;           /* of each output: NULL where all are static and none is padded */
  uint64_t random_total;
  bool randoms_from_call, uses_random;
  tt_arena arena;
};

/* compiled if need be. Borrowed from the plan */
tt_executable *tt_plan_executable(const tt_plan *p, tt_client *c, tt_error *err);
/* The new storages of a call's outputs. */
tt_code tt_plan_make_results(const tt_plan *p, const tt_call *call, tt_storage **results, tt_error *err);
tt_generator *tt_plan_generator(const tt_plan *p, const tt_call *call);
/* The number that operand o of the call takes: a scalar, an offset, or a random state after seed and offset. */
tt_scalar tt_operand_number(const tt_call *call, const tt_operand *o, uint64_t seed, uint64_t offset);
/* As a buffer. New. */
tt_buffer *tt_number_buffer(tt_client *c, int device, const tt_operand *o, tt_scalar number, tt_error *err);
/* ---- bucketed calls (bucket.c) ---- */
typedef struct tt_scaled {
  int64_t sizes[TT_MAX_RANK], strides[TT_MAX_RANK], offset;
  uint8_t symbols[TT_MAX_RANK];
} tt_scaled;
typedef struct tt_scaled_tensor { tt_tensor tensor; tt_scaled view; } tt_scaled_tensor;
/* The tensor with each symbol of the call at values (NULL: at capacity), and the dims of its padded base (else
 * untouched). Adds to the call's symbols. False: it cannot take part. */
bool tt_bucket_view(tt_call *c, const tt_tensor *t, const int64_t *values, int64_t *base, tt_scaled *out);
bool tt_bucket_allows(const tt_call *c); /* the row and the mode */
bool tt_bucket_refused(uint64_t hash);
void tt_bucket_refuse(uint64_t hash); /* the next bucketed call of this key is an ordinary one at once */
/* Appending one to a static tensor, as a cache does when it begins to grow. */
bool tt_bucket_grows(const tt_call *c);
/* what the tensors of a concatenation have together along its dim */
int64_t tt_bucket_joined(const tt_call *c, int *dim);
bool tt_bucket_grown(const tt_call *c, const tt_output *o, tt_shape *shape);
hlo tt_bucket_pad(hlo_module *m, const tt_shape *shape, hlo base); /* a static base made as long as its buffer */
int64_t tt_bucket_size(const tt_call *c, const tt_shape *shape, int dim);
/* A storage for an output of such a plan. New. */
tt_storage *tt_bucket_storage(const tt_plan *p, const tt_call *c, uint32_t k, tt_error *err);

void tt_plans_clear(void); /* forgets all plans: for leak checks, while no call runs */
void tt_plans_count(int64_t *kept, int64_t *dropped); /* those there are, and those let go since the process began */

/* ---- epochs (epoch.c): threads that may hold what they found without a lock ---- */
void tt_epoch_enter(void); /* calls may lie within calls */
void tt_epoch_leave(void);
uint64_t tt_epoch_next(void); /* begins an epoch: after something was taken out */
bool tt_epoch_passed(uint64_t epoch); /* whether nobody is left who came in before it began */

/* ---- windows: DeferAndFuse (window.h) ---- */
/* As tt_plan_run, later. */
tt_code tt_window_record(const tt_plan *p, const tt_call *call, tt_storage **results, tt_error *err);
/* Whether a call in Strict mode is to be recorded: of a compiled graph, or of what one is to fill (join.c). */
bool tt_join_takes(const tt_plan *p, const tt_call *call);
void tt_join_made(const tt_plan *p, tt_storage **results); /* a graph ran by itself */
/* Takes the storage out of its window without filling it: it is about to get other contents. */
void tt_window_forget(tt_storage *s);
void tt_windows_clear(void); /* frees empty windows and programs: for leak checks, while no call runs */
/* Marks as held the plans of what is recorded, and drops programs that have other plans that are out. False: a window
 * is busy, and nothing is known. */
bool tt_windows_let_go(void);
tt_code tt_window_failure(int device, tt_error *err); /* what the last flush that failed said */

/* ---- traces ---- */
struct tt_trace {
  hlo_module *m;
  const tt_call *call;        /* the outermost call: its slots and arguments are the program's operands */
  int depth;                  /* 0: lowering that call itself; more: inside a decomposition */
  hlo *slot_values;           /* what each slot of the call holds; NULL: not read yet */
  int32_t *slot_operands;     /* the operand that brought it, or -1 */
  bool *slot_written;
  tt_operand *operands;
  hlo *operand_values;
  uint32_t n_operands, cap_operands;
  uint64_t random_total;
  bool randoms_from_call;
  hlo random;                 /* the state that the program starts with, ui64[2]; NULL: not asked for yet */
  hlo random_given;           /* draw from this state instead, ui64[2]: numbers that were drawn before */
  uint64_t random_given_total;
  int regions;                /* loops and branches around what is being traced */
  hlo *sizes;                 /* of a captured graph: what its symbols stand for (sizes.c) */
  int n_sizes;
  bool read_sized, read_composite; /* what the row being applied has read */
  const tt_arg *copies;       /* arguments of the foreach element under way, and what they are copies of */
  const tt_arg **origins;
  int n_copies;
  tt_requirement *requirements;
  uint32_t n_requirements;
  tt_storage **made;          /* traced storages, retained until the trace ends */
  uint32_t n_made, cap_made;
};
tt_code tt_trace_init(tt_trace *t, const tt_call *call, tt_error *err);
void tt_trace_deinit(tt_trace *t);
/* Makes an undefined storage one of the trace's. */
tt_code tt_trace_adopt(tt_trace *t, tt_storage *s, tt_error *err);
/* Lowers call at the current depth; values[k]: output k as a value of its dtype and sizes. */
tt_code tt_lower_call(tt_trace *t, const tt_call *call, const tt_output *outputs, int n_outputs, hlo *values,
                      tt_error *err);
/* Reads and writes a tensor of the trace or of its call. Errors stick in the module. */
hlo tt_trace_read(tt_trace *t, const tt_tensor *x);
void tt_trace_write(tt_trace *t, const tt_tensor *x, hlo value);
/* A traced storage that holds value, a base. The caller gets a reference besides the trace's. New. */
tt_storage *tt_trace_storage(tt_trace *t, hlo value, tt_error *err);
/* The random state, ui64[2], before n draws from g (NULL: the default generator). */
hlo tt_trace_draw(tt_trace *t, tt_generator *g, int64_t n);
hlo tt_trace_number(tt_trace *t, const tt_arg *a); /* a number among the call's arguments, rank 0, of its dtype */
/* a number of the call as a parameter; asked for twice it is one */
hlo tt_trace_number_operand(tt_trace *t, tt_operand o);
/* Puts the call at capacity in the trace's place for it. False with an error in the module. */
bool tt_bucket_begin(tt_trace *t);
hlo tt_bucket_marked(tt_trace *t, const tt_tensor *x, hlo value); /* what was read of x, a tensor of that call */
bool tt_bucket_check(tt_trace *t, int n_outputs, const hlo *values); /* marks agree with shapes */
hlo tt_trace_operand(tt_trace *t, tt_operand o, tt_dtype dtype, int rank, const int64_t *dims); /* a new parameter */
/* Lowers a call without a rule by the decompose function. */
void tt_trace_decompose(tt_trace *t, const tt_call *call, const tt_output *outputs, int n_outputs, hlo *values);
/* Conditions that the call makes no nan and no infinity. */
void tt_trace_require_finite(tt_trace *t, const tt_output *outputs, int n_outputs, hlo *values);
uint32_t tt_mode_flags(void); /* what the calling thread's mode adds to the flags of a call */
/* Debug mode: a condition of the program, all of them as one value, and what they said. */
void tt_trace_require(tt_trace *t, hlo pair, tt_code code, const char *message);
hlo tt_trace_requirements(tt_trace *t);
tt_code tt_requirements_look(const tt_plan *p, tt_buffer *b, tt_error *err);
/* The value of an output in the shape of its base. */
hlo tt_output_to_base(hlo_module *m, const tt_output *o, hlo value);
#endif
