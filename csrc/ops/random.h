/* random.h: uniform numbers from random bits, shared by the rules that draw. */
#ifndef TT_OPS_RANDOM_H
#define TT_OPS_RANDOM_H
#include "ops/op.h"

/* Uniform numbers of t (f32 from u32 bits, f64 from u64): in [0, 1), or in (0, 1) where open.
 * Exact: the same on every plugin. */
hlo tt_uniform_of_bits(hlo_module *m, hlo bits, tt_dtype t, bool open);
#endif
