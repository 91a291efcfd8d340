/* explain.h: what was compiled, and for which calls. Any thread. */
#ifndef TT_EXPLAIN_H
#define TT_EXPLAIN_H
#include "tt.h"
/* Remembers a compile; call: what asked for it, NULL: a window of DeferAndFuse. The last LIMIT are kept. */
void tt_explain_compile(const tt_call *call, double milliseconds);
/* each(user, operator, parts, place, milliseconds) for each compile that is remembered, in order. parts: what its key
 * says, a line each, "self: float32[3]"; place: the line that asked, if lines are traced, else "". The strings live for
 * the call. */
void tt_explain_each(void (*each)(void *user, const char *op, const char *parts, const char *place,
                                  double milliseconds),
                     void *user);
void tt_explain_clear(void); /* forgets them all */
#endif
