/* cache.h: program text -> executable, through memory, then the disk, then the compiler: compiled once on this machine, ever. */
#ifndef TT_CACHE_H
#define TT_CACHE_H
#include "pjrt/pjrt.h"
/* Borrowed for ever (executables stay until the process ends). Threads that ask for the same text at once share one
 * compile; different texts compile at the same time. */
tt_executable *tt_cache_get(tt_client *c, const char *text, size_t length, tt_error *err);
/* Releases the executables of a client from memory: for leak checks, while no plan uses them. */
void tt_cache_clear(tt_client *c);
#endif
