/* layout.h: how a view lies in its base: what reading and writing share. For files of view/ only.
 *
 * Sizes of 1 say nothing, and stride 0 repeats elements: both are set aside. The other dims, by decreasing stride and
 * merged where one continues the next, are runs. The base's dims are split and merged until each run lies in one of
 * them: then the view is a box there, with a start, a size and a step in each dim. All of this depends on sizes,
 * strides and the base alone; the offset only says where the box starts, so that one program serves every offset at
 * which the box fits. */
#ifndef TT_VIEW_LAYOUT_H
#define TT_VIEW_LAYOUT_H
#include "view/view.h"

enum { VIEW_BASE_RANK = TT_MAX_RANK + 1, VIEW_BOX_RANK = VIEW_BASE_RANK + 2 * TT_MAX_RANK };

typedef struct view_run { int64_t size, stride; } view_run;
typedef struct view_box_dim {
  int64_t extent, stride;    /* of the base's refined dim */
  int64_t size, step, start; /* of the view in it; start at the view's own offset */
  bool moves;                /* the start is not always 0 */
} view_box_dim;

typedef struct view_layout {
  tt_view_class kind;
  bool empty;
  bool nested;               /* each run's elements lie within one stride of the run around it: no overlap */
  int base_rank;             /* the base in the view's dtype */
  int64_t base_dims[VIEW_BASE_RANK], base_numel;
  int64_t added;             /* elements of the old dtype added at its end to make it divide, else 0 */
  int n_dims;                /* the view's dims of size > 1 and stride > 0, by decreasing stride */
  int dims[TT_MAX_RANK];
  bool repeats;              /* a dim of size > 1 has stride 0 */
  int n_runs;
  view_run runs[TT_MAX_RANK];
  int n_box;                 /* outer to inner; 0 if the base is one element, meaningless for TT_VIEW_ANY */
  view_box_dim box[VIEW_BOX_RANK];
} view_layout;

void tt_view_layout_make(view_layout *l, const tt_view *v, tt_dtype base_dtype, int base_rank,
                         const int64_t *base_dims);

/* The base in the view's dtype with dims l->base_dims, and back. */
hlo tt_view_retype(hlo_module *m, const view_layout *l, hlo base, tt_dtype t);
hlo tt_view_untype(hlo_module *m, const view_layout *l, hlo x, hlo base);
/* The offset as a value of the dtype that indices into the base need: i32 where that is wide enough. */
hlo tt_view_offset(hlo_module *m, const view_layout *l, const tt_view *v, hlo offset);
/* Where the box starts in each dim of the base, rank-0 values; constants if offset is NULL. */
void tt_view_starts(hlo_module *m, const view_layout *l, const tt_view *v, hlo offset, hlo *starts);
/* The smallest contiguous box that holds the view's elements: size (n - 1) * step + 1 in each dim. x has the box's
 * dims. */
hlo tt_view_cut(hlo_module *m, const view_layout *l, const tt_view *v, hlo offset, hlo x);
/* x flat, from the offset on, n elements. */
hlo tt_view_cut_flat(hlo_module *m, const view_layout *l, const tt_view *v, hlo offset, hlo x, int64_t n);
/* The elements' places in the flat base, with the view's dims of l->dims in the view's own order. */
hlo tt_view_places(hlo_module *m, const view_layout *l, const tt_view *v, hlo offset);
/* perm[i] is the place in l->dims of the i-th of these dims in the view's own order. True if that changes nothing. */
bool tt_view_order(const view_layout *l, int *perm);
#endif
