// lend.h: the values of tpu tensors in the host's memory for the time of a collective.
#ifndef TT_DIST_LEND_H
#define TT_DIST_LEND_H
#include <ATen/core/Tensor.h>
#include <functional>

namespace tpu {

// t's values, contiguous on the host; not to be written. No copy where the device's memory is the host's and t is
// contiguous. Waits for what computes them, and holds them as they are now, whatever is written to t later.
at::Tensor readable(const at::Tensor &t);

// Host memory that becomes t's contents.
struct Lent {
  at::Tensor host;           // contiguous, of t's sizes and dtype
  std::function<void()> end; // call once when host has been filled, from any thread: t then has these contents.
                             // Dropped without a call it gives back what was lent.
};
// keep: host begins with t's values. If nobody else has them the memory itself is lent: until end() readers of t wait.
Lent writable(const at::Tensor &t, bool keep);

} // namespace tpu
#endif
