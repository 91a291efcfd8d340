/* holders.h: who holds a device's memory, and what is kept that could be given back. Readable from C++ as well. */
#ifndef TT_HOLDERS_H
#define TT_HOLDERS_H
#include "pjrt/pjrt.h"
typedef struct tt_holder {
  const void *address;
  size_t bytes;
  const char *made;           /* the operator that made it, and its line if that is traced; NULL: none did */
  uint8_t dtype, rank;
  int64_t dims[TT_MAX_RANK];
} tt_holder;
/* The storages of a device that have contents, the largest first, up to room of them; returns how many there are. */
size_t tt_holders(int device, tt_holder *out, size_t room);
void tt_describe_shape(char *out, size_t room, tt_dtype dtype, int rank, const int64_t *dims); /* "float32[2, 3]" */
void tt_scalars_clear(tt_client *c); /* lets go of all buffers of numbers of a client */
#endif
