/* share.h: programs of many operators, which repeat each other, and whose lines are looked up. */
#ifndef TT_HLO_SHARE_H
#define TT_HLO_SHARE_H
#include "hlo/hlo.h"

/* From now on equal lines of m that compute elements one by one or move them are one, and what would move elements
 * twice (a reshape of a reshape, a transpose of a transpose) moves them once. */
void hlo_share_lines(hlo_module *m);
/* bytes of the body so far: which operator each line is of shows by what is added */
size_t hlo_length(const hlo_module *m);
#endif
