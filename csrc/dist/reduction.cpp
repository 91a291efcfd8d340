// reduction.cpp: a dtype or reduction that the transport lacks is carried as one it has.
//
// Averages are sums that are divided after; premultiplied sums are multiplied before; bools are bytes of which the
// larger or smaller is taken, complex numbers pairs, narrow floats f32.
#include "dist/reduction.h"
#include <ATen/Functions.h>

namespace tpu {

using Op = c10d::ReduceOp;

static c10::ScalarType carried_as(c10::ScalarType t) {
  switch (t) {
    case c10::kBool: return c10::kByte;
    case c10::kShort:
    case c10::kUInt16: return c10::kInt;
    case c10::kUInt32:
    case c10::kUInt64: return c10::kLong; // sums and products wrap alike
    case c10::kComplexFloat: return c10::kFloat;
    case c10::kComplexDouble: return c10::kDouble;
    case c10::kFloat8_e4m3fn:
    case c10::kFloat8_e5m2:
    case c10::kFloat8_e4m3fnuz:
    case c10::kFloat8_e5m2fnuz: return c10::kFloat;
    default: return t;
  }
}

static bool is_bitwise(Op::RedOpType op) { return op == Op::BAND || op == Op::BOR || op == Op::BXOR; }

Reduction::Reduction(const Op &op, c10::ScalarType dtype, int ranks)
    : plain(op), own_(dtype), carried_(carried_as(dtype)) {
  TORCH_CHECK_VALUE(!is_bitwise(op.op_) || c10::isIntegralType(dtype, true), "Cannot use ReduceOp.",
                    op.op_ == Op::BAND  ? "BAND"
                    : op.op_ == Op::BOR ? "BOR"
                                        : "BXOR",
                    " with ", dtype);
  TORCH_CHECK_VALUE(!c10::isComplexType(dtype) || op.op_ == Op::SUM || op.op_ == Op::AVG || op.op_ == Op::PREMUL_SUM,
                    "all_reduce does not support this ReduceOp on complex tensors");
  TORCH_CHECK_VALUE(dtype != c10::kUInt64 || (op.op_ != Op::MIN && op.op_ != Op::MAX),
                    "MIN and MAX of uint64 are not supported");
  if (op.op_ == Op::AVG) {
    divisor_ = ranks;
    plain = Op(Op::SUM);
  } else if (op.op_ == Op::PREMUL_SUM) {
    auto *by = dynamic_cast<c10d::PreMulSumSupplement *>(op.supplement_.get());
    TORCH_CHECK(by, "PREMUL_SUM expects a factor");
    scales_ = true;
    factor_ = by->double_factor;
    if (by->tensor_factor.defined()) factors_ = by->tensor_factor.cpu();
    plain = Op(Op::SUM);
  }
  if (dtype == c10::kBool && plain.op_ == Op::SUM) plain = Op(Op::MAX);
  if (dtype == c10::kBool && plain.op_ == Op::PRODUCT) plain = Op(Op::MIN);
}

at::Tensor Reduction::before(const at::Tensor &x) const {
  at::Tensor y = x;
  if (scales_) y = factors_.defined() ? y.mul_(factors_.to(y.scalar_type())) : y.mul_(factor_);
  if (c10::isComplexType(own_)) return at::view_as_real(y);
  return own_ == carried_ ? y : y.to(carried_);
}

at::Tensor Reduction::combined(const at::Tensor &rows) const {
  switch (plain.op_) {
    case Op::SUM: return rows.sum(0, false, rows.scalar_type());
    case Op::PRODUCT: return rows.prod(0, false, rows.scalar_type());
    case Op::MIN: return rows.amin(0);
    case Op::MAX: return rows.amax(0);
    default: break;
  }
  at::Tensor all = rows[0].clone();
  for (int64_t r = 1; r < rows.size(0); r++) {
    if (plain.op_ == Op::BAND)
      all.bitwise_and_(rows[r]);
    else if (plain.op_ == Op::BOR)
      all.bitwise_or_(rows[r]);
    else
      all.bitwise_xor_(rows[r]);
  }
  return all;
}

void Reduction::after(const at::Tensor &result, const at::Tensor &out) const {
  at::Tensor to = out;
  if (c10::isComplexType(own_)) to = at::view_as_real(to);
  if (divisor_ != 1 && own_ != c10::kBool) {
    if (c10::isFloatingType(carried_))
      result.div_(divisor_);
    else
      result.div_(divisor_, "trunc");
  }
  if (to.const_data_ptr() != result.const_data_ptr()) to.copy_(result.view(to.sizes()));
}

} // namespace tpu
