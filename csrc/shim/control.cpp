// control.cpp: operators that exist in traced graphs only: loops, branches, rows by a computed number, random state.
//
// torch_tpu/compile/control.py writes torch's higher-order operators with them. Callables come as addresses of Python
// objects that the caller keeps; they are called with traced tensors and deliver their results.
#include <torch/library.h>
#include "shim/operators.h"

namespace tpu {

static tt_trace *trace_here() {
  tt_trace *t = tt_trace_current();
  TORCH_CHECK_NOT_IMPLEMENTED(t, "this operator is for graphs that are being traced");
  return t;
}

static at::Tensor wrap_dense(tt_storage *s, c10::ScalarType dtype, c10::IntArrayRef sizes) {
  std::vector<int64_t> strides(sizes.size());
  int64_t stride = 1;
  for (size_t i = sizes.size(); i-- > 0; stride *= std::max<int64_t>(sizes[i], 1)) strides[i] = stride;
  return wrap_tensor(s, dtype, sizes, strides);
}

struct Parts {
  void *fns[2];
  const std::vector<at::Tensor> &like; // what a part's arguments are
};

static tt_code trace_part(void *user, int part, tt_storage *const *args, int n_args, tt_tensor *results, int n_results,
                          tt_error *err) {
  auto *p = static_cast<Parts *>(user);
  try {
    std::vector<at::Tensor> given, made;
    for (int i = 0; i < n_args; i++)
      given.push_back(wrap_dense(tt_storage_retain(args[i]), p->like[i].scalar_type(), p->like[i].sizes()));
    std::string why;
    if (!run_part(p->fns[part], given, &made, &why)) return tt_fail(err, TT_UNIMPLEMENTED, "", "%s", why.c_str());
    if (static_cast<int>(made.size()) != n_results)
      return tt_fail(err, TT_UNIMPLEMENTED, "", "expected %d results of a loop or a branch, got %d", n_results,
                     static_cast<int>(made.size()));
    for (int k = 0; k < n_results; k++) {
      if (!made[k].defined()) return tt_fail(err, TT_UNIMPLEMENTED, "", "a loop or a branch without a result");
      if (!traced_result(tt_trace_current(), made[k], &results[k]))
        return tt_fail(err, TT_RESOURCE_EXHAUSTED, "", "out of host memory");
    }
    return TT_OK;
  } catch (const c10::Error &x) {
    return tt_fail(err, TT_UNIMPLEMENTED, "", "%s", x.what_without_backtrace());
  } catch (const std::exception &x) {
    return tt_fail(err, TT_UNIMPLEMENTED, "", "%s", x.what());
  }
}

static at::Tensor on_device(const at::Tensor &t) {
  return t.device().type() == kTpu ? t : t.to(c10::Device(kTpu, current_device()));
}

static std::vector<at::Tensor> trace_while(int64_t condition, int64_t body, const c10::List<at::Tensor> &carried) {
  tt_trace *t = trace_here();
  std::vector<at::Tensor> like, made;
  std::vector<tt_tensor> given;
  for (const at::Tensor &x : carried) like.push_back(on_device(x));
  for (const at::Tensor &x : like) given.push_back(tensor_of(x.unsafeGetTensorImpl()));
  Parts parts{{reinterpret_cast<void *>(condition), reinterpret_cast<void *>(body)}, like};
  std::vector<tt_storage *> results(like.size() + 1);
  tt_error err{};
  check(tt_trace_while(t, static_cast<int>(like.size()), given.data(), trace_part, &parts, results.data(), &err), err);
  for (size_t k = 0; k < like.size(); k++)
    made.push_back(wrap_dense(results[k], like[k].scalar_type(), like[k].sizes()));
  return made;
}

// like: tensors of the results' dtypes and sizes.
static std::vector<at::Tensor> trace_if(const at::Tensor &predicate, int64_t on_true, int64_t on_false,
                                        const c10::List<at::Tensor> &like) {
  tt_trace *t = trace_here();
  at::Tensor p = on_device(predicate);
  std::vector<at::Tensor> wanted, made;
  for (const at::Tensor &x : like) wanted.push_back(x);
  std::vector<tt_output> outputs;
  for (const at::Tensor &x : wanted)
    outputs.push_back(
        {true, dtype_of(x.scalar_type()), static_cast<uint8_t>(x.dim()), x.sizes().data(), x.strides().data()});
  Parts parts{{reinterpret_cast<void *>(on_true), reinterpret_cast<void *>(on_false)}, wanted};
  std::vector<tt_storage *> results(wanted.size() + 1);
  tt_tensor predicate_of = tensor_of(p.unsafeGetTensorImpl());
  tt_error err{};
  check(tt_trace_if(t, &predicate_of, static_cast<int>(wanted.size()), outputs.data(), trace_part, &parts,
                    results.data(), &err),
        err);
  for (size_t k = 0; k < wanted.size(); k++)
    made.push_back(wrap_dense(results[k], wanted[k].scalar_type(), wanted[k].sizes()));
  return made;
}

static at::Tensor trace_row(const at::Tensor &x, const at::Tensor &index) {
  tt_tensor of = tensor_of(x.unsafeGetTensorImpl()), at = tensor_of(index.unsafeGetTensorImpl());
  tt_error err{};
  tt_storage *s = tt_trace_row(trace_here(), &of, &at, &err);
  check(err.code, err);
  return wrap_dense(s, x.scalar_type(), x.sizes().slice(1));
}

static at::Tensor trace_with_row(const at::Tensor &x, const at::Tensor &row, const at::Tensor &index) {
  tt_tensor of = tensor_of(x.unsafeGetTensorImpl()), part = tensor_of(row.unsafeGetTensorImpl()),
            at = tensor_of(index.unsafeGetTensorImpl());
  tt_error err{};
  tt_storage *s = tt_trace_with_row(trace_here(), &of, &part, &at, &err);
  check(err.code, err);
  return wrap_dense(s, x.scalar_type(), x.sizes());
}

static at::Tensor trace_random_state() {
  tt_error err{};
  tt_storage *s = tt_trace_random_state(trace_here(), &err);
  check(err.code, err);
  return wrap_dense(s, c10::kLong, {2});
}

static void trace_set_random_state(const std::optional<at::Tensor> &state) {
  tt_error err{};
  if (!state) return check(tt_trace_set_random_state(trace_here(), nullptr, &err), err);
  tt_tensor of = tensor_of(state->unsafeGetTensorImpl());
  check(tt_trace_set_random_state(trace_here(), &of, &err), err);
}

static bool tracing() { return tt_trace_current() != nullptr; }

void register_control() {
  static auto &defs = *new torch::Library(torch::Library::FRAGMENT, "torch_tpu", std::nullopt, __FILE__, __LINE__);
  defs.def("trace_while(int condition, int body, Tensor[] carried) -> Tensor[]");
  defs.def("trace_if(Tensor predicate, int on_true, int on_false, Tensor[] like) -> Tensor[]");
  defs.def("trace_row(Tensor x, Tensor index) -> Tensor");
  defs.def("trace_with_row(Tensor x, Tensor row, Tensor index) -> Tensor");
  defs.def("trace_random_state() -> Tensor");
  defs.def("trace_set_random_state(Tensor? state) -> ()");
  defs.def("tracing() -> bool");
  static auto &all = *new torch::Library(torch::Library::IMPL, "torch_tpu", c10::DispatchKey::CompositeExplicitAutograd,
                                         __FILE__, __LINE__);
  all.impl("trace_while", TORCH_FN(trace_while));
  all.impl("trace_if", TORCH_FN(trace_if));
  all.impl("trace_row", TORCH_FN(trace_row));
  all.impl("trace_with_row", TORCH_FN(trace_with_row));
  all.impl("trace_random_state", TORCH_FN(trace_random_state));
  all.impl("trace_set_random_state", TORCH_FN(trace_set_random_state));
  all.impl("tracing", TORCH_FN(tracing));
}

} // namespace tpu
