/* log.c: lines on stderr for whoever asked for them with TORCH_TPU_LOG.
 *
 * Silent unless asked. A line is written by one call, so lines of several threads do not mix. Refuses to allocate and
 * to format anything while the level is 0. */
#include <stdarg.h>
#include <stdio.h>
#include <unistd.h>
#include "base/base.h"

int tt_log_level = 0;

__attribute__((constructor)) static void read_level(void) { tt_log_level = (int)tt_env_int("TORCH_TPU_LOG", 0); }

void tt_log(const char *format, ...) {
  if (!tt_log_level) return;
  static const char prefix[] = "torch_tpu: ";
  char line[1024];
  int at = (int)sizeof prefix - 1, room = (int)sizeof line - at - 1;
  va_list ap;
  va_start(ap, format);
  snprintf(line, sizeof line, "%s", prefix);
  int n = vsnprintf(line + at, (size_t)room, format, ap);
  va_end(ap);
  if (n < 0) return;
  if (n >= room) n = room - 1;
  line[at + n] = '\n';
  if (write(STDERR_FILENO, line, (size_t)(at + n + 1)) < 0) return; /* nobody to tell */
}
