/* period.c: loops that nobody reads from: where they repeat.
 *
 * A training loop without a host read fills windows to their limit, and the limit falls somewhere else in the loop's
 * body each time: no window would ever be like another. So the operators of the last windows are kept as numbers; if
 * their tail is periodic, windows end at whole periods, or, where a period is longer than a window may be, at the same
 * places of each. A loop that is met again, after something else, is cut where it was cut last time: loops are known by
 * their least rotation. */
#include <string.h>
#include "graph/window.h"

void tt_period_note(tt_window *w) {
  uint32_t n = w->records.n < HISTORY ? w->records.n : HISTORY;
  if (!w->history && !(w->history = tt_alloc(2 * HISTORY * sizeof *w->history))) return;
  if (w->n_history + n > 2 * HISTORY) {
    memmove(w->history, w->history + w->n_history - (HISTORY - n), (HISTORY - n) * sizeof *w->history);
    w->n_history = HISTORY - n;
  }
  for (uint32_t i = w->records.n - n; i < w->records.n; i++)
    w->history[w->n_history++] = (uint32_t)w->records.at[i].plan->words[0]; /* the operator's id */
}

/* The shortest period of the history's tail that it shows twice, by the failure function of the reversed history; of a
 * known one a shorter tail is enough. */
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
    if (k >= period && (i + 1 >= 64 || period == w->period)) found = period; /* twice, and not by chance */
  }
  tt_free(fail);
  return found;
}

/* Where the least rotation of n operators begins (two candidates are compared until one of them loses). */
static uint32_t least_rotation(const uint32_t *a, uint32_t n) {
  uint32_t i = 0, j = 1;
  for (uint32_t k = 0; i < n && j < n && k < n;) {
    uint32_t x = a[(i + k) % n], y = a[(j + k) % n];
    if (x == y) {
      k++;
      continue;
    }
    if (x > y) i += k + 1;
    else j += k + 1;
    j += i == j;
    k = 0;
  }
  return i < j ? i : j;
}

/* How many records ago a period began: where windows ended in the loop when it was met last, else now. */
static uint32_t since_start(tt_window *w, uint32_t period) {
  const uint32_t *last = w->history + w->n_history - period;
  uint32_t least = least_rotation(last, period), since = (period - least) % period;
  uint64_t loop = period;
  for (uint32_t i = 0; i < period; i++)
    loop = (loop ^ last[(least + i) % period]) * 0x9E3779B97F4A7C15ull, loop ^= loop >> 29;
  tt_loop *known = &w->loops[loop % LOOPS];
  if (known->hash != loop) *known = (tt_loop){loop, since};
  return (since + period - known->start) % period;
}

uint32_t tt_period_cut(tt_window *w, uint32_t limit) {
  uint32_t period = shortest(w);
  if (!period) return 0;
  w->period = period;
  uint32_t at = since_start(w, period);
  uint32_t wanted = period < SHORT ? LARGE : MEDIUM;
  if (period <= limit) return (period >= wanted ? period : period * (wanted / period)) - at;
  uint32_t pieces = (period + limit - 1) / limit, piece = (period + pieces - 1) / pieces,
           next = (at / piece + 1) * piece;
  return (next < period ? next : period) - at;
}
