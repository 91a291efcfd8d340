/* foreign.h: functions in StableHLO that others wrote (kernels), as parts of our modules.
 *
 * A text is registered once under its key, from then on for ever. A module that calls it prints it once; a program that
 * becomes a part of another (hlo_function) tells what it calls, so that the other module can print that. */
#ifndef TT_HLO_FOREIGN_H
#define TT_HLO_FOREIGN_H
#include "hlo/hlo.h"

typedef struct hlo_foreign hlo_foreign;

/* text: "func.func private @..." one or more, whose names nobody else uses; entry: the one to call. A key that is there
 * keeps what it has. Any thread. RESOURCE_EXHAUSTED without memory. */
tt_code hlo_foreign_register(const char *key, const char *entry, const char *text, size_t length, tt_error *err);
const hlo_foreign *hlo_foreign_find(const char *key); /* NULL: nobody registered it. Borrowed for ever; any thread */

/* results: of these types, which have to be the function's: that is not checked here. */
void hlo_call_foreign(hlo_module *m, const hlo_foreign *f, int n, const hlo *xs, int n_results, const hlo_type *types,
                      hlo *results);
/* Makes the module print f, which one of its functions calls. */
void hlo_use_foreign(hlo_module *m, const hlo_foreign *f);
/* What the module calls so far, the arena's; count entries. */
const hlo_foreign *const *hlo_foreign_used(const hlo_module *m, uint32_t *count);
#endif
