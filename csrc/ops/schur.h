/* schur.h: the Schur form of square matrices, which geev.c takes eigenvalues and eigenvectors from. */
#ifndef TT_OPS_SCHUR_H
#define TT_OPS_SCHUR_H
#include "ops/op.h"

/* form: [batch, n, n], Z^H A Z, upper triangular but for 2 by 2 blocks where A is real; basis: Z, or NULL if not asked
 * for. failed: bool [batch], where the iteration did not end (what is not finite is among it); NULL where there was
 * none. */
typedef struct tt_schur { hlo form, basis, failed; } tt_schur;
tt_schur tt_matrix_schur(hlo_module *m, hlo a, bool with_basis);
/* Parts of a Hessenberg matrix as [batch, n]: element i is h[i, i], h[i, i - 1] (0 first) or h[i - 1, i] (0 first). */
typedef struct tt_bands { hlo on, below, above; } tt_bands;
tt_bands tt_matrix_bands(hlo_module *m, hlo h);
hlo tt_ahead(hlo_module *m, hlo v, int64_t by); /* [batch, n]: element i is v[i + by], 0 beyond the ends */
#endif
