/* disk.h: executables as files, by digest: safe against crashes, other processes, and other people. In a folder of this
 * machine and in one that machines share. */
#ifndef TT_DISK_H
#define TT_DISK_H
#include "base/base.h"
/* Appends the entry's payload to out. False on a miss; an entry that is damaged or not ours counts as one and is
 * dropped. */
bool tt_disk_read(tt_digest key, tt_buf *out);
/* False: it is in no folder. Why not is logged, and need not trouble the caller. */
bool tt_disk_write(tt_digest key, const void *data, size_t length);
void tt_disk_reject(tt_digest key); /* what was read could not be used: drops it */
/* what the entry is of, for people: in the folders' files "names" */
void tt_disk_note(tt_digest key, const char *name);
const char *tt_disk_folder(bool shared); /* this machine's, or the shared one; NULL: there is none */
bool tt_disk_check(const char *path); /* a whole entry, under its own name */
void tt_disk_dump(tt_digest key, const char *text, size_t length); /* to TORCH_TPU_DUMP, if that is set */
#endif
