/* pending.h: storages that a window of DeferAndFuse is to fill. Readable from C++ as well. Any thread. */
#ifndef TT_PENDING_H
#define TT_PENDING_H
#include "tt.h"
#ifdef __cplusplus
extern "C" {
#endif
bool tt_storage_pending(tt_storage *s); /* a window is to fill it: who reads it runs that first */
/* Flushes the window that is to fill s, if one is. What fails is told by who reads s. */
void tt_storage_settle(tt_storage *s);
#ifdef __cplusplus
}
#endif
#endif
