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
  at::Tensor host; // contiguous, of t's sizes and dtype. While it lives so does the memory, whatever becomes of t
  // Call once, from any thread, when nobody writes to host any more. filled: t has these contents from then on; else
  // what was lent is only given back.
  std::function<void(bool filled)> end;
};
// keep: host begins with t's values. If nobody else has them the memory itself is lent: until end() readers of t wait.
Lent writable(const at::Tensor &t, bool keep);

} // namespace tpu
#endif
