// meta.cpp: asks torch what a call returns; and for a call whose sizes vary, what it would return with others.
//
// A program for all sizes up to a capacity is built from answers at the capacity and one below it: what changes is a
// size that varies, and a call that torch takes at both it takes at all.
#include <ATen/core/LegacyTypeDispatch.h>
#include <cstring>
#include "shim/meta.h"

namespace tpu {

// Who says what a call returns: torch_tpu/_meta.py where torch's Meta kernel is not the CPU's.
static c10::OperatorHandle meta_of(const Entry &e) {
  const c10::OperatorName &name = e.handle.operator_name();
  if (name.name.compare(0, 6, "aten::") == 0)
    if (auto own = c10::Dispatcher::singleton().findSchema({"torch_tpu::" + name.name.substr(6), name.overload_name}))
      return *own;
  return e.handle;
}

// False if torch cannot say: no Meta kernel, or what is returned depends on values. A call that Meta refuses raises.
bool meta_outputs(Entry &e, const c10::IValue *args, Outputs &out, MetaArgs &meta) {
  bool fresh = !e.outs.empty(); // what returns its arguments, or nothing, can do without an answer
  for (const ReturnInfo &r : e.returns) fresh |= r.alias < 0;
  c10::OperatorHandle asked = meta_of(e);
  if (!asked.hasComputedKernelForDispatchKey(c10::DispatchKey::Meta)) return !fresh;
  torch::jit::Stack stack;
  std::vector<Kind> kinds(e.n_stack, Kind::None);
  for (const ArgInfo &info : e.args)
    if (info.stack >= 0) kinds[info.stack] = info.kind;
  for (int i = 0; i < e.n_stack; i++) stack.push_back(meta.value({kinds[i], static_cast<int16_t>(i), {}}, args[i]));
  for (int16_t i : e.outs) each_tensor(stack[i], [&](const at::Tensor &t) { out.outs.push_back(t); });
  try {
    at::AutoDispatchBelowADInplaceOrView below;
    c10::impl::ExcludeDispatchKeyGuard no_autocast(c10::autocast_dispatch_keyset);
    asked.callBoxed(stack);
  } catch (const c10::NotImplementedError &) { // torch's fallback for Meta ends here too
    return !fresh;
  } catch (const std::exception &x) {
    // A Meta kernel written in Python: the exception is carried as text behind its type's name.
    if (std::strncmp(x.what(), "NotImplementedError", 19) == 0) return !fresh;
    throw;
  }
  size_t k = 0;
  for (const ReturnInfo &r : e.returns) {
    const c10::IValue &v = stack[k++];
    if (r.alias >= 0) continue;
    if (r.list)
      for (const at::Tensor &t : v.toTensorVector()) out.tensors.push_back(t);
    else
      out.tensors.push_back(v.isTensor() ? v.toTensor() : at::Tensor());
  }
  for (const at::Tensor &t : out.tensors) out.add(t);
  return true;
}

bool meta_outputs(Entry &e, const c10::IValue *args, Outputs &out) {
  MetaArgs meta;
  return meta_outputs(e, args, out, meta);
}

// ---- sizes that vary ----

namespace {
// Tensors as they would be with other sizes: at capacity, or one of the call's symbols one below it.
struct BucketArgs final : MetaArgs {
  BucketArgs(tt_call *c, int less) : call(c), less(less) {}
  tt_call *call;
  int less;
  at::Tensor tensor(const at::Tensor &x) override {
    at::Tensor m = MetaArgs::tensor(x);
    if (!x.defined() || x.is_cpu()) return m;
    tt_tensor t = tensor_of(x.unsafeGetTensorImpl());
    int64_t sizes[TT_MAX_RANK], strides[TT_MAX_RANK], offset;
    tt_call_tensor_at(call, &t, less, sizes, strides, &offset);
    m.unsafeGetTensorImpl()->set_sizes_and_strides({sizes, t.rank}, {strides, t.rank}, offset);
    return m;
  }
};
} // namespace

const tt_plan *build_bucketed(Entry &e, c10::IValue *args, tt_call &c) {
  std::vector<Outputs> told(1 + c.n_symbols);
  std::vector<const tt_output *> less;
  try {
    for (int k = 0; k <= c.n_symbols; k++) {
      BucketArgs meta(&c, k - 1);
      if (!meta_outputs(e, args, told[k], meta) || told[k].outputs.size() != told[0].outputs.size()) return nullptr;
      if (k) less.push_back(told[k].outputs.data());
    }
  } catch (const std::exception &x) { // not for all sizes: what is wrong with these the ordinary way says
    if (std::strncmp(x.what(), "KeyboardInterrupt", 17) == 0) throw;
    return nullptr;
  }
  std::vector<tt_output> &outputs = told[0].outputs;
  std::vector<tt_shape> shapes(outputs.size() + 1);
  int n = static_cast<int>(outputs.size());
  if (!tt_call_shapes(&c, outputs.data(), less.data(), n, shapes.data())) return nullptr;
  tt_error err{};
  c.shapes = shapes.data();
  GilRelease nogil;
  const tt_plan *plan = tt_plan_build(&c, outputs.data(), n, &err);
  if (!plan && err.code == TT_RESOURCE_EXHAUSTED) raise(err);
  if (!plan) tt_log("aten::%s: not one program for all sizes: %s", e.name.c_str(), err.message);
  return plan;
}

} // namespace tpu
