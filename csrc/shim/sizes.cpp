// sizes.cpp: sizes that vary in captured graphs: operators that torch_tpu/compile/sized.py traces with, and those that
// see tensors at capacity before a program and cut its results to their sizes behind it.
#include <ATen/ops/zeros.h>
#include <torch/library.h>
#include "graph/sizes.h"
#include "shim/operators.h"

namespace tpu {

static tt_trace *trace_here() {
  tt_trace *t = tt_trace_current();
  TORCH_CHECK_NOT_IMPLEMENTED(t, "this operator is for graphs that are being traced");
  return t;
}

static at::Tensor dense(tt_storage *s, const at::Tensor &like, const tt_error &err) {
  check(s ? TT_OK : err.code ? err.code : TT_INTERNAL, err);
  std::vector<int64_t> strides(like.dim());
  int64_t stride = 1;
  for (size_t i = strides.size(); i-- > 0; stride *= std::max<int64_t>(like.sizes()[i], 1)) strides[i] = stride;
  return wrap_tensor(s, like.scalar_type(), like.sizes(), strides);
}

static int64_t trace_symbol(const at::Tensor &number) {
  tt_error err{};
  tt_tensor x = tensor_of(number.unsafeGetTensorImpl());
  int symbol = tt_trace_symbol(trace_here(), &x, &err);
  check(symbol ? TT_OK : err.code, err);
  return symbol;
}

static int64_t trace_composite(at::IntArrayRef extents, at::IntArrayRef symbols) {
  tt_error err{};
  int symbol = tt_trace_composite(trace_here(), static_cast<int>(extents.size()), extents.data(), symbols.data(), &err);
  check(symbol >= 0 ? TT_OK : err.code, err);
  return symbol;
}

// Of each factor its extent and its symbol.
static std::vector<int64_t> trace_factors(int64_t dim, int64_t symbol) {
  int64_t extents[8], symbols[8];
  int n = tt_trace_factors(trace_here(), dim, static_cast<int>(symbol), extents, symbols);
  std::vector<int64_t> out;
  for (int i = 0; i < n; i++) out.push_back(extents[i]), out.push_back(symbols[i]);
  return out;
}

static at::Tensor trace_marked(const at::Tensor &x, at::OptionalIntArrayRef marks) {
  tt_error err{};
  tt_tensor of = tensor_of(x.unsafeGetTensorImpl());
  return dense(tt_trace_marked(trace_here(), &of, marks ? marks->data() : nullptr, &err), x, err);
}

static std::vector<int64_t> trace_marks(const at::Tensor &x) {
  tt_error err{};
  tt_tensor of = tensor_of(x.unsafeGetTensorImpl());
  std::vector<int64_t> marks(x.dim());
  check(tt_trace_marks(trace_here(), &of, marks.data(), &err), err);
  return marks;
}

static at::Tensor trace_filled(const at::Tensor &x, at::IntArrayRef dims, double fill) {
  tt_error err{};
  tt_tensor of = tensor_of(x.unsafeGetTensorImpl());
  return dense(tt_trace_filled(trace_here(), &of, static_cast<int>(dims.size()), dims.data(), fill, &err), x, err);
}

// Makes x, of no dims, take part in promotion as a number does. Not returned: torch would make a Python number of it.
static void trace_number(const at::Tensor &x) { x.unsafeGetTensorImpl()->set_wrapped_number(true); }

// x with sizes[i] places in dim i, of which its own come first, and what dims that are several are made of: dim, how
// many, places of each, sizes of each. Not through a program: shares x's buffer, or goes through the host.
static std::tuple<at::Tensor, std::vector<int64_t>> at_capacity(const at::Tensor &x, at::IntArrayRef sizes) {
  std::vector<int64_t> strides(sizes.size()), several;
  std::vector<tt_places> made_of(sizes.size() + 1);
  int64_t offset = 0;
  tt_tensor of = tensor_of(x.unsafeGetTensorImpl());
  if (x.sizes() == sizes && !tt_storage_is_padded(of.storage)) return {x, several};
  if (tt_tensor_at_capacity(&of, sizes.data(), strides.data(), &offset, made_of.data())) {
    tt_error err{};
    tt_storage *s;
    {
      GilRelease nogil;
      s = tt_storage_whole(of.storage, &err);
    }
    check(err.code, err);
    if (s) {
      for (size_t i = 0; i < sizes.size(); i++) {
        const tt_places &p = made_of[i];
        if (p.n < 2) continue;
        several.insert(several.end(), {static_cast<int64_t>(i), p.n});
        several.insert(several.end(), p.places, p.places + p.n);
        several.insert(several.end(), p.used, p.used + p.n);
      }
      at::Tensor y = wrap_tensor(s, x.scalar_type(), sizes, strides);
      y.unsafeGetTensorImpl()->set_storage_offset(offset);
      return {y, several};
    }
  }
  at::Tensor host = x.to(at::kCPU), padded = at::zeros(sizes, host.options()), part = padded;
  for (int64_t i = 0; i < x.dim(); i++) part = part.narrow(i, 0, x.size(i));
  part.copy_(host);
  return {padded.to(x.device()), several};
}

// What a program gave at capacity, of dense strides, as a tensor of sizes and strides over a base of dims.
static at::Tensor cut(const at::Tensor &full, at::IntArrayRef dims, at::IntArrayRef sizes, at::IntArrayRef strides) {
  tt_error err{};
  tt_storage *s, *from = storage_of(full.unsafeGetTensorImpl());
  {
    GilRelease nogil;
    s = tt_storage_cut(from, dims.data(), &err);
  }
  check(s ? TT_OK : err.code, err);
  return wrap_tensor(s, full.scalar_type(), sizes, strides);
}

// to gets the values of from, of its sizes.
static void take_over(const at::Tensor &to, const at::Tensor &from) {
  tt_storage *t = storage_of(to.unsafeGetTensorImpl()), *f = storage_of(from.unsafeGetTensorImpl());
  size_t bytes = tt_storage_bytes(t);
  bool alike = to.strides() == from.strides() && to.scalar_type() == from.scalar_type() && bytes == tt_storage_bytes(f);
  bool whole = alike && to.storage_offset() == 0 && to.is_non_overlapping_and_dense() && to.nbytes() == bytes;
  if (!whole) {
    at::Tensor writable = to;
    writable.copy_(from);
    return;
  }
  tt_error err{};
  GilRelease nogil;
  check(tt_storage_take_over(t, f, &err), err);
}

void register_sizes() {
  static auto &defs = *new torch::Library(torch::Library::FRAGMENT, "torch_tpu", std::nullopt, __FILE__, __LINE__);
  defs.def("trace_symbol(Tensor number) -> int");
  defs.def("trace_composite(int[] extents, int[] symbols) -> int");
  defs.def("trace_factors(int dim, int symbol) -> int[]");
  defs.def("trace_marked(Tensor x, int[]? marks) -> Tensor");
  defs.def("trace_marks(Tensor x) -> int[]");
  defs.def("trace_filled(Tensor x, int[] dims, float fill) -> Tensor");
  defs.def("trace_number(Tensor x) -> ()");
  defs.def("at_capacity(Tensor(a) x, int[] sizes) -> (Tensor(a), int[])");
  defs.def("cut(Tensor full, int[] dims, int[] sizes, int[] strides) -> Tensor");
  defs.def("take_over(Tensor to, Tensor other) -> ()");
  static auto &all = *new torch::Library(torch::Library::IMPL, "torch_tpu", c10::DispatchKey::CompositeExplicitAutograd,
                                         __FILE__, __LINE__);
  all.impl("trace_symbol", TORCH_FN(trace_symbol));
  all.impl("trace_composite", TORCH_FN(trace_composite));
  all.impl("trace_factors", TORCH_FN(trace_factors));
  all.impl("trace_marked", TORCH_FN(trace_marked));
  all.impl("trace_marks", TORCH_FN(trace_marks));
  all.impl("trace_filled", TORCH_FN(trace_filled));
  all.impl("trace_number", TORCH_FN(trace_number));
  all.impl("at_capacity", TORCH_FN(at_capacity));
  all.impl("cut", TORCH_FN(cut));
  all.impl("take_over", TORCH_FN(take_over));
}

} // namespace tpu
