// reduction.h: reductions of any dtype by a transport that knows a few.
#ifndef TT_DIST_REDUCTION_H
#define TT_DIST_REDUCTION_H
#include <torch/csrc/distributed/c10d/Types.hpp>

namespace tpu {

// How op is done on tensors of a dtype: give the transport before(x) and plain; after(result, out) then writes into
// out.
class Reduction {
public:
  Reduction(const c10d::ReduceOp &op, c10::ScalarType dtype,
            int ranks); // throws for what has no meaning, as bits of floats
  c10d::ReduceOp plain;
  bool scales() const { return scales_; } // before() then writes into its argument
  // Of host memory that may be written: x itself where the transport can reduce it in place.
  at::Tensor before(const at::Tensor &x) const;
  void after(const at::Tensor &result, const at::Tensor &out) const;
  at::Tensor combined(const at::Tensor &rows) const; // of carried values: what plain makes of the rows

private:
  c10::ScalarType own_, carried_;
  int64_t divisor_ = 1;
  bool scales_ = false;
  double factor_ = 1;
  at::Tensor factors_;
};

} // namespace tpu
#endif
