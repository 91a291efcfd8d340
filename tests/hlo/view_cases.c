/* view_cases.c: modules that read and write views as torch makes them: what a slice, a transpose or x[i] becomes.
 *
 * These are read by people: each view should be the operations that one would write by hand. */
#include "cases.h"
#include "view/view.h"

typedef struct example {
  tt_dtype base;
  int base_rank;
  int64_t base_dims[4];
  tt_dtype dtype;
  int rank;
  int64_t sizes[4], strides[4], offset;
} example;

static const example examples[] = {
  {TT_F32, 2, {4, 6}, TT_F32, 2, {4, 6}, {6, 1}, 0},          /* x itself */
  {TT_F32, 2, {4, 6}, TT_F32, 2, {6, 4}, {1, 6}, 0},          /* x.t() */
  {TT_F32, 2, {4, 6}, TT_F32, 1, {24}, {1}, 0},               /* x.view(-1) */
  {TT_F32, 2, {4, 6}, TT_F32, 3, {4, 2, 3}, {6, 3, 1}, 0},    /* x.view(4, 2, 3) */
  {TT_F32, 2, {4, 6}, TT_F32, 1, {6}, {1}, 12},               /* x[2] */
  {TT_F32, 2, {4, 6}, TT_F32, 1, {4}, {6}, 5},                /* x[:, 5] */
  {TT_F32, 2, {4, 6}, TT_F32, 2, {2, 3}, {12, 2}, 7},         /* x[1::2, 1::2] */
  {TT_F32, 2, {4, 6}, TT_F32, 2, {4, 2}, {6, 1}, 2},          /* x[:, 2:4] */
  {TT_F32, 2, {4, 6}, TT_F32, 3, {3, 4, 6}, {0, 6, 1}, 0},    /* x.expand(3, 4, 6) */
  {TT_F32, 1, {24}, TT_F32, 2, {2, 3}, {6, 1}, 7},            /* x.view(4, 6)[1:3, 1:4] */
  {TT_F32, 2, {4, 6}, TT_F32, 1, {4}, {2}, 2},                /* x.view(24)[2:10:2]: the dims are merged */
  {TT_F32, 2, {6, 6}, TT_F32, 1, {6}, {7}, 0},                /* x.diagonal() */
  {TT_F32, 2, {4, 6}, TT_F32, 2, {3, 2}, {5, 2}, 1},          /* x.as_strided((3, 2), (5, 2), 1): cut out flat */
  {TT_F32, 1, {10}, TT_F32, 2, {8, 3}, {1, 1}, 0},            /* x.unfold(0, 3, 1): overlaps, gathered */
  {TT_C64, 2, {2, 3}, TT_F32, 3, {2, 3, 2}, {6, 2, 1}, 0},    /* view_as_real(x) */
  {TT_F32, 3, {2, 3, 2}, TT_C64, 2, {2, 3}, {3, 1}, 0},       /* view_as_complex(x) */
  {TT_F32, 2, {4, 6}, TT_I32, 1, {6}, {1}, 12},               /* x.view(torch.int32)[2] */
  {TT_F32, 2, {4, 6}, TT_F32, 2, {0, 6}, {6, 1}, 0},          /* x[:0] */
};

static void each(hlo_module *m, hlo_case_result *o, bool write, bool moving) {
  hlo offset = moving ? hlo_parameter(m, TT_I64, 0, NULL) : NULL;
  for (size_t i = 0; i < sizeof examples / sizeof *examples; i++) {
    const example *e = &examples[i];
    tt_view v = {e->dtype, (uint8_t)e->rank, e->sizes, e->strides, e->offset};
    if (moving && !tt_view_needs_offset(tt_view_classify(&v, e->base, e->base_rank, e->base_dims))) continue;
    hlo base = hlo_parameter(m, e->base, e->base_rank, e->base_dims);
    if (write) o->results[o->n++] = tt_view_write(m, base, &v, offset, hlo_parameter(m, e->dtype, e->rank, e->sizes));
    else o->results[o->n++] = tt_view_read(m, base, &v, offset);
  }
}

void case_view_read(hlo_module *m, hlo_case_result *o) { each(m, o, false, false); }
void case_view_read_moving(hlo_module *m, hlo_case_result *o) { each(m, o, false, true); }
void case_view_write(hlo_module *m, hlo_case_result *o) { each(m, o, true, false); }
void case_view_write_moving(hlo_module *m, hlo_case_result *o) { each(m, o, true, true); }
