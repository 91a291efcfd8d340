/* cache.h: program text -> executable, through memory, then the disk, then the compiler: compiled once on this machine,
 * ever. */
#ifndef TT_CACHE_H
#define TT_CACHE_H
#include "pjrt/pjrt.h"
/* The caller's until it says tt_cache_drop: who asks again gets the same, as long as anybody has it. Threads that ask
 * for the same text at once share one compile; different texts compile at the same time. NOT_FOUND: it would have to be
 * compiled, and TORCH_TPU_CACHE_ONLY is set. */
tt_executable *tt_cache_get(tt_client *c, const char *text, size_t length, tt_error *err);
/* The digest under which the cache's folders have it; locations (hlo_place) are no part of it. */
tt_digest tt_cache_key(tt_client *c, const char *text, size_t length);
/* Writes what was compiled of text for machines that are not here to the cache's folders, under the digest, *key, that
 * a process on such a machine looks for: its devices are of the topology's kind, its plugin is of the same build and
 * it has the same options. Trouble with the disk is logged. */
tt_code tt_cache_fill(tt_aot *a, const char *text, size_t length, tt_digest *key, tt_error *err);
void tt_cache_drop(tt_executable *e); /* NULL is fine. Programs under way keep what they need of it */
/* the call whose program this thread is about to ask for, or NULL */
extern _Thread_local const tt_call *tt_cache_asker;
/* From here on this thread's programs are kept as text, one after another, each ended by a 0; only: and not compiled,
 * calls fail with ABORTED. Off forgets them. */
void tt_cache_show(bool on, bool only);
const char *tt_cache_shown(size_t *length); /* borrowed until the next show */
/* Releases the executables of a client from memory: for leak checks, while no plan uses them. */
void tt_cache_clear(tt_client *c);
#endif
