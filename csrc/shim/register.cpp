// register.cpp: gives every aten operator its kernel, at import.
//
// Nothing lists operators: their schemas say which row of the lowering table serves an in-place, out= or foreach form,
// what is written and what is returned. An operator without a row gets a kernel too, which traces its decomposition,
// and whatever else reaches the device goes to the host: counted, and said once. Never registered: what torch composes
// with autograd (CompositeImplicitAutograd), and views, which torch makes itself.
#include <ATen/CPUGeneratorImpl.h>
#include <ATen/native/CPUFallback.h>
#include <torch/library.h>
#include <mutex>
#include <shared_mutex>
#include <unordered_map>
#include <unordered_set>
#include "shim/operators.h"

namespace tpu {

static std::mutex entries_lock;
static std::vector<Entry *> &entries() {
  static auto &all = *new std::vector<Entry *>;
  return all;
}
static Entry *keep(std::unique_ptr<Entry> e) {
  std::lock_guard<std::mutex> guard(entries_lock);
  entries().push_back(e.get());
  return e.release();
}

// ---- the host ----
enum Policy { WARN, ERROR, SILENT };
static Policy policy() {
  static const Policy p = [] {
    const char *s = tt_env("TORCH_TPU_FALLBACK");
    if (!s || !std::strcmp(s, "warn")) return WARN;
    TORCH_CHECK(!std::strcmp(s, "error") || !std::strcmp(s, "silent"),
                "TORCH_TPU_FALLBACK: expected warn, error or silent, got ", s);
    return s[0] == 'e' ? ERROR : SILENT;
  }();
  return p;
}

void fall_back(Entry &e, torch::jit::Stack *stack,
               void (*run)(const c10::OperatorHandle &op, torch::jit::Stack *stack)) {
  TORCH_CHECK_NOT_IMPLEMENTED(!tt_trace_current(), "aten::", e.name,
                              " has no lowering and cannot be part of a traced program on tpu");
  TORCH_CHECK_NOT_IMPLEMENTED(policy() != ERROR, "aten::", e.name,
                              " has no lowering for tpu (TORCH_TPU_FALLBACK=error)");
  // Random numbers drawn on the host follow the device's seed.
  c10::IValue *args = stack->data() + (stack->size() - e.n_stack);
  for (const ArgInfo &a : e.args) {
    if (a.kind != Kind::Generator || a.stack < 0) continue;
    tt_generator *g =
        args[a.stack].isNone() ? tt_generator_default(current_device()) : generator_of(args[a.stack].toGenerator());
    uint64_t seed, offset;
    tt_generator_draw(g, 1, &seed, &offset);
    args[a.stack] = at::detail::createCPUGenerator(seed + 0x9E3779B97F4A7C15ull * offset);
  }
  run ? run(e.handle, stack) : at::native::cpu_fallback(e.handle, stack);
  if (e.fallbacks.fetch_add(1) == 0 && policy() == WARN)
    TORCH_WARN("torch_tpu: ", e.handle.schema().name(), e.handle.schema().overload_name().empty() ? "" : ".",
               e.handle.schema().overload_name(), " has no lowering for tpu; it runs on the CPU");
}

bool may_fall_back() { return policy() != ERROR; }

// ---- kernels ----
struct BoxedKernel final : c10::OperatorKernel {
  explicit BoxedKernel(Entry *e) : entry(e) {}
  void operator()(const c10::OperatorHandle &, c10::DispatchKeySet, torch::jit::Stack *stack) { call(*entry, stack); }
  Entry *entry;
};

// Operators that have no kernel of their own here: those of other libraries, and what torch adds later.
Entry &entry_of(const c10::OperatorHandle &op) {
  static std::shared_mutex lock;
  static auto &known = *new std::unordered_map<const c10::FunctionSchema *, Entry *>;
  const c10::FunctionSchema *key = &op.schema();
  Entry *e = nullptr;
  {
    std::shared_lock<std::shared_mutex> guard(lock);
    auto it = known.find(key);
    if (it != known.end()) e = it->second;
  }
  if (!e) {
    std::unique_lock<std::shared_mutex> guard(lock);
    Entry *&place = known[key];
    if (!place) { // one that is registered keeps its counts
      std::lock_guard<std::mutex> entries_guard(entries_lock);
      for (Entry *other : entries())
        if (&other->handle.schema() == key) place = other;
    }
    if (!place) {
      auto made = make_entry(op);
      const tt_op *row = tt_op_find(made->name.c_str()); // of an operator of ours: its schema is the row's
      if (row) made->variant.op = row;
      place = keep(std::move(made));
    }
    e = place;
  }
  return *e;
}

static void fallback_kernel(const c10::OperatorHandle &op, c10::DispatchKeySet, torch::jit::Stack *stack) {
  call(entry_of(op), stack);
}

// ---- which row serves an overload ----
static std::optional<c10::OperatorHandle> find(const std::string &name) {
  size_t dot = name.find('.');
  return c10::Dispatcher::singleton().findSchema(
      {"aten::" + name.substr(0, dot), dot == std::string::npos ? "" : name.substr(dot + 1)});
}

static bool takes(Kind row, Kind overload) {
  return row == overload || (row == Kind::Tensor && overload == Kind::Scalar) ||
         (row == Kind::Scalar && overload == Kind::Bool);
}

static Kind element_kind(Kind k) {
  return k == Kind::Tensors ? Kind::Tensor : k == Kind::Scalars || k == Kind::Floats ? Kind::Scalar : k;
}

// Makes e's packed arguments those of the row's own schema: by name, else by place; what e lacks gets its default.
static bool fit(Entry &e, const c10::FunctionSchema &own, const c10::FunctionSchema &row, bool foreach) {
  std::vector<ArgInfo> args;
  std::vector<bool> used(own.arguments().size(), false);
  for (size_t i = 0; i < row.arguments().size(); i++) {
    const c10::Argument &a = row.arguments()[i];
    Kind kind = kind_of(*a.real_type());
    int at = -1;
    for (size_t j = 0; j < own.arguments().size() && at < 0; j++)
      if (!used[j] && own.arguments()[j].name() == a.name()) at = static_cast<int>(j);
    if (at < 0 && i < own.arguments().size() && !used[i] && !own.arguments()[i].is_out() &&
        !own.arguments()[i].kwarg_only()) {
      bool named_elsewhere = false; // it belongs to another argument of the row
      for (const c10::Argument &other : row.arguments()) named_elsewhere |= other.name() == own.arguments()[i].name();
      if (!named_elsewhere) at = static_cast<int>(i);
    }
    if (at < 0) {
      bool optional = a.type()->kind() == c10::TypeKind::OptionalType;
      if (!a.default_value() && !optional) return false;
      args.push_back({kind, -1, a.default_value() ? *a.default_value() : c10::IValue()});
      continue;
    }
    Kind mine = kind_of(*own.arguments()[at].real_type());
    if (!takes(kind, foreach ? element_kind(mine) : mine)) return false;
    used[at] = true;
    args.push_back({mine, static_cast<int16_t>(at), {}});
  }
  for (size_t j = 0; j < used.size(); j++) {
    if (used[j]) continue;
    if (!own.arguments()[j].is_out() || kind_of(*own.arguments()[j].real_type()) != Kind::Tensor) return false;
    args.push_back({Kind::Tensor, static_cast<int16_t>(j), {}});
  }
  // What is written and returned, in terms of the packed arguments.
  e.variant.written = 0;
  std::fill(std::begin(e.variant.alias), std::end(e.variant.alias), int8_t{-1});
  for (size_t i = 0; i < args.size(); i++) {
    if (args[i].stack < 0) continue;
    const auto *alias = own.arguments()[args[i].stack].alias_info();
    if (alias && alias->isWrite()) e.variant.written |= uint64_t{1} << i;
    for (size_t k = 0; k < e.returns.size(); k++) {
      if (e.returns[k].alias != args[i].stack) continue;
      // A written self must not look like an out= argument, of which the core knows by their place (polygamma_).
      if (i && i + 1 == args.size() && !own.arguments()[args[i].stack].is_out()) return false;
      e.variant.alias[k] = static_cast<int8_t>(i);
    }
  }
  e.args = std::move(args);
  e.variant.n_args = static_cast<uint8_t>(e.args.size());
  return true;
}

static bool try_row(Entry &e, const c10::FunctionSchema &own, const std::string &name, bool foreach = false) {
  const tt_op *row = tt_op_find(name.c_str());
  if (!row) return false;
  auto functional = find(name);
  if (!functional || !fit(e, own, functional->schema(), foreach)) return false;
  e.variant.op = row;
  e.variant.foreach = foreach;
  e.matmul = row->flags & OP_MATMUL;
  return true;
}

static const std::unordered_map<std::string, std::vector<std::string>> foreach_rows = {
    {"norm", {"linalg_vector_norm"}}, {"zero", {"zero", "zero_"}}, {"max", {"max"}}};

static bool try_foreach(Entry &e, const c10::FunctionSchema &own, std::string base) {
  base.erase(0, std::strlen("_foreach_"));
  if (!base.empty() && base.back() == '_') base.pop_back();
  const std::string &overload = own.overload_name();
  auto special = foreach_rows.find(base);
  if (special != foreach_rows.end()) {
    for (const auto &name : special->second)
      if (try_row(e, own, name, true)) return true;
    return false;
  }
  std::vector<const char *> suffixes = overload == "List" ? std::vector<const char *>{".Tensor", "", ".Tensor_Tensor"}
                                       : overload == "ScalarAndTensor"
                                           ? std::vector<const char *>{".Scalar"}
                                           : std::vector<const char *>{"", ".Scalar", ".Tensor_Scalar", ".Tensor"};
  for (const char *suffix : suffixes)
    if (try_row(e, own, base + suffix, true)) return true;
  return false;
}

// out= and in-place forms: the functional overload with the same arguments, outputs aside.
static bool same_arguments(const c10::FunctionSchema &own, const c10::FunctionSchema &functional) {
  auto option = [](const c10::Argument &a) {
    Kind k = kind_of(*a.real_type());
    return k == Kind::Layout || k == Kind::Device || a.name() == "pin_memory" || (k == Kind::Dtype && a.kwarg_only());
  };
  size_t i = 0;
  for (const c10::Argument &a : own.arguments()) {
    if (a.is_out()) continue;
    while (i < functional.arguments().size() && functional.arguments()[i].name() != a.name() &&
           option(functional.arguments()[i]))
      i++;
    if (i == functional.arguments().size() || functional.arguments()[i].name() != a.name() ||
        kind_of(*functional.arguments()[i].real_type()) != kind_of(*a.real_type()))
      return false;
    i++;
  }
  while (i < functional.arguments().size() && option(functional.arguments()[i])) i++;
  return i == functional.arguments().size();
}

using Overloads = std::unordered_map<std::string, std::vector<std::string>>; // base name -> overload names

static bool find_row(Entry &e, const Overloads &overloads) {
  const c10::FunctionSchema &own = e.handle.schema();
  std::string base = own.name().substr(6);
  const std::string dotted = own.overload_name().empty() ? "" : "." + own.overload_name();
  if (base.compare(0, 9, "_foreach_") == 0) return try_foreach(e, own, base);
  if (base == "conj_physical" || base == "conj_physical_")
    return try_row(e, own, "_conj_physical"); // torch's own name for it
  if (try_row(e, own, base + dotted)) return true;
  std::vector<std::string> bases = {base};
  if (base.size() > 1 && base.back() == '_' && base[0] != '_') {
    bases.push_back(base.substr(0, base.size() - 1));
    if (try_row(e, own, bases[1] + dotted)) return true;
  }
  if (e.outs.empty() && bases.size() == 1) return false;
  for (const std::string &b : bases) {
    auto it = overloads.find(b);
    if (it == overloads.end()) continue;
    for (const std::string &o : it->second) {
      std::string name = b + (o.empty() ? "" : "." + o);
      auto functional = tt_op_find(name.c_str()) ? find(name) : std::nullopt;
      if (functional && same_arguments(own, functional->schema()) && try_row(e, own, name)) return true;
    }
  }
  return false;
}

// Left to tensor.cpp, or to torch's own composition of those.
static const std::unordered_set<std::string> not_ours = {
    "empty.memory_format", "empty_strided", "_efficientzerotensor", "as_strided", "as_strided_", "view",
    "_reshape_alias", "unfold", "resize_", "set_", "set_.source_Storage", "set_.source_Tensor",
    "set_.source_Storage_storage_offset", "is_set_to", "view_as_real", "view_as_complex", "copy_", "_copy_from",
    "_copy_from_and_resize", "_local_scalar_dense", "record_stream", "equal", "_to_copy", "clone", "detach", "alias",
    "_pin_memory", "is_pinned", "resize_as_", "_resize_output_", "data", "set_data",
    "_has_compatible_shallow_copy_type", "retain_grad", "_backward", "is_leaf", "output_nr", "_version",
    "requires_grad_", "item", "_nested_tensor_from_mask", "_nested_tensor_from_mask_left_aligned", "contiguous", "lift",
    "lift_fresh", "lift_fresh_copy",
    // _ctc.py, which makes their lengths run-time values
    "_ctc_loss", "_ctc_loss_backward",
    // sparse.cpp, _sparse.py
    "_spdiags", "_to_sparse", "_to_sparse.sparse_dim", "_to_sparse_csr", "_to_sparse_csc", "_to_sparse_bsr",
    "_to_sparse_bsc",
    // _layers.py: what a schema does not say is written, and checks
    "batch_norm_update_stats", "_assert_async", "_assert_async.msg", "_functional_assert_async.msg",
    // _linalg.py: errors and results that only values tell
    "cholesky", "cholesky.out", "linalg_lstsq", "linalg_lstsq.out",
    // composed of a view and a copy: by an index that is a run-time value, and of memory that a rule does not see
    "select_backward", "slice_backward", "as_strided_copy", "as_strided_scatter"};

// Left to dynamic.cpp, in all overloads: their rows give padded results.
static const std::unordered_set<std::string> sized_by_data = {
    "nonzero",    "nonzero_static",     "masked_select",          "_unique",  "_unique2",
    "unique_dim", "unique_consecutive", "unique_dim_consecutive", "bincount", "repeat_interleave"};

// Decomposed by the Python side, since torch's composition reads values: _layers.py.
static const std::unordered_set<std::string> composed_anew = {"_grouped_mm"};

static bool is_view(const c10::FunctionSchema &s) {
  for (const c10::Argument &r : s.returns())
    if (r.alias_info() && !r.alias_info()->isWrite()) return true;
  return false;
}

// With tensors and a device among the arguments the result may belong elsewhere: torch's composition sees to it.
static bool may_leave_device(const c10::FunctionSchema &s) {
  bool tensor = false, device = false;
  for (const c10::Argument &a : s.arguments()) {
    Kind k = kind_of(*a.real_type());
    tensor |= k == Kind::Tensor || k == Kind::Tensors;
    device |= k == Kind::Device;
  }
  return tensor && device;
}

static Entry *the_copy;
Entry &copy_entry() { return *the_copy; }

void register_operators() {
  auto &dispatcher = c10::Dispatcher::singleton();
  auto names = dispatcher.getAllOpNames();
  Overloads overloads;
  for (const auto &n : names)
    if (n.name.compare(0, 6, "aten::") == 0) overloads[n.name.substr(6)].push_back(n.overload_name);
  static auto &library =
      *new torch::Library(torch::Library::IMPL, "aten", c10::DispatchKey::PrivateUse1, __FILE__, __LINE__);
  for (const auto &n : names) {
    if (n.name.compare(0, 6, "aten::") != 0) continue;
    auto op = dispatcher.findSchema(n);
    if (!op || op->hasKernelForDispatchKey(c10::DispatchKey::CompositeImplicitAutograd)) continue;
    const c10::FunctionSchema &schema = op->schema();
    std::string name = n.name.substr(6) + (n.overload_name.empty() ? "" : "." + n.overload_name);
    bool composed = op->hasKernelForDispatchKey(c10::DispatchKey::CompositeExplicitAutograd);
    if (name == "copy_") {
      auto copy = make_entry(*op);
      find_row(*copy, overloads);
      the_copy = keep(std::move(copy));
      continue;
    }
    if (not_ours.count(name) || sized_by_data.count(n.name.substr(6)) || (is_view(schema) && composed) ||
        (composed && may_leave_device(schema)))
      continue;
    auto e = make_entry(*op);
    bool has_row = e->route.load() == ROUTE_PLAN && find_row(*e, overloads);
    if (composed && !has_row && !composed_anew.count(name)) continue;
    find_refusals(*e);
    library.impl(n.overload_name.empty() ? n.name.c_str() : (n.name + "." + n.overload_name).c_str(),
                 torch::CppFunction::makeFromBoxedFunctor(std::make_unique<BoxedKernel>(keep(std::move(e)))));
  }
  static auto &rest = *new torch::Library(torch::Library::IMPL, "_", c10::DispatchKey::PrivateUse1, __FILE__, __LINE__);
  rest.fallback(torch::CppFunction::makeFromBoxedFunction<&fallback_kernel>());
}

} // namespace tpu

void shim_fallback_counts(void (*each)(void *arg, const char *op, int64_t count), void *arg) {
  std::lock_guard<std::mutex> guard(tpu::entries_lock);
  for (const tpu::Entry *e : tpu::entries())
    if (int64_t n = e->fallbacks.load()) each(arg, e->name.c_str(), n);
}
