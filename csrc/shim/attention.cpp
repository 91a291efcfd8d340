// attention.cpp: which calls of F.scaled_dot_product_attention are the flash kernel (torch_tpu/kernels/attention.py).
//
// torch asks a device which of its forms a call takes; what programs for TPUs take is torch's "overrideable" one, whose
// derivative torch knows. Its two operators call the kernels here. All else is torch's plain form, also what the kernel
// would do no better: scores that are no larger than what they are made of.
#include <Python.h>
#include <ATen/Context.h>
#include <ATen/ThreadLocalPythonObjects.h>
#include <ATen/native/transformers/attention.h>
#include <ATen/ops/empty.h>
#include <torch/library.h>
#include "shim/operators.h"
extern "C" {
#include "pjrt/pjrt.h"
}

struct THPVariable;
PyObject *THPVariable_Wrap(const at::TensorBase &);

namespace tpu {

enum Reason : int { FLASH, OFF, GRADIENT, KIND, SHAPE, SMALL, REASONS };
static const char *const reasons[REASONS] = {
    "the flash kernel",
    "plain: torch.nn.attention.sdpa_kernel, or flash(False), says so",
    "plain: dropout, a mask with a gradient, or forward mode",
    "plain: a dtype, sizes that vary, or tensors of another kind",
    "plain: not [batch, heads, length, width] of widths 8 to 256, or heads that do not divide",
    "plain: scores no larger than what they are made of",
};
static std::atomic<int64_t> taken[REASONS];
constexpr int64_t SMALLEST = 128; // rows and columns of scores

// ---- what a thread, and autograd's threads that work for it, wants ----
enum { AS_TARGET, ALWAYS, NEVER, FOR_TPU, WANTS };
using Objects = at::impl::ThreadLocalPythonObjects;
static const std::string wants[WANTS] = {"", "torch_tpu.flash", "torch_tpu.no_flash", "torch_tpu.flash_for_tpu"};

static int wanted() {
  for (int i = AS_TARGET + 1; i < WANTS; i++)
    if (Objects::contains(wants[i])) return i;
  return AS_TARGET;
}

static int64_t want(int64_t how) { // returns what it was
  TORCH_CHECK(how >= AS_TARGET && how < WANTS, "expected 0 to 3, got ", how);
  const int before = wanted();
  if (before) Objects::erase(wants[before]);
  if (how) Objects::set(wants[how], nullptr);
  return before;
}

// DTensors take torch's operator wherever they can: of its plain form torch cannot place all that is made. Whether the
// kernel does it is then up to each part. Within torch's context_parallel attention of DTensors is a ring, which
// torch_tpu/distributed/attention.py makes.
static std::atomic<bool> is_ring;

static void set_ring(bool on) {
  is_ring = on;
}

static bool is_distributed(const at::Tensor &t) {
  if (!t.unsafeGetTensorImpl()->key_set().has(c10::DispatchKey::Python)) return false;
  Gil gil;
  PyObject *x = THPVariable_Wrap(t);
  bool found = x && !strcmp(Py_TYPE(x)->tp_name, "DTensor");
  Py_XDECREF(x);
  return found;
}

static Reason reason_of(const at::Tensor &q, const at::Tensor &k, const at::Tensor &v,
                        const std::optional<at::Tensor> &mask, double dropout, bool forced) {
  const auto &context = at::globalContext();
  if (!context.userEnabledFlashSDP() && (context.userEnabledMathSDP() || !context.userEnabledOverrideableSDP()))
    return OFF;
  const bool masked = mask && mask->defined();
  std::vector<at::Tensor> all{q, k, v};
  if (masked) all.push_back(*mask);
  if (dropout != 0 || (masked && mask->requires_grad() && c10::GradMode::is_enabled())) return GRADIENT;
  for (const at::Tensor &t : all) {
    const auto *impl = t.unsafeGetTensorImpl();
    if (t.device().type() != kTpu || t.is_nested() || impl->has_symbolic_sizes_strides() ||
        impl->key_set().has(c10::DispatchKey::FuncTorchBatched))
      return KIND;
    if (t._fw_grad(0).defined()) return GRADIENT;
  }
  const c10::ScalarType type = q.scalar_type();
  if ((type != at::kFloat && type != at::kBFloat16 && type != at::kHalf) || k.scalar_type() != type ||
      v.scalar_type() != type)
    return KIND;
  if (q.dim() != 4 || k.dim() != 4 || v.dim() != 4 || (masked && mask->dim() > 4)) return SHAPE;
  const auto fits = [](int64_t width) { return width >= 8 && width <= 256; };
  if (k.size(0) != q.size(0) || v.size(0) != q.size(0) || k.size(1) != v.size(1) || k.size(2) != v.size(2) ||
      k.size(3) != q.size(3) || !fits(q.size(3)) || !fits(v.size(3)) || !k.size(1) || q.size(1) % k.size(1))
    return SHAPE;
  for (int64_t i = 1; masked && i <= mask->dim(); i++) {
    const int64_t full = i == 1 ? k.size(2) : q.size(4 - i), have = mask->size(mask->dim() - i);
    if (have != full && have != 1) return SHAPE; // torch says what is wrong
  }
  if (!q.numel() || !k.numel() || (!forced && (q.size(2) < SMALLEST || k.size(2) < SMALLEST))) return SMALL;
  return FLASH;
}

int64_t choice(const at::Tensor &q, const at::Tensor &k, const at::Tensor &v,
                      const std::optional<at::Tensor> &mask, double dropout, bool, std::optional<double>, bool gqa) {
  const int how = wanted();
  const bool parts = is_distributed(q), counts = how != AS_TARGET || tt_client_lowers_for_tpu(client());
  if (!counts && !parts) return static_cast<int64_t>(at::SDPBackend::math);
  Reason why = how == NEVER && !parts ? OFF : reason_of(q, k, v, mask, dropout, how == ALWAYS || parts);
  if (parts && is_ring) // the plain form would take a part's rows for those of the whole
    TORCH_CHECK_NOT_IMPLEMENTED(why == FLASH && !(mask && mask->defined()),
                                "context_parallel on tpu takes attention of [batch, heads, length, width] without "
                                "dropout or a mask, which torch.nn.attention.sdpa_kernel has not made plain; this is ",
                                why == FLASH ? "masked" : reasons[why]);
  if (why == FLASH && !gqa && q.size(1) != k.size(1)) why = SHAPE; // torch says what is wrong
  if (counts) taken[how == NEVER ? OFF : why].fetch_add(1, std::memory_order_relaxed);
  return static_cast<int64_t>(why == FLASH ? at::SDPBackend::overrideable : at::SDPBackend::math);
}

static std::tuple<std::vector<std::string>, std::vector<int64_t>> choices() {
  std::tuple<std::vector<std::string>, std::vector<int64_t>> found;
  for (int i = 0; i < REASONS; i++) {
    std::get<0>(found).emplace_back(reasons[i]);
    std::get<1>(found).push_back(taken[i].load(std::memory_order_relaxed));
  }
  return found;
}

// ---- torch's operators ----
static c10::OperatorHandle kernel(const char *name) {
  auto &dispatcher = c10::Dispatcher::singleton();
  auto found = dispatcher.findSchema({name, ""});
  if (!found) {
    Gil gil;
    PyObject *module = PyImport_ImportModule("torch_tpu.kernels.attention"); // which registers them
    if (!module) PyErr_Print();
    Py_XDECREF(module);
    found = dispatcher.findSchema({name, ""});
  }
  TORCH_CHECK(found, name, " cannot be registered");
  return *found;
}

// x in the order of like's strides, as torch says of results.
static at::Tensor laid_out_like(const at::Tensor &x, const at::Tensor &like) {
  std::vector<int64_t> order(static_cast<size_t>(like.dim())), back(order.size());
  for (size_t i = 0; i < order.size(); i++) order[i] = static_cast<int64_t>(i);
  std::stable_sort(order.begin(), order.end(), [&](int64_t a, int64_t b) { return like.stride(a) > like.stride(b); });
  if (std::is_sorted(order.begin(), order.end())) return x;
  for (size_t i = 0; i < order.size(); i++) back[static_cast<size_t>(order[i])] = static_cast<int64_t>(i);
  return x.permute(order).contiguous().permute(back);
}

static std::optional<at::Tensor> four_dims(const std::optional<at::Tensor> &mask) {
  if (!mask || !mask->defined()) return std::nullopt;
  at::Tensor m = *mask;
  while (m.dim() < 4) m = m.unsqueeze(0);
  return m;
}

static double scale_of(const at::Tensor &q, std::optional<double> scale) {
  return scale ? *scale : 1.0 / std::sqrt(static_cast<double>(q.size(3)));
}

// What the kernel is told of products; -1 if plain torch does it, as elsewhere than in programs for TPUs.
static int64_t precision(const at::Tensor &q, const at::Tensor &k) {
  const int how = wanted();
  const bool is_large = q.numel() && k.numel() && q.size(2) >= SMALLEST && k.size(2) >= SMALLEST;
  if (how != ALWAYS && (how == NEVER || !is_large || !(how == FOR_TPU || tt_client_lowers_for_tpu(client())))) return -1;
  return q.scalar_type() == at::kFloat ? static_cast<int64_t>(at::globalContext().float32MatmulPrecision()) : 0;
}

static std::tuple<at::Tensor, at::Tensor, at::Tensor, at::Tensor, c10::SymInt, c10::SymInt, at::Tensor, at::Tensor,
                  at::Tensor>
attention(const at::Tensor &q, const at::Tensor &k, const at::Tensor &v, const std::optional<at::Tensor> &mask,
          double dropout, bool causal, bool debug, std::optional<double> scale) {
  TORCH_CHECK_NOT_IMPLEMENTED(dropout == 0 && !debug, "the flash kernel has no dropout");
  static const auto op = kernel("torch_tpu_kernels::flash_forward")
                             .typed<std::tuple<at::Tensor, at::Tensor>(
                                 const at::Tensor &, const at::Tensor &, const at::Tensor &,
                                 const std::optional<at::Tensor> &, bool, double, int64_t)>();
  auto [out, logs] = op.call(q, k, v, four_dims(mask), causal, scale_of(q, scale), precision(q, k));
  at::Tensor none = at::empty({}, q.options().dtype(at::kLong)); // of a dropout that there is not
  return {laid_out_like(out, q), logs, at::Tensor(), at::Tensor(), q.size(2), k.size(2), none, none, at::Tensor()};
}

static std::tuple<at::Tensor, at::Tensor, at::Tensor, at::Tensor>
attention_backward(const at::Tensor &gradient, const at::Tensor &q, const at::Tensor &k, const at::Tensor &v,
                   const at::Tensor &mask, std::array<bool, 4> asked, const at::Tensor &out, const at::Tensor &logs,
                   const at::Tensor &, const at::Tensor &, c10::SymInt, c10::SymInt, double dropout, bool causal,
                   const at::Tensor &, const at::Tensor &, std::optional<double> scale) {
  TORCH_CHECK_NOT_IMPLEMENTED(dropout == 0 && !asked[3],
                              "the flash kernel has no dropout and no gradient of its mask");
  static const auto op =
      kernel("torch_tpu_kernels::flash_backward")
          .typed<std::tuple<at::Tensor, at::Tensor, at::Tensor>(
              const at::Tensor &, const at::Tensor &, const at::Tensor &, const at::Tensor &,
              const std::optional<at::Tensor> &, const at::Tensor &, const at::Tensor &, bool, double, int64_t)>();
  auto [dq, dk, dv] = op.call(gradient, q, k, v, four_dims(mask), out, logs, causal, scale_of(q, scale), precision(q, k));
  return {laid_out_like(dq, q), laid_out_like(dk, k), laid_out_like(dv, v), at::Tensor()};
}

void register_attention() {
  static auto &defs = *new torch::Library(torch::Library::FRAGMENT, "torch_tpu", std::nullopt, __FILE__, __LINE__);
  defs.def("attention_wants(int how) -> int", TORCH_FN(want));
  defs.def("attention_ring(bool on) -> ()", TORCH_FN(set_ring));
  defs.def("attention_choices() -> (str[], int[])", TORCH_FN(choices));
  static auto &aten = *new torch::Library(torch::Library::IMPL, "aten", c10::DispatchKey::PrivateUse1, __FILE__,
                                          __LINE__);
  aten.impl("_scaled_dot_product_fused_attention_overrideable", TORCH_FN(attention));
  aten.impl("_scaled_dot_product_fused_attention_overrideable_backward", TORCH_FN(attention_backward));
}

} // namespace tpu

namespace at::native {
REGISTER_PRIVATEUSE1_DISPATCH(_fused_sdp_choice_stub, &tpu::choice)
}
