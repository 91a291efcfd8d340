/* base.h: what every layer stands on: allocation that can be made to fail, arenas, growing byte buffers, hashing,
 * logging. Knows nothing of tensors. Everything here is for one thread at a time unless it says "any thread". */
#ifndef TT_BASE_H
#define TT_BASE_H
#include "tt.h"

/* ---- allocation. NULL on failure, always checked by the caller. With TT_FAULTS the n-th call from now fails. Any
 * thread ---- */
void *tt_alloc(size_t bytes);   /* zeroed */
void *tt_realloc(void *p, size_t bytes);
void tt_free(void *p);          /* accepts NULL */
int64_t tt_alloc_live(void);    /* blocks not yet freed (counted with TT_FAULTS only, else 0) */
#ifdef TT_FAULTS
void tt_fault_allocation(int64_t n); /* the n-th allocation from now fails once (0: the next); -1: none */
bool tt_fault_hit(void);             /* whether it did */
#endif
tt_code tt_no_memory(tt_error *err, size_t bytes); /* RESOURCE_EXHAUSTED for host memory */

/* ---- arenas: many small blocks, one lifetime ---- */
typedef struct tt_arena { struct tt_arena_block *blocks; } tt_arena;
void *tt_arena_alloc(tt_arena *a, size_t bytes); /* zeroed, 16-byte aligned; NULL on failure */
void tt_arena_deinit(tt_arena *a);

/* ---- growing byte buffers: a failed append sticks in .failed, so appends need no check ---- */
typedef struct tt_buf { char *data; size_t length, capacity; bool failed; } tt_buf;
void tt_buf_append(tt_buf *b, const void *data, size_t n);
/* n bytes can be written behind the contents; the caller then adds them to length */
void tt_buf_room(tt_buf *b, size_t n);
void tt_buf_text(tt_buf *b, const char *text);
void tt_buf_printf(tt_buf *b, const char *format, ...) __attribute__((format(printf, 2, 3)));
void tt_buf_deinit(tt_buf *b);

/* ---- hashing ---- */
uint64_t tt_hash_words(const uint64_t *words, size_t n);          /* fast, in-process only */
typedef struct tt_digest { uint64_t h[2]; } tt_digest;
tt_digest tt_digest_bytes(tt_digest seed, const void *data, size_t n); /* stable across builds and hosts; 128 bits */

/* ---- environment variables: one table, printed by the docs ---- */
typedef struct tt_env_row { const char *name, *meaning; } tt_env_row;
TT_API extern const tt_env_row tt_env_table[]; /* ends with a NULL name */
const char *tt_env(const char *name); /* NULL if unset or empty; name must stand in the table in env.c */
int64_t tt_env_int(const char *name, int64_t otherwise); /* otherwise if unset or not a whole number */

/* ---- log: off unless TORCH_TPU_LOG=1 (decisions) or 2 (each execution); to stderr. Any thread ---- */
extern int tt_log_level;
void tt_log(const char *format, ...) __attribute__((format(printf, 1, 2)));
#endif
