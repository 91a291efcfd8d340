/* share.h: programs of many operators, which repeat each other, and whose lines are looked up. */
#ifndef TT_HLO_SHARE_H
#define TT_HLO_SHARE_H
#include "hlo/hlo.h"

/* From now on equal lines of m that compute elements one by one or move them are one, and what would move elements
 * twice (a reshape of a reshape, a transpose of a transpose) moves them once. */
void hlo_share_lines(hlo_module *m);
/* Where what is built from now on comes from: the finished text's lines end with loc("FILE":LINE:0), which XLA carries to
 * its errors and profiles. NULL: nowhere. file is copied. */
void hlo_place(hlo_module *m, const char *file, int64_t line);
#endif
