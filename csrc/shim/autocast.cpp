// autocast.cpp: torch.autocast("tpu"): torch's own lists of operators and policies, for this device.
//
// Lower precision is bfloat16 unless asked otherwise (torch_tpu says which dtypes it takes). What is not listed runs in
// the dtypes it is given.
#include <ATen/Operators.h>
#include <ATen/autocast_mode.h>
#include "shim/shim.h"

namespace at::autocast {

static Tensor refuse_binary_cross_entropy(const Tensor &, const Tensor &, const std::optional<Tensor> &, int64_t) {
  TORCH_CHECK(
      false,
      "binary_cross_entropy is unsafe under autocast: its input is a probability, which low precision rounds to 0 or "
      "1. Use binary_cross_entropy_with_logits without the sigmoid before it, or disable autocast around the loss.");
}

TORCH_LIBRARY_IMPL(_, AutocastPrivateUse1, m) { m.fallback(torch::CppFunction::makeFallthrough()); }

TORCH_LIBRARY_IMPL(aten, AutocastPrivateUse1, m) {
#define LOWER(...) KERNEL_PRIVATEUSEONE(__VA_ARGS__, lower_precision_fp)
#define FP32(...) KERNEL_PRIVATEUSEONE(__VA_ARGS__, fp32)
#define FP32_DTYPE(...) KERNEL_PRIVATEUSEONE(__VA_ARGS__, fp32_set_opt_dtype)
#define PROMOTE(...) KERNEL_PRIVATEUSEONE(__VA_ARGS__, promote)
  AT_FORALL_LOWER_PRECISION_FP(LOWER)
  AT_FORALL_FP32(FP32)
  AT_FORALL_FP32_SET_OPT_DTYPE(FP32_DTYPE)
  AT_FORALL_DIFFERENT_REDISPATCH_SIGNATURE(KERNEL_DIFFERENT_REDISPATCH_SIGNATURE_PRIVATEUSEONE)
  AT_FORALL_PROMOTE(PROMOTE)
  KERNEL_PRIVATEUSEONE(cat, promote)
  KERNEL_PRIVATEUSEONE(stack, promote)
  m.impl(TORCH_SELECTIVE_NAME("aten::binary_cross_entropy"), TORCH_FN(refuse_binary_cross_entropy));
}

} // namespace at::autocast

namespace tpu {
void register_autocast() { at::autocast::set_autocast_dtype(c10::DeviceType::PrivateUse1, c10::kBFloat16); }
} // namespace tpu
