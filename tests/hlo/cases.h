/* cases.h: the modules that the golden and compile tests build: a row per module. */
#ifndef TT_TEST_CASES_H
#define TT_TEST_CASES_H
#include "hlo/hlo.h"

typedef struct hlo_case_result { int n; hlo results[64]; int donated[16]; bool donates; } hlo_case_result;
typedef struct hlo_case {
  const char *name;
  void (*build)(hlo_module *m, hlo_case_result *out);
} hlo_case;
/* In view_cases.c: the same views with constant offsets and, where the offset may change at run time, with that. */
void case_view_read(hlo_module *m, hlo_case_result *o);
void case_view_read_moving(hlo_module *m, hlo_case_result *o);
void case_view_write(hlo_module *m, hlo_case_result *o);
void case_view_write_moving(hlo_module *m, hlo_case_result *o);
extern const hlo_case hlo_cases[];
extern const int hlo_case_count;
/* Builds a case; the text is the module's, which the caller destroys. NULL on an error. */
const char *hlo_case_text(const hlo_case *c, hlo_module **m, size_t *length, tt_error *err);
#endif
