/* period.c: loops that nobody reads from: where they repeat.
 *
 * A training loop without a host read fills windows to their limit, and the limit falls somewhere else in the loop's body
 * each time: no window would ever be like another. So the operators of the last windows are kept as numbers; if their tail
 * is periodic, windows end at whole periods, or, where a period is longer than a window may be, at the same places of each. */
#include <string.h>
#include "graph/window.h"

void tt_period_note(tt_window *w) {
  uint32_t n = w->records.n < HISTORY ? w->records.n : HISTORY;
  w->position += w->records.n;
  if (!w->history && !(w->history = tt_alloc(2 * HISTORY * sizeof *w->history))) return;
  if (w->n_history + n > 2 * HISTORY) {
    memmove(w->history, w->history + w->n_history - (HISTORY - n), (HISTORY - n) * sizeof *w->history);
    w->n_history = HISTORY - n;
  }
  for (uint32_t i = w->records.n - n; i < w->records.n; i++)
    w->history[w->n_history++] = (uint32_t)w->records.at[i].plan->words[0]; /* the operator's id */
}

/* The shortest period of the history's tail that it shows twice, by the failure function of the reversed history. */
static uint32_t shortest(const tt_window *w) {
  uint32_t n = w->n_history;
  uint32_t *fail = tt_alloc((n + 1) * sizeof *fail);
  if (!fail || n < 2) return tt_free(fail), 0;
  const uint32_t *last = w->history + n - 1;
  uint32_t found = 0;
  for (uint32_t i = 1, k = 0; i < n && !found; i++) {
    while (k && *(last - i) != *(last - k)) k = fail[k];
    if (*(last - i) == *(last - k)) k++;
    fail[i + 1] = k;
    uint32_t period = i + 1 - k;
    if (k >= period && i + 1 >= 64) found = period; /* twice, and not by chance */
  }
  tt_free(fail);
  return found;
}

uint32_t tt_period_cut(tt_window *w, uint32_t limit) {
  uint32_t period = shortest(w);
  if (period != w->period) w->anchor = w->position;
  w->period = period;
  if (!period) return 0;
  uint32_t wanted = period < SHORT ? LARGE : MEDIUM;
  if (period <= limit) return period >= wanted ? period : period * (wanted / period);
  uint32_t pieces = (period + limit - 1) / limit, piece = (period + pieces - 1) / pieces;
  uint32_t at = (uint32_t)((w->position - w->anchor) % period), next = (at / piece + 1) * piece;
  return (next < period ? next : period) - at;
}
