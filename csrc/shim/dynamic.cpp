// dynamic.cpp: operators whose result size depends on data: nonzero, masks as indices, unique, bincount,
// repeat_interleave.
//
// A program of static shapes gives a padded result and a count (ops/compact.c, under the operators' own rows); only the
// count is read, and the result is the beginning of a base that may be longer: sizes, strides and bytes are CPU's, and
// no size is compiled for. A base much longer than what it holds is cut, by a quarter each time, so that a few programs
// serve every count. Inside a traced program nothing can be read: refused.
#include <ATen/ExpandUtils.h>
#include <ATen/native/Resize.h>
#include <ATen/ops/empty_strided.h>
#include <ATen/ops/index.h>
#include <torch/library.h>
#include "shim/operators.h"

namespace tpu {

using at::Tensor;
enum { SMALL = 16384 }; // bytes that are never worth a program to make less of them

// ---- padded calls ----
static Entry &padded(const char *schema, const char *row) {
  auto e = make_entry(c10::Dispatcher::singleton().findSchemaOrThrow(schema, ""));
  e->name = row;
  e->matmul = false;
  e->variant.op = tt_op_find(row);
  e->variant.name = e->name.c_str();
  return *e.release();
}

struct Shape {
  at::ScalarType dtype;
  std::vector<int64_t> sizes;
  bool defined = true;
};

static std::vector<int64_t> contiguous(at::IntArrayRef sizes) {
  auto strides = c10::contiguous_strides(sizes);
  return {strides.begin(), strides.end()};
}

static std::vector<Tensor> run(Entry &e, torch::jit::Stack stack, const std::vector<Shape> &shapes) {
  std::vector<std::vector<int64_t>> strides(shapes.size());
  std::vector<tt_output> outputs;
  for (size_t k = 0; k < shapes.size(); k++) {
    const Shape &s = shapes[k];
    strides[k] = contiguous(s.sizes);
    outputs.push_back({s.defined, dtype_of(s.dtype), static_cast<uint8_t>(s.sizes.size()), s.sizes.data(),
                       strides[k].data()});
  }
  call_with_outputs(e, &stack, outputs);
  std::vector<Tensor> results;
  for (const c10::IValue &v : stack) results.push_back(v.toTensor());
  return results;
}

static void refuse_traced(const char *name) {
  if (!tt_trace_current()) return;
  read_while_tracing = true;
  TORCH_CHECK_NOT_IMPLEMENTED(false, "aten::", name,
                              " cannot be part of a traced program on tpu: the size of its result depends on values");
}

static Tensor plain(const Tensor &t) { return t.resolve_conj().resolve_neg(); }

static Tensor fresh(at::IntArrayRef sizes, at::IntArrayRef strides, const Tensor &like) {
  return at::empty_strided(sizes, strides, like.options());
}

// The first used of base's dim 0 as a tensor of those sizes and strides, which describe the same elements in order.
// whole: torch too keeps the rest, and says so.
static Tensor beginning(Tensor base, int64_t used, at::IntArrayRef sizes, at::IntArrayRef strides, bool whole = false) {
  if (whole) return base.as_strided(sizes, strides);
  if (c10::multiply_integers(sizes) == 0) return fresh(sizes, strides, base);
  int64_t rows = base.size(0), room = rows, bytes = static_cast<int64_t>(base.nbytes());
  while (bytes > SMALL && used <= room / 4) room /= 4, bytes /= 4;
  if (room < rows) base = base.narrow(0, 0, room).clone();
  tt_storage *s = tt_storage_retain(storage_of(base.unsafeGetTensorImpl()));
  tt_storage_trim(s, static_cast<size_t>(c10::multiply_integers(sizes)) * base.element_size());
  return wrap_tensor(s, base.scalar_type(), sizes, strides);
}

// ---- nonzero ----
static Tensor find_nonzero(const Tensor &self_) {
  static Entry &e = padded("torch_tpu::padded_nonzero", "nonzero");
  refuse_traced("nonzero");
  Tensor self = plain(self_);
  int64_t n = self.numel(), rank = self.dim();
  auto options = self.options().dtype(at::kLong);
  if (n == 0) return at::empty_strided({0, rank}, {1, rank ? 0 : 1}, options);
  auto made = run(e, {self}, {{at::kLong, {n * std::max<int64_t>(rank, 1)}}, {at::kLong, {}}});
  auto count = made[1].item<int64_t>();
  return beginning(made[0], count * rank, {count, rank}, {1, count});
}

static void check_out(const char *name, const Tensor &out, at::ScalarType dtype) {
  TORCH_CHECK(out.scalar_type() == dtype, name, ": Expected out tensor to have scalar type ", dtype,
              " but got scalar type", out.scalar_type());
}

static Tensor &into(const Tensor &result, Tensor &out) {
  at::native::resize_output(out, result.sizes());
  return out.copy_(result);
}

static Tensor &nonzero_out(const Tensor &self, Tensor &out) {
  check_out("nonzero", out, at::kLong);
  Tensor result = find_nonzero(self);
  if (at::native::resize_output(out, result.sizes()) && out.dim() > 1 && out.numel())
    out.unsafeGetTensorImpl()->set_sizes_and_strides(result.sizes(), result.strides());
  return out.copy_(result);
}

// Its size is static: may be part of a traced program. torch's Meta kernel gives it other strides than the CPU's.
static Tensor find_so_many(const Tensor &self, int64_t size, int64_t fill) {
  static Entry &e = padded("aten::nonzero_static", "nonzero_static");
  TORCH_CHECK(size >= 0, "nonzero_static: 'size' must be an non-negative integer");
  return run(e, {plain(self), size, fill}, {{at::kLong, {size, self.dim()}}})[0];
}
static Tensor &find_so_many_out(const Tensor &self, int64_t size, int64_t fill, Tensor &out) {
  check_out("nonzero_static", out, at::kLong);
  return into(find_so_many(self, size, fill), out);
}

// ---- masks ----
// What torch says of self indexed along dims [at, at + n) by count places: sizes and strides.
static Tensor shape_of(const Tensor &self, int64_t at, int64_t n, int64_t count) {
  auto meta = at::TensorOptions(at::kMeta);
  Tensor x = at::empty_strided(self.sizes(), self.strides(), meta.dtype(self.scalar_type()));
  Tensor places = at::empty_strided({count}, {1}, meta.dtype(at::kLong));
  c10::List<std::optional<Tensor>> indices;
  for (int64_t i = 0; i < at; i++) indices.push_back(std::nullopt);
  for (int64_t i = 0; i < n; i++) indices.push_back(places);
  return at::index(x, indices);
}

static Tensor select(const Tensor &self, const Tensor &mask, int64_t at) {
  static Entry &e = padded("torch_tpu::padded_select", "masked_select");
  int64_t n = mask.numel(), rank = self.dim() - mask.dim() + 1;
  bool simple = self.is_contiguous() || rank == 1;
  Tensor shape;
  if (self.numel() == 0) {
    shape = shape_of(self, at, mask.dim(), n ? mask.sum().item<int64_t>() : 0);
    return fresh(shape.sizes(), shape.strides(), self);
  }
  int order[TT_MAX_RANK + 1];
  for (int i = 0; i < rank; i++) order[i] = i;
  if (!simple) {
    shape = shape_of(self, at, mask.dim(), n);
    if (!tt_strides_dense(static_cast<int>(rank), shape.sizes().data(), shape.strides().data(), order))
      for (int i = 0; i < rank; i++) order[i] = i;
  }
  std::vector<int64_t> sizes(self.sizes().begin(), self.sizes().begin() + at);
  sizes.push_back(n);
  sizes.insert(sizes.end(), self.sizes().begin() + at + mask.dim(), self.sizes().end());
  std::vector<int64_t> base{n}, ordered;
  int64_t before = 1, others = 1;
  for (int i = 0; i < rank; i++) {
    ordered.push_back(order[i]);
    if (order[i] == at) before = others;
    else base.push_back(sizes[order[i]]), others *= sizes[order[i]];
  }
  if (before > 1) base = {n * others};
  auto made = run(e, {self, mask, at, ordered}, {{self.scalar_type(), base}, {at::kLong, {}}});
  int64_t count = sizes[at] = made[1].item<int64_t>();
  std::vector<int64_t> strides = contiguous(sizes);
  if (!simple) { // those of the order, which are torch's but for what it makes of sizes of 1
    int64_t stride = 1;
    for (int64_t i = rank - 1; i >= 0; stride *= sizes[order[i]], i--) strides[order[i]] = stride;
  }
  Tensor result = beginning(made[0], before > 1 ? count * others : count, sizes, strides);
  if (simple || count == 0) return result;
  shape = shape_of(self, at, mask.dim(), count);
  for (int64_t i = 0; i < rank; i++)
    if (sizes[i] != 1 && shape.stride(i) != strides[i]) return fresh(sizes, shape.strides(), self).copy_(result);
  result.unsafeGetTensorImpl()->set_sizes_and_strides(sizes, shape.strides());
  return result;
}

static bool is_mask(const Tensor &t) { return t.scalar_type() == at::kBool || t.scalar_type() == at::kByte; }

static void check_mask(const Tensor &self, const Tensor &mask, int64_t at) {
  for (int64_t j = 0; j < mask.dim(); j++)
    TORCH_CHECK_INDEX(at + j < self.dim() && mask.size(j) == self.size(at + j), "The shape of the mask ", mask.sizes(),
                      " at index ", j, " does not match the shape of the indexed tensor ", self.sizes(), " at index ",
                      at + j);
}

static bool index_by_mask(Entry &e, torch::jit::Stack *stack) {
  const c10::IValue *args = stack->data() + (stack->size() - e.n_stack);
  if (e.n_stack - e.outs.size() != 2) return false; // it puts
  Tensor mask;
  int64_t at = 0, i = 0;
  for (const c10::IValue &x : args[e.indices].toListRef()) {
    if (x.isTensor() && x.toTensor().defined()) {
      if (mask.defined() || !is_mask(x.toTensor()) || x.toTensor().dim() == 0) return false;
      mask = x.toTensor(), at = i;
    }
    i++;
  }
  if (!mask.defined()) return false;
  Tensor self = args[0].toTensor();
  TORCH_CHECK_INDEX(i - 1 + mask.dim() <= self.dim(), "too many indices for tensor of dimension ", self.dim());
  check_mask(self, mask, at);
  refuse_traced(e.name.c_str());
  if (mask.scalar_type() == at::kByte)
    TORCH_WARN("indexing with dtype torch.uint8 is now deprecated, please use a dtype torch.bool instead.");
  Tensor out, result = select(plain(self), mask.to(self.device()), at);
  if (!e.outs.empty()) {
    out = args[e.outs[0]].toTensor();
    TORCH_CHECK(out.scalar_type() == self.scalar_type(), "index_out: self (", self.scalar_type(), ") and result (",
                out.scalar_type(), ") must have the same scalar type");
    into(result, out);
  }
  stack->resize(stack->size() - e.n_stack);
  stack->push_back(out.defined() ? out : result);
  return true;
}

// What is put by one mask: torch refuses values that are not as many as the mask selects, which takes a look at it.
static void check_put_by_mask(const Tensor &self, const Tensor &mask, int64_t at, const Tensor &values) {
  check_mask(self, mask, at);
  int64_t place = values.dim() - 1 - (self.dim() - at - mask.dim());
  if (place < 0 || values.size(place) == 1 || tt_trace_current()) return;
  int64_t selected = mask.sum().item<int64_t>();
  if (values.size(place) == selected) return;
  std::vector<int64_t> shape(self.sizes().begin(), self.sizes().begin() + at);
  shape.push_back(selected);
  shape.insert(shape.end(), self.sizes().begin() + at + mask.dim(), self.sizes().end());
  TORCH_CHECK(false, "shape mismatch: value tensor of shape ", values.sizes(),
              " cannot be broadcast to indexing result of shape ", at::IntArrayRef(shape));
}

// Index lists may hold host tensors, which are brought over, and masks. A program puts by one mask as it is; masks that
// gather, or that come with other indices, become the places they select.
static void bring_indices(Entry &e, c10::IValue *args) {
  c10::IValue &arg = args[e.indices];
  if (!arg.isList()) return;
  auto items = arg.toListRef();
  const Tensor &self = args[0].toTensor();
  bool puts = e.name.find("index_put") != std::string::npos, change = false;
  int64_t given = 0, masks = 0, last = 0;
  for (size_t i = 0; i < items.size(); i++) {
    if (!items[i].isTensor() || !items[i].toTensor().defined()) continue;
    given++;
    if (is_mask(items[i].toTensor())) masks++, last = static_cast<int64_t>(i);
    change |= items[i].toTensor().device() != self.device();
  }
  bool one = puts && masks == 1 && given == 1;
  if (one) check_put_by_mask(self, items[last].toTensor(), last, args[2].toTensor());
  change |= masks && !one;
  if (C10_LIKELY(!change)) return;
  c10::List<std::optional<Tensor>> list;
  int64_t dim = 0;
  for (auto &x : items) {
    if (!x.isTensor() || !x.toTensor().defined()) {
      list.push_back(std::nullopt);
      dim++;
      continue;
    }
    const Tensor &t = x.toTensor();
    if (is_mask(t) && !one) {
      check_mask(self, t, dim);
      Tensor where = t.to(self.device()).nonzero();
      for (int64_t j = 0; j < t.dim(); j++) list.push_back(where.select(1, j));
      dim += t.dim();
    } else {
      list.push_back(t.to(self.device()));
      dim++;
    }
  }
  arg = std::move(list);
}

bool index_by_masks(Entry &e, torch::jit::Stack *stack, c10::IValue *args) {
  if (index_by_mask(e, stack)) return true;
  bring_indices(e, args);
  return false;
}

static Tensor select_masked(const Tensor &self, const Tensor &mask) {
  TORCH_CHECK(mask.scalar_type() == at::kBool, "masked_select: expected BoolTensor for mask");
  auto size = at::infer_size(mask.sizes(), self.sizes());
  refuse_traced("masked_select");
  return select(plain(self).expand(size), mask.expand(size).to(self.device()), 0);
}

static Tensor &masked_select_out(const Tensor &self, const Tensor &mask, Tensor &out) {
  TORCH_CHECK(mask.scalar_type() == at::kBool, "masked_select: expected BoolTensor for mask");
  TORCH_CHECK(self.scalar_type() == out.scalar_type(),
              "masked_select(): self and result must have the same scalar type");
  return into(select_masked(self, mask), out);
}

// ---- unique ----
using Three = std::tuple<Tensor, Tensor, Tensor>;

static void check_dtype(const char *kernel, const Tensor &t, bool takes) {
  TORCH_CHECK_NOT_IMPLEMENTED(takes, "\"", kernel, "\" not implemented for '", c10::toString(t.scalar_type()), "'");
}

// dim: -1 for the elements of all.
static Three distinct(Entry &e, const Tensor &self, int64_t dim, bool inverse, bool counts) {
  refuse_traced(e.name.c_str());
  check_dtype(dim < 0 ? "unique" : "unique_dim", self, !self.is_complex());
  std::vector<int64_t> base, places = self.sizes().vec();
  auto options = self.options().dtype(at::kLong);
  auto none = [&] { return at::empty({0}, options); };
  if (dim < 0) {
    base = {self.numel()};
  } else {
    base = {self.size(dim)}, places = base;
    for (int64_t i = 0; i < self.dim(); i++)
      if (i != dim) base.push_back(self.size(i));
    int64_t zeros = std::count(base.begin(), base.end(), 0);
    if (base[0] == 0) {
      TORCH_CHECK(zeros == 1, "Number of zero sized dimensions is more than one, so unique cannot be applied ");
      return {at::empty(self.sizes(), self.options()), none(), none()};
    }
    TORCH_CHECK(zeros == 0, "There are 0 sized dimensions, and they aren't selected, so unique cannot be applied");
  }
  if (self.numel() == 0)
    return {at::empty({0}, self.options()), inverse ? at::empty(self.sizes(), options) : none(), none()};
  // Where torch makes room for all and shrinks it, its storage stays that long: elements in turn, counts of slices.
  bool whole = dim < 0 && e.name == "unique_consecutive";
  auto made = run(e, {self, dim < 0 ? c10::IValue() : c10::IValue(dim), inverse, counts},
                  {{self.scalar_type(), base},
                   {at::kLong, {}},
                   {at::kLong, places, inverse},
                   {at::kLong, {base[0]}, counts}});
  int64_t n = base[0] = made[1].item<int64_t>();
  Tensor values = beginning(made[0], n, base, contiguous(base), whole);
  if (dim > 0) values = values.movedim(0, dim);
  return {values, inverse ? made[2] : none(), counts ? beginning(made[3], n, {n}, {1}, whole || dim >= 0) : none()};
}

static Three distinct_elements(const Tensor &self, bool, bool inverse, bool counts) {
  static Entry &e = padded("torch_tpu::padded_unique", "_unique2");
  return distinct(e, self, -1, inverse, counts);
}
static std::tuple<Tensor, Tensor> distinct_places(const Tensor &self, bool, bool inverse) {
  auto [values, places, counts] = distinct_elements(self, true, inverse, false);
  return {values, places};
}
static Three distinct_slices(const Tensor &self, int64_t dim, bool, bool inverse, bool counts) {
  static Entry &e = padded("torch_tpu::padded_unique", "unique_dim");
  return distinct(e, self, at::maybe_wrap_dim(dim, self.dim(), false), true, true);
}
static Three distinct_neighbours(const Tensor &self, int64_t dim, bool inverse, bool counts) {
  static Entry &e = padded("torch_tpu::padded_unique", "unique_dim_consecutive");
  return distinct(e, self, at::maybe_wrap_dim(dim, self.dim(), false), true, true);
}
static Three distinct_in_turn(const Tensor &self, bool inverse, bool counts, std::optional<int64_t> dim) {
  static Entry &e = padded("torch_tpu::padded_unique", "unique_consecutive");
  if (dim && (self.dim() != 1 || *dim)) return distinct_neighbours(self, *dim, inverse, counts);
  return distinct(e, self, -1, inverse, counts);
}

// ---- as long as values say ----
static int64_t bucket(int64_t n) {
  int64_t room = 64;
  while (room < n) room *= 2;
  return room;
}

static Tensor repeated_places(const Tensor &repeats, std::optional<int64_t> output_size) {
  static Entry &e = padded("torch_tpu::padded_repeat", "repeat_interleave.Tensor");
  TORCH_CHECK(repeats.dim() == 1, "repeat_interleave only accept 1D vector as repeat");
  bool takes = repeats.scalar_type() == at::kLong || repeats.scalar_type() == at::kInt;
  check_dtype("repeat_interleave_cpu", repeats, takes);
  refuse_traced("repeat_interleave");
  if (repeats.numel() == 0) return at::empty_like(repeats);
  TORCH_CHECK(repeats.min().item<int64_t>() >= 0, "repeats can not be negative");
  auto n = repeats.sum().item<int64_t>();
  TORCH_CHECK(!output_size || *output_size == n, "allocated size does not match required size");
  return beginning(run(e, {repeats, bucket(n)}, {{repeats.scalar_type(), {bucket(n)}}})[0], n, {n}, {1});
}

static Tensor count_numbers(const Tensor &self, const std::optional<Tensor> &weights_, int64_t minlength) {
  static Entry &e = padded("torch_tpu::padded_bincount", "bincount");
  Tensor weights = weights_ ? *weights_ : Tensor();
  check_dtype("bincount_cpu", self,
              at::isIntegralType(self.scalar_type(), false) && self.scalar_type() != at::kUInt16 &&
                  self.scalar_type() != at::kUInt32 && self.scalar_type() != at::kUInt64);
  refuse_traced("bincount");
  TORCH_CHECK(minlength >= 0, "minlength should be >= 0");
  if (self.dim() == 1 && self.numel() == 0) return at::zeros({minlength}, self.options().dtype(at::kLong));
  const char *wanted = "bincount only supports 1-d non-negative integral inputs.";
  TORCH_CHECK(self.dim() == 1, wanted);
  TORCH_CHECK(self.scalar_type() == at::kByte || self.min().item<int64_t>() >= 0, wanted);
  TORCH_CHECK(!weights.defined() || (weights.dim() == 1 && weights.numel() == self.numel()),
              "weights should be 1-d and have the same length as input");
  int64_t n = std::max(self.max().item<int64_t>() + 1, minlength);
  at::ScalarType t = !weights.defined() ? at::kLong : weights.scalar_type() == at::kFloat ? at::kFloat : at::kDouble;
  return beginning(
      run(e, {self, weights.defined() ? c10::IValue(weights) : c10::IValue(), bucket(n)}, {{t, {bucket(n)}}})[0], n,
      {n}, {1});
}

void register_dynamic_operators() {
  static auto &defs = *new torch::Library(torch::Library::FRAGMENT, "torch_tpu", std::nullopt, __FILE__, __LINE__);
  defs.def("padded_nonzero(Tensor self) -> (Tensor, Tensor)");
  defs.def("padded_select(Tensor self, Tensor mask, int at, int[] order) -> (Tensor, Tensor)");
  defs.def("padded_unique(Tensor self, int? dim, bool inverse, bool counts) -> (Tensor, Tensor, Tensor, Tensor)");
  defs.def("padded_repeat(Tensor repeats, int size) -> Tensor");
  defs.def("padded_bincount(Tensor self, Tensor? weights, int size) -> Tensor");
  static auto &m = *new torch::Library(torch::Library::IMPL, "aten", c10::DispatchKey::PrivateUse1, __FILE__, __LINE__);
  m.impl("nonzero", TORCH_FN(find_nonzero));
  m.impl("nonzero.out", TORCH_FN(nonzero_out));
  m.impl("nonzero_static", TORCH_FN(find_so_many));
  m.impl("nonzero_static.out", TORCH_FN(find_so_many_out));
  m.impl("masked_select", TORCH_FN(select_masked));
  m.impl("masked_select.out", TORCH_FN(masked_select_out));
  m.impl("_unique", TORCH_FN(distinct_places));
  m.impl("_unique2", TORCH_FN(distinct_elements));
  m.impl("unique_dim", TORCH_FN(distinct_slices));
  m.impl("unique_consecutive", TORCH_FN(distinct_in_turn));
  m.impl("unique_dim_consecutive", TORCH_FN(distinct_neighbours));
  m.impl("repeat_interleave.Tensor", TORCH_FN(repeated_places));
  m.impl("bincount", TORCH_FN(count_numbers));
}

} // namespace tpu
