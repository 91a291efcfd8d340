/* contents.h: what a storage holds: taking it, putting it back, waiting for it. Readable from C++ as well. Any thread.
 */
#ifndef TT_CONTENTS_H
#define TT_CONTENTS_H
#include "tt.h"
#ifdef __cplusplus
extern "C" {
#endif
/* The buffer with a new reference, or NULL if undefined. Waits while it is lent. */
tt_buffer *tt_storage_take_reference(tt_storage *s);
/* As above, or with donate moves the buffer out, which tt_storage_put ends. Does not wait: NULL, *lent true if it
 * would, for who has it or for the window that is to fill it (tt_storage_settle). */
tt_buffer *tt_storage_try_take(tt_storage *s, bool donate, bool *lent);
/* Puts a buffer of the base's shape in, taking ownership; the old one is released. */
void tt_storage_put(tt_storage *s, tt_buffer *b);
bool tt_storage_pending(tt_storage *s); /* a window is to fill it: who reads it runs that first */
/* Flushes the window that is to fill s, if one is. What fails is told by who reads s. */
void tt_storage_settle(tt_storage *s);
/* Makes to, of the same type and order as from, stand for what from does, if from is to be filled by a window. */
bool tt_window_share(tt_storage *to, tt_storage *from);
#ifdef __cplusplus
}
#endif
#endif
