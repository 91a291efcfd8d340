// sparse.cpp: sparse COO and CSR tensors on the device: indices and values are tpu tensors, held by torch's own sparse
// tensors.
//
// torch's sparse kernels for the CPU come in two kinds. Those that only compose operators on indices and values
// (making, taking apart, cloning, elementwise functions of the values) ask nothing of the device: they are called as
// they are. Those that read memory cannot be: torch_tpu._sparse computes the usual ones on the device, and the rest
// goes to the host, counted like every other fallback.
#include <torch/library.h>
#include <unordered_set>
#include "shim/operators.h"

namespace tpu {

static bool composed_of_operators(const std::string &base) {
  static const std::unordered_set<std::string> names = {
      // making, taking apart, copying
      "_coalesced", "_dimI", "_dimV", "_indices", "_nnz", "_values", "indices", "values", "is_coalesced", "sparse_dim",
      "dense_dim", "crow_indices", "col_indices", "ccol_indices", "row_indices", "_sparse_broadcast_to",
      "_sparse_coo_tensor_with_dims", "_sparse_coo_tensor_with_dims_and_tensors", "copy", "copy_sparse_to_sparse",
      "clone", "empty", "empty_like", "permute", "unsqueeze", "resize_as_sparse", "sparse_resize",
      "sparse_resize_and_clear", "zero", "zeros", "cat", "_to_dense", "_to_sparse", "norm", "native_norm",
      "_to_sparse_csr", "_to_sparse_csc", "_to_sparse_bsr", "_to_sparse_bsc", "view_as_real", "view_as_complex",
      "_pin_memory", "is_pinned", "resize",
      // functions of each value
      "abs", "angle", "asin", "asinh", "atan", "atanh", "ceil", "conj_physical", "_conj_physical", "deg2rad", "erf",
      "erfinv", "expm1", "floor", "frac", "isinf", "isnan", "isneginf", "isposinf", "log1p", "nan_to_num", "neg",
      "rad2deg", "relu", "round", "sgn", "sign", "signbit", "sin", "sinh", "sqrt", "tan", "tanh", "trunc", "pow",
      "fill", "threshold_backward"};
  return names.count(!base.empty() && base.back() == '_' ? base.substr(0, base.size() - 1) : base);
}

// Called with the device's tensors: what it composes comes back through the dispatcher.
template <c10::DispatchKey host>
static void as_on_host(const c10::OperatorHandle &op, c10::DispatchKeySet, torch::jit::Stack *stack) {
  op.redispatchBoxed(c10::DispatchKeySet(host), stack);
}

// Sparse arguments go to the host as sparse tensors, and what is written comes back into them.
static void run_on_host(const c10::OperatorHandle &op, torch::jit::Stack *stack) {
  const auto &arguments = op.schema().arguments();
  size_t base = stack->size() - arguments.size();
  c10::Device device(kTpu, current_device());
  std::vector<std::pair<at::Tensor, at::Tensor>> written; // ours and the host's
  auto host = [&](const at::Tensor &t) { return t.defined() && t.device().type() == kTpu ? t.cpu() : t; };
  for (size_t i = 0; i < arguments.size(); i++) {
    c10::IValue &v = (*stack)[base + i];
    if (v.isTensor()) {
      at::Tensor own = v.toTensor();
      v = host(own);
      if (arguments[i].alias_info() && arguments[i].alias_info()->isWrite()) written.emplace_back(own, v.toTensor());
    } else if (v.isTensorList()) {
      c10::List<at::Tensor> list;
      for (const at::Tensor &t : v.toTensorVector()) list.push_back(host(t));
      v = list;
    } else if (v.isDevice() && v.toDevice().type() == kTpu) {
      v = c10::Device(c10::kCPU);
    }
  }
  op.callBoxed(stack);
  for (auto &w : written) {
    if (w.first.layout() == at::kStrided && w.first.sizes() != w.second.sizes()) w.first.resize_(w.second.sizes());
    w.first.copy_(w.second);
  }
  for (c10::IValue &v : *stack) {
    if (!v.isTensor() || !v.toTensor().defined()) continue;
    at::Tensor result = v.toTensor();
    v = result.to(device);
    for (auto &w : written)
      if (w.second.is_same(result)) v = w.first;
  }
}

static void on_host(const c10::OperatorHandle &op, c10::DispatchKeySet, torch::jit::Stack *stack) {
  fall_back(entry_of(op), stack, run_on_host);
}

template <c10::DispatchKey host> static void register_layout(c10::DispatchKey key) {
  auto &rest = *new torch::Library(torch::Library::IMPL, "_", key, __FILE__, __LINE__);
  rest.fallback(torch::CppFunction::makeFromBoxedFunction<&on_host>());
  auto &aten = *new torch::Library(torch::Library::IMPL, "aten", key, __FILE__, __LINE__);
  auto &dispatcher = c10::Dispatcher::singleton();
  for (const auto &n : dispatcher.getAllOpNames()) {
    if (n.name.compare(0, 6, "aten::") != 0 || !composed_of_operators(n.name.substr(6))) continue;
    auto op = dispatcher.findSchema(n);
    // _sparse.py
    bool by_stub = key == c10::DispatchKey::SparseCsrPrivateUse1 && n.name.compare(0, 17, "aten::_to_sparse_") == 0;
    if (op && !by_stub && op->hasKernelForDispatchKey(host))
      aten.impl(n.overload_name.empty() ? n.name.c_str() : (n.name + "." + n.overload_name).c_str(),
                torch::CppFunction::makeFromBoxedFunction<&as_on_host<host>>());
  }
}

void register_sparse() {
  using c10::DispatchKey;
  register_layout<DispatchKey::SparseCPU>(DispatchKey::SparsePrivateUse1);
  register_layout<DispatchKey::SparseCsrCPU>(DispatchKey::SparseCsrPrivateUse1);
  // Dense tensors made sparse: composed of nonzero, gathers and reshapes.
  static auto &dense = *new torch::Library(torch::Library::IMPL, "aten", DispatchKey::PrivateUse1, __FILE__, __LINE__);
  for (const char *name : {"_to_sparse", "_to_sparse.sparse_dim", "_to_sparse_csr", "_to_sparse_csc", "_to_sparse_bsr",
                           "_to_sparse_bsc"})
    dense.impl(name, torch::CppFunction::makeFromBoxedFunction<&as_on_host<DispatchKey::CPU>>());
}

} // namespace tpu
