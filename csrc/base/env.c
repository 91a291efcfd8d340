/* env.c: every environment variable there is, with its meaning: the docs print this table.
 *
 * A name that does not stand here cannot be read, so no variable goes undocumented. Refuses to cache: a program may set
 * a variable before its first use of the device. */
#include <assert.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include "base/base.h"

const tt_env_row tt_env_table[] = {
  {"TORCH_TPU_CACHE", "0 keeps compiled programs in memory only, not on disk"},
  {"TORCH_TPU_CACHE_BYTES", "how large the folder of compiled programs may grow; 4294967296 if unset"},
  {"TORCH_TPU_CACHE_DIR", "folder of compiled programs; $XDG_CACHE_HOME/torch_tpu or ~/.cache/torch_tpu if unset"},
  {"TORCH_TPU_CACHE_ONLY", "1 makes an error of each program that would have to be compiled: only what a cache holds runs"},
  {"TORCH_TPU_CACHE_SHARED", "folder of compiled programs that machines share: read after this machine's, written like it; none if unset"},
  {"TORCH_TPU_CHECK_NONFINITE", "1: with TORCH_TPU_EAGER_MODE=debug the operator that makes the first nan or infinity raises"},
  {"TORCH_TPU_CPU_DEVICES", "how many devices the CPU plugin shows; 1 if unset"},
  {"TORCH_TPU_DEFER_AND_FUSE", "1 is TORCH_TPU_EAGER_MODE=fuse, which goes first"},
  {"TORCH_TPU_DUMP", "folder that gets the StableHLO text of every program, as <digest>.mlir"},
  {"TORCH_TPU_EAGER_MODE", "strict (the default), debug (calls wait, and indices and the like are checked as on the CPU) or fuse"},
  {"TORCH_TPU_ENABLE_DEBUG_CHECKS", "1 checks indices and the like in every mode, as debug does; calls without any do not wait"},
  {"TORCH_TPU_EXECUTABLES", "how many programs are loaded at once before the longest unused go; if unset, as many as half of vm.max_map_count memory maps hold"},
  {"TORCH_TPU_FALLBACK", "operators that can only run on the CPU: warn (once each, the default), error or silent"},
  {"TORCH_TPU_JOIN", "0 runs compiled graphs one by one; else those of a step are one program"},
  {"TORCH_TPU_KEEP_STEPS", "1 keeps what torch_tpu.compile_step recorded for other processes; not yet for steps that use attributes of classes"},
  {"TORCH_TPU_LAUNCH_BLOCKING", "1 waits for the results of each call in every mode, so that what fails raises at its line"},
  {"TORCH_TPU_LOG", "1 logs decisions (compiles, cache hits), 2 logs each execution as well; to stderr"},
  {"TORCH_TPU_PLANS", "how many kinds of calls are remembered, with their programs in memory, before the longest unused go; no bound if unset"},
  {"TORCH_TPU_PLUGIN", "path of the PJRT plugin to load; found by itself if unset"},
  {"TORCH_TPU_TARGET", "tpu or cpu: what programs are written for; the plugin's own platform if unset"},
  {"TORCH_TPU_TRACE_STACKS", "1 remembers the line of each call, for the messages of what fails later and of a full memory"},
  {"TORCH_TPU_XLA_OPTIONS", "options for the compiler, as name=value,name=value"},
  {NULL, NULL},
};

const char *tt_env(const char *name) {
#ifndef NDEBUG
  const tt_env_row *row = tt_env_table;
  while (row->name && strcmp(row->name, name)) row++;
  assert(row->name && "the variable stands in tt_env_table");
#endif
  const char *value = getenv(name);
  return value && *value ? value : NULL;
}

int64_t tt_env_int(const char *name, int64_t otherwise) {
  const char *text = tt_env(name);
  if (!text) return otherwise;
  char *end;
  errno = 0;
  long long v = strtoll(text, &end, 10);
  return errno || *end ? otherwise : v;
}
