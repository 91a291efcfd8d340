// kernel.cpp: the boxed kernel of every operator: torch's arguments become a tt_call, its results torch's tensors.
//
// On a hit nothing is allocated but the results: arguments are packed on the stack and point into torch's own sizes and
// strides. On a miss torch's Meta kernel says what the call returns, and checks it, with torch's own messages; then the
// core lowers the call. It never computes a shape itself.
#include <ATen/CPUGeneratorImpl.h>
#include <ATen/Context.h>
#include <ATen/core/LegacyTypeDispatch.h>
#include <ATen/MemoryOverlap.h>
#include <ATen/ops/_linalg_check_errors.h>
#include <ATen/record_function.h>
#include <c10/core/DefaultDtype.h>
#include <array>
#include <mutex>
#include <unordered_map>
#include <unordered_set>
#include "shim/meta.h"

namespace tpu {

// device.cpp: how far into its storage a tensor begins that torch describes by its address (from_dlpack), in its
// elements.
int64_t elements_before(const c10::TensorImpl *t);

// ---- packing ----
// Small blocks with the lifetime of one call.
struct Scratch {
  alignas(16) char first[4096];
  size_t used = 0;
  std::vector<std::unique_ptr<char[]>> more;
  template <class T> T *make(size_t n) {
    size_t bytes = (n * sizeof(T) + 15) & ~size_t{15};
    if (C10_LIKELY(used + bytes <= sizeof first)) {
      char *p = first + used;
      used += bytes;
      return reinterpret_cast<T *>(p);
    }
    more.emplace_back(new char[bytes]);
    return reinterpret_cast<T *>(more.back().get());
  }
};

static void read_host_number(const c10::TensorImpl *t, tt_arg *a) {
  const void *p = t->data();
  a->tag = TT_ARG_HOST;
  a->wrapped = t->is_wrapped_number();
  auto dtype = c10::typeMetaToScalarType(t->dtype());
  a->dtype = dtype_of(dtype);
  std::memset(&a->number, 0, sizeof a->number);
  switch (dtype) {
    case c10::kBool: a->number.i = *static_cast<const bool *>(p); break;
    case c10::kByte: a->number.i = *static_cast<const uint8_t *>(p); break;
    case c10::kUInt16: a->number.i = *static_cast<const uint16_t *>(p); break;
    case c10::kUInt32: a->number.i = *static_cast<const uint32_t *>(p); break;
    case c10::kChar: a->number.i = *static_cast<const int8_t *>(p); break;
    case c10::kShort: a->number.i = *static_cast<const int16_t *>(p); break;
    case c10::kInt: a->number.i = *static_cast<const int32_t *>(p); break;
    case c10::kLong:
    case c10::kUInt64: a->number.i = *static_cast<const int64_t *>(p); break;
    case c10::kHalf: a->number.f = *static_cast<const c10::Half *>(p); break;
    case c10::kBFloat16: a->number.f = *static_cast<const c10::BFloat16 *>(p); break;
    case c10::kFloat: a->number.f = *static_cast<const float *>(p); break;
    case c10::kDouble: a->number.f = *static_cast<const double *>(p); break;
    case c10::kComplexFloat:
      a->number.c[0] = static_cast<const float *>(p)[0];
      a->number.c[1] = static_cast<const float *>(p)[1];
      break;
    case c10::kComplexDouble: std::memcpy(a->number.c, p, 16); break;
    default: TORCH_CHECK_NOT_IMPLEMENTED(false, "a 0-dim host tensor of dtype ", dtype, " as an operand on tpu");
  }
  if (t->key_set().has(c10::DispatchKey::Conjugate)) a->number.c[1] = -a->number.c[1];
}

struct Frame {
  Scratch scratch;
  tt_arg *args = nullptr;
  int device = -1;
  bool lazy = false; // a conjugate or a negative that is still to be made

  void tensor(const c10::IValue &v, tt_arg *a) {
    const c10::TensorImpl *t = v.isTensor() ? v.toTensor().unsafeGetTensorImpl() : nullptr;
    if (!t || t == c10::UndefinedTensorImpl::singleton()) {
      a->tag = TT_ARG_NONE;
      return;
    }
    c10::Device where = t->device();
    if (C10_LIKELY(where.type() == kTpu)) {
      if (device < 0) device = where.index();
      TORCH_CHECK(where.index() == device,
                  "Expected all tensors to be on the same device, but found at least two devices, tpu:", device,
                  " and tpu:", int{where.index()}, "!");
      TORCH_CHECK_NOT_IMPLEMENTED(t->layout() == c10::kStrided, "tpu kernels take strided tensors, got ", t->layout());
      TORCH_CHECK_NOT_IMPLEMENTED(t->has_storage(), "tpu kernels take tensors with storage, got one of ", t->key_set());
      TORCH_CHECK_NOT_IMPLEMENTED(t->dim() <= TT_MAX_RANK, "tpu tensors have at most ", int{TT_MAX_RANK}, " dims, got ",
                                  t->dim());
      lazy |= t->key_set().has_any(c10::DispatchKeySet{c10::DispatchKey::Conjugate, c10::DispatchKey::Negative});
      auto *packed = scratch.make<tt_tensor>(1);
      *packed = tensor_of(t);
      if (C10_UNLIKELY(t->unsafe_storage().unsafeGetStorageImpl()->data_ptr().get_deleter() != &release_storage))
        packed->offset += elements_before(t);
      a->tag = TT_ARG_TENSOR;
      a->dtype = packed->dtype;
      a->wrapped = packed->wrapped;
      a->tensor = packed;
    } else if (where.is_cpu() && t->dim() == 0) {
      read_host_number(t, a);
    } else {
      TORCH_CHECK(false, "Expected all tensors to be on the same device, but found at least two devices, tpu:",
                  device < 0 ? int{current_device()} : device, " and ", where,
                  "! (when checking argument in method wrapper_tpu)");
    }
  }

  static void number(const c10::IValue &v, tt_arg *a) {
    a->tag = TT_ARG_SCALAR;
    if (v.isDouble()) {
      a->dtype = TT_F64;
      a->number.f = v.toDouble();
    } else if (v.isInt()) {
      a->dtype = TT_I64;
      a->number.i = v.toInt();
    } else if (v.isBool()) {
      a->dtype = TT_BOOL;
      a->number.i = v.toBool();
    } else if (v.isComplexDouble()) {
      a->dtype = TT_C128;
      auto c = v.toComplexDouble();
      a->number.c[0] = c.real();
      a->number.c[1] = c.imag();
    } else if (v.isUnsigned()) { // above what int64 holds
      a->dtype = TT_U64;
      a->number.i = static_cast<int64_t>(v.toUInt());
    } else {
      TORCH_CHECK_NOT_IMPLEMENTED(false, "expected a number, got ", v.tagKind());
    }
  }

  static void integer(const c10::IValue &v, uint8_t tag, tt_arg *a) {
    a->tag = tag;
    a->number.i = v.isBool() ? v.toBool() : v.isInt() ? v.toInt() : v.toSymInt().guard_int(__FILE__, __LINE__);
  }

  template <class F> void list(const c10::IValue &v, tt_arg *a, F element) {
    if (!v.isList()) { // torch takes one number for a list of them
      auto *one = scratch.make<tt_arg>(1);
      std::memset(one, 0, sizeof *one);
      element(v, one);
      a->count = 1;
      a->list = one;
    } else {
      auto items = v.toListRef();
      auto *packed = scratch.make<tt_arg>(items.size());
      std::memset(packed, 0, items.size() * sizeof *packed);
      for (size_t i = 0; i < items.size(); i++) element(items[i], &packed[i]);
      a->count = static_cast<uint32_t>(items.size());
      a->list = packed;
    }
    a->tag = TT_ARG_LIST;
  }

  void argument(Kind kind, const c10::IValue &v, tt_arg *a) {
    if (v.isNone()) return; // TT_ARG_NONE is 0
    switch (kind) {
      case Kind::Tensor: tensor(v, a); break;
      case Kind::Tensors: list(v, a, [this](const c10::IValue &x, tt_arg *e) { tensor(x, e); }); break;
      case Kind::Scalar: v.isTensor() ? tensor(v, a) : number(v, a); break;
      case Kind::Int:
      case Kind::MemoryFormat: integer(v, TT_ARG_INT, a); break;
      case Kind::Bool: integer(v, TT_ARG_BOOL, a); break;
      case Kind::Dtype:
        a->tag = TT_ARG_DTYPE;
        a->dtype = dtype_of(static_cast<c10::ScalarType>(v.toInt()));
        break;
      case Kind::String:
        a->tag = TT_ARG_STRING;
        a->string = v.toStringRef().c_str();
        break;
      case Kind::Ints: list(v, a, [](const c10::IValue &x, tt_arg *e) { integer(x, TT_ARG_INT, e); }); break;
      case Kind::Bools: list(v, a, [](const c10::IValue &x, tt_arg *e) { integer(x, TT_ARG_BOOL, e); }); break;
      case Kind::Floats:
      case Kind::Scalars: list(v, a, [](const c10::IValue &x, tt_arg *e) { number(x, e); }); break;
      case Kind::Strings:
        list(v, a, [](const c10::IValue &x, tt_arg *e) {
          e->tag = TT_ARG_STRING;
          e->string = x.toStringRef().c_str();
        });
        break;
      case Kind::Generator:
        a->tag = TT_ARG_GENERATOR;
        a->generator = generator_of(v.toGenerator());
        break;
      case Kind::Device: {
        c10::Device d = v.toDevice();
        if (d.type() == kTpu && d.index() > 0) check_device(d.index());
        if (device < 0 && d.type() == kTpu) device = d.index() < 0 ? current_device() : d.index();
        break;
      }
      case Kind::Layout:
        TORCH_CHECK_NOT_IMPLEMENTED(static_cast<c10::Layout>(v.toInt()) == c10::kStrided,
                                    "tpu tensors have the strided layout only");
        break;
      case Kind::None: break;
      case Kind::Stream:
      case Kind::Other: TORCH_CHECK_NOT_IMPLEMENTED(false, "argument of kind ", v.tagKind(), " on tpu");
    }
  }

  void pack(const Entry &e, const c10::IValue *stack) {
    size_t n = e.args.size();
    args = scratch.make<tt_arg>(n);
    std::memset(args, 0, n * sizeof *args);
    for (size_t i = 0; i < n; i++) {
      const ArgInfo &info = e.args[i];
      argument(info.kind, info.stack >= 0 ? stack[info.stack] : info.otherwise, &args[i]);
    }
    if (device < 0) device = current_device();
  }
};

static uint32_t flags_of(const Entry &e) {
  if (!e.matmul) return 0;
  auto &context = at::globalContext();
  return static_cast<uint32_t>(context.float32MatmulPrecision()) | (context.deterministicAlgorithms() ? 4u : 0u);
}

static void fill(tt_call *c, const Entry &e, const Frame &f) {
  c->variant = &e.variant;
  c->client = client();
  c->device = f.device;
  c->flags = flags_of(e);
  c->args = f.args;
  c->place = C10_UNLIKELY(tracing_stacks) ? place_of(e.variant.name) : nullptr;
  c->n_slots = c->n_words = 0;
  tt_default_dtype = static_cast<tt_dtype>(dtype_of(c10::get_default_dtype_as_scalartype()));
}

// What a run raises: where the user can do something about it, with the operator, its shapes and the line.
[[noreturn]] static C10_NOINLINE void raise_of_run(const tt_call &c, const tt_error &err) {
  if (!(c.flags & TT_CALL_DEBUG) && !tracing_stacks) raise(err, {}, c.device);
  char call[512];
  tt_call_describe(&c, call, sizeof call);
  std::string line = user_line(true);
  raise(err, "\n  in " + std::string(call) + (line.empty() ? "" : ", at " + line), c.device);
}

// ---- results ----
static at::Tensor wrap(tt_storage *s, const tt_output &o) {
  if (!o.defined) return {};
  return wrap_tensor(s, scalar_type_of(o.dtype), {o.sizes, o.rank}, {o.strides, o.rank});
}

template <class F>
static void put_results(const Entry &e, torch::jit::Stack *stack, int n, tt_storage **results, F output) {
  size_t base = stack->size() - e.n_stack;
  c10::SmallVector<c10::IValue, 4> made;
  int k = 0;
  for (const ReturnInfo &r : e.returns) {
    if (r.alias >= 0) {
      made.emplace_back((*stack)[base + r.alias]);
    } else if (r.list) {
      c10::List<at::Tensor> list;
      list.reserve(n);
      int end = n - (static_cast<int>(&e.returns.back() - &r)); // what follows a list are single tensors
      for (; k < end; k++) list.push_back(wrap(results[k], output(k)));
      made.emplace_back(std::move(list));
    } else {
      made.emplace_back(wrap(results[k], output(k)));
      k++;
    }
  }
  stack->resize(base);
  for (auto &v : made) stack->push_back(std::move(v));
}

// Gives out= arguments the sizes that Meta gave theirs (and warned about); true if one changed.
static bool resize_outs(Entry &e, const c10::IValue *args, const Outputs &o) {
  bool changed = false;
  size_t k = 0;
  for (int16_t i : e.outs)
    each_tensor(args[i], [&](const at::Tensor &out) {
      const at::Tensor &meta = o.outs[k++];
      if (out.sizes() == meta.sizes()) return;
      resize_tensor(out.unsafeGetTensorImpl(), meta.sizes(), meta.strides());
      changed = true;
    });
  return changed;
}

// torch's factories (arange, linspace, eye ...) make an empty out= at every call and have the kernel resize it: what
// its sizes and strides become is remembered by the call's key. Of outs with elements Meta is asked each time, as it
// warns.
using Shapes = std::vector<std::pair<std::vector<int64_t>, std::vector<int64_t>>>;
static std::mutex grown_lock;
static std::unordered_map<std::string, Shapes> &grown() {
  static auto &all = *new std::unordered_map<std::string, Shapes>;
  return all;
}

static bool outs_are_empty(const Entry &e, const c10::IValue *args) {
  bool all = !e.outs.empty();
  for (int16_t i : e.outs) each_tensor(args[i], [&](const at::Tensor &out) { all = all && out.numel() == 0; });
  return all;
}

static void remember_outs(const std::string &key, const Outputs &o) {
  Shapes shapes;
  for (const at::Tensor &meta : o.outs) shapes.emplace_back(meta.sizes().vec(), meta.strides().vec());
  std::lock_guard<std::mutex> guard(grown_lock);
  if (grown().size() >= 4096) grown().clear();
  grown()[key] = std::move(shapes);
}

// As resize_outs, from memory. False: nothing is known of such a call.
static bool resize_outs_again(Entry &e, const c10::IValue *args, const std::string &key) {
  std::lock_guard<std::mutex> guard(grown_lock);
  auto it = grown().find(key);
  if (it == grown().end()) return false;
  size_t k = 0;
  for (int16_t i : e.outs)
    each_tensor(args[i], [&](const at::Tensor &out) {
      const auto &[sizes, strides] = it->second[k++];
      if (out.sizes() != c10::IntArrayRef(sizes))
        resize_tensor(out.unsafeGetTensorImpl(), sizes, c10::IntArrayRef(strides));
    });
  return true;
}

// ---- misses ----
// A call inside a program being traced: adds to it.
static C10_NOINLINE void call_traced(Entry &e, torch::jit::Stack *stack, c10::IValue *args, Frame &f, tt_trace *trace) {
  Outputs o;
  TORCH_CHECK_NOT_IMPLEMENTED(e.route.load() != ROUTE_CPU && meta_outputs(e, args, o), "aten::", e.name,
                              " cannot be part of a traced program on tpu");
  if (resize_outs(e, args, o)) f.pack(e, args);
  tt_call c;
  fill(&c, e, f);
  std::vector<tt_storage *> results(o.outputs.size() + 1);
  tt_error err{};
  Pending pending(&e, args);
  {
    GilRelease nogil;
    check(tt_trace_call(trace, &c, o.outputs.data(), static_cast<int>(o.outputs.size()), results.data(), &err), err);
  }
  put_results(e, stack, static_cast<int>(o.outputs.size()), results.data(),
              [&](int k) -> const tt_output & { return o.outputs[k]; });
}

static C10_NOINLINE void call_slowly(Entry &e, torch::jit::Stack *stack, uint8_t route) {
  if (route == ROUTE_EAGER && decompose_eagerly(e, stack)) return;
  fall_back(e, stack);
}

// Calls that could not be programs, by their keys: the next of the same key is not tried again. Changing shapes make
// new keys: beyond some thousands all are forgotten, and tried anew.
static std::mutex detours_lock;
static std::unordered_map<std::string, uint8_t> &detours() {
  static auto &all = *new std::unordered_map<std::string, uint8_t>;
  return all;
}
static uint8_t detour_of(const std::string &key) {
  std::lock_guard<std::mutex> guard(detours_lock);
  auto it = detours().find(key);
  return it == detours().end() ? uint8_t{ROUTE_PLAN} : it->second;
}

// A rule that failed is a defect, unless the host refuses the call as well: then this raises what it says.
static void ask_host(Entry &e, const c10::IValue *args) {
  HostArgs host;
  torch::jit::Stack stack;
  for (int i = 0; i < e.n_stack; i++) stack.push_back(args[i]);
  for (const ArgInfo &info : e.args)
    if (info.stack >= 0) // what it draws is not of the user's generators
      stack[info.stack] =
          info.kind == Kind::Generator ? at::detail::createCPUGenerator(0) : host.value(info, args[info.stack]);
  at::AutoDispatchBelowADInplaceOrView below;
  e.handle.callBoxed(stack);
}

// of others: only they can say why it fails
static bool is_kernel(const Entry &e) { return e.name.find("::") != std::string::npos; }

static bool refused_by_meta(Entry &e, torch::jit::Stack *stack) {
  if (!may_fall_back()) return false;
  fall_back(e, stack);
  return true;
}

// What torch's iterator refuses, and Meta does not see: writing where elements share memory, with each other or with
// some of what is read. The key knows both, so that a refused call never has a plan.
static void check_overlap(const Entry &e, const c10::IValue *args) {
  static const std::unordered_set<std::string> allowed = {"fill_", "zero_", "masked_fill_", "index_put_",
                                                          "_index_put_impl_"};
  if (!e.variant.written || !e.variant.op->rule || e.variant.foreach || e.matmul ||
      allowed.count(e.handle.schema().name().substr(6)))
    return;
  auto plain = [](const c10::IValue &v) {
    return v.isTensor() && v.toTensor().defined() && v.toTensor().device().type() == kTpu;
  };
  for (size_t i = 0; i < e.args.size(); i++) {
    if (!(e.variant.written >> i & 1) || e.args[i].stack < 0 || !plain(args[e.args[i].stack])) continue;
    const at::Tensor &to = args[e.args[i].stack].toTensor();
    at::assert_no_internal_overlap(to);
    for (const ArgInfo &other : e.args)
      if (other.stack >= 0 && other.stack != e.args[i].stack && plain(args[other.stack]))
        at::assert_no_partial_overlap(to, args[other.stack].toTensor());
  }
}

// A plan for the call; NULL if the call was done another way.
static C10_NOINLINE const tt_plan *build(Entry &e, torch::jit::Stack *stack, c10::IValue *args, Frame &f, tt_call &c) {
  const std::string asked(reinterpret_cast<const char *>(c.words), c.n_words * sizeof *c.words);
  bool fresh_outs = outs_are_empty(e, args);
  tt_error err{};
  auto find_resized = [&]() -> const tt_plan * {
    tt_call_end(&c);
    f.pack(e, args);
    c.args = f.args;
    check(tt_call_begin(&c, &err), err);
    return tt_plan_find(&c);
  };
  if (fresh_outs && resize_outs_again(e, args, asked))
    if (const tt_plan *known = find_resized()) return known;
  if (e.n_refusals) refuse(e, args);
  if (uint8_t route = detour_of(asked)) return call_slowly(e, stack, route), nullptr;
  Outputs o;
  bool known;
  try {
    known = meta_outputs(e, args, o);
  } catch (const std::exception &x) {
    if (std::strncmp(x.what(), "KeyboardInterrupt", 17) == 0) throw;
    // Many Meta kernels are Python now and have words of their own: the host's kernel refuses with torch's, or it knows
    // better.
    if (is_kernel(e) || !refused_by_meta(e, stack)) throw;
    return nullptr;
  }
  if (!known) {
    if (!e.handle.hasComputedKernelForDispatchKey(c10::DispatchKey::Meta)) e.route = ROUTE_CPU;
    fall_back(e, stack);
    return nullptr;
  }
  check_overlap(e, args);
  if (resize_outs(e, args, o)) {
    if (fresh_outs) remember_outs(asked, o);
    if (const tt_plan *known = find_resized()) return known;
  }
  const tt_plan *plan;
  read_while_tracing = interrupted = false;
  decomposition_known = true;
  {
    Pending pending(&e, args);
    RECORD_USER_SCOPE("tpu::build");
    GilRelease nogil;
    plan = tt_plan_build(&c, o.outputs.data(), static_cast<int>(o.outputs.size()), &err);
  }
  if (plan) return plan;
  bool by_plugin = std::strncmp(err.where, "PJRT_", 5) == 0 && err.code != TT_RESOURCE_EXHAUSTED;
  if (!e.variant.op->rule && !by_plugin && err.code != TT_RESOURCE_EXHAUSTED && err.code != TT_NOT_FOUND) {
    tt_log("aten::%s: decomposition not traced: %s", e.name.c_str(), err.message);
    if (interrupted) return fall_back(e, stack), nullptr;
    if (is_kernel(e) && decomposition_known && !read_while_tracing) raise(err);
    if (!decomposition_known && !read_while_tracing) { // there is none, whatever the arguments
      e.route = ROUTE_CPU;
      return call_slowly(e, stack, ROUTE_CPU), nullptr;
    }
    uint8_t route = read_while_tracing ? ROUTE_EAGER : ROUTE_CPU; // of these arguments; others may fare better
    {
      std::lock_guard<std::mutex> guard(detours_lock);
      if (detours().size() >= 4096) detours().clear();
      detours()[asked] = route;
    }
    call_slowly(e, stack, route);
    return nullptr;
  }
  if (err.code == TT_INTERNAL || err.code == TT_UNKNOWN || by_plugin) {
    if (!is_kernel(e)) ask_host(e, args);
    raise(err);
  }
  // What cannot be lowered is most often what torch refuses: the host's kernel says so in torch's words.
  bool refused = err.code == TT_INVALID_ARGUMENT || err.code == TT_OUT_OF_RANGE;
  if (err.code != TT_UNIMPLEMENTED && !(refused && may_fall_back())) raise(err);
  tt_log("aten::%s: not lowered: %s", e.name.c_str(), err.message);
  fall_back(e, stack);
  return nullptr;
}

// ---- lazy conjugates and negatives ----
// torch makes them before most operators; a few (mm and its kin) get them as they are.
static at::Tensor resolved(const at::Tensor &t) {
  return t.defined() && t.device().type() == kTpu ? t.resolve_conj().resolve_neg() : t;
}

static C10_NOINLINE void call_resolved(Entry &e, torch::jit::Stack *stack) {
  size_t base = stack->size() - e.n_stack;
  std::vector<std::pair<at::Tensor, at::Tensor>> written;
  for (const ArgInfo &info : e.args) {
    if (info.stack < 0) continue;
    c10::IValue &v = (*stack)[base + info.stack];
    if (v.isTensor() && v.toTensor().defined() && (v.toTensor().is_conj() || v.toTensor().is_neg())) {
      at::Tensor own = v.toTensor(), plain = resolved(own);
      const auto *alias = e.handle.schema().arguments()[info.stack].alias_info();
      if (alias && alias->isWrite()) written.emplace_back(own, plain);
      v = plain;
    } else if (v.isTensorList()) {
      c10::List<at::Tensor> list;
      for (const at::Tensor &t : v.toTensorVector()) list.push_back(resolved(t));
      v = list;
    } else if (v.isList() && info.kind == Kind::Tensors) {
      c10::List<std::optional<at::Tensor>> list;
      for (const c10::IValue &x : v.toListRef())
        list.push_back(x.isTensor() ? std::optional<at::Tensor>(resolved(x.toTensor())) : std::nullopt);
      v = list;
    }
  }
  call(e, stack);
  for (auto &w : written) {
    w.first.copy_(w.second);
    for (c10::IValue &v : *stack)
      if (v.isTensor() && v.toTensor().is_same(w.second)) v = w.first;
  }
}

// ---- errors that only values tell ----
// Factorisations are done without check_errors, then torch looks at their info, which comes last, and raises.
static C10_NOINLINE void call_checked(Entry &e, torch::jit::Stack *stack) {
  c10::IValue *args = stack->data() + (stack->size() - e.n_stack);
  const std::string name = e.handle.schema().name().substr(6);
  const char *said = name == "linalg_cholesky_ex"     ? "linalg.cholesky_ex"
                     : name == "linalg_inv_ex"        ? "linalg.inv_ex"
                     : name == "_linalg_solve_ex"     ? "torch.linalg.solve_ex"
                     : name == "linalg_lu_factor_ex"  ? "torch.linalg.lu_factor_ex"
                     : name == "linalg_ldl_factor_ex" ? "torch.linalg.ldl_factor_ex"
                                                      : e.name.c_str();
  bool single = args[0].toTensor().dim() == 2;
  args[e.check_errors] = false;
  call(e, stack);
  at::_linalg_check_errors(stack->back().toTensor(), said, single);
}

// Windows that another thread has left run before, those that are full after; what fails is told by who reads what it
// was to fill.
static void run(const tt_plan *plan, tt_call &c, tt_storage **results) {
  tt_error err;
  if (C10_UNLIKELY(tt_window_handed(c.device))) {
    RECORD_USER_SCOPE("tpu::flush");
    GilRelease nogil;
    tt_flush_handed(c.device);
  }
  {
    RECORD_USER_SCOPE("tpu::execute");
    if (C10_UNLIKELY(with_memory(c.device, [&] { return tt_plan_run(plan, &c, results, &err); }) != TT_OK))
      raise_of_run(c, err);
  }
  if (C10_LIKELY(!tt_window_full())) return;
  RECORD_USER_SCOPE("tpu::flush");
  GilRelease nogil;
  tt_flush_full(&err);
}

// ---- sizes that vary ----
// False: the call is an ordinary one now.
static C10_NOINLINE bool call_bucketed(Entry &e, torch::jit::Stack *stack, c10::IValue *args, tt_call &c) {
  tt_error err{};
  const tt_plan *plan = tt_plan_find(&c);
  if (!plan && !(plan = build_bucketed(e, args, c))) {
    check(tt_call_unbucket(&c, true, &err), err);
    return false;
  }
  int n = tt_plan_output_count(plan);
  c10::SmallVector<tt_storage *, 4> results(n + 1);
  c10::SmallVector<tt_output, 4> outputs(n);
  c10::SmallVector<std::array<int64_t, 2 * TT_MAX_RANK>, 4> shapes(n);
  run(plan, c, results.data());
  for (int k = 0; k < n; k++) {
    outputs[k] = *tt_plan_output(plan, k);
    if (!outputs[k].defined) continue;
    outputs[k].sizes = shapes[k].data();
    outputs[k].strides = shapes[k].data() + TT_MAX_RANK;
    tt_plan_shape(plan, &c, k, shapes[k].data(), shapes[k].data() + TT_MAX_RANK);
  }
  put_results(e, stack, n, results.data(), [&](int k) -> const tt_output & { return outputs[k]; });
  return true;
}

// ---- the kernel ----
void call(Entry &e, torch::jit::Stack *stack) {
  c10::IValue *args = stack->data() + (stack->size() - e.n_stack);
  tt_trace *trace = tt_trace_current();
  if (C10_UNLIKELY(e.route.load(std::memory_order_relaxed) != ROUTE_PLAN && !trace))
    return call_slowly(e, stack, ROUTE_CPU);
  if (C10_UNLIKELY(e.check != nullptr)) e.check(args);
  if (C10_UNLIKELY(e.check_errors >= 0) && args[e.check_errors].toBool()) return call_checked(e, stack);
  if (e.indices >= 0 && index_by_masks(e, stack, args)) return;
  Frame f;
  f.pack(e, args);
  if (C10_UNLIKELY(f.lazy)) return call_resolved(e, stack);
  if (C10_UNLIKELY(trace != nullptr)) return call_traced(e, stack, args, f, trace);
  tt_call c;
  fill(&c, e, f);
  tt_error err;
  err.code = TT_OK;
  check(tt_call_begin(&c, &err), err);
  struct End {
    tt_call *c;
    ~End() { tt_call_end(c); }
  } end{&c};
  if (C10_UNLIKELY(c.n_symbols) && call_bucketed(e, stack, args, c)) return;
  const tt_plan *plan = tt_plan_find(&c);
  if (C10_UNLIKELY(!plan) && !(plan = build(e, stack, args, f, c))) return;
  int n = tt_plan_output_count(plan);
  tt_storage *few[16], **results = few;
  std::vector<tt_storage *> many;
  if (n > 16) {
    many.resize(n);
    results = many.data();
  }
  run(plan, c, results);
  if (C10_LIKELY(e.returns.size() == 1 && !e.returns[0].list)) { // nearly all
    c10::IValue r = e.returns[0].alias >= 0 ? std::move(args[e.returns[0].alias])
                                            : c10::IValue(wrap(results[0], *tt_plan_output(plan, 0)));
    stack->resize(stack->size() - e.n_stack);
    stack->push_back(std::move(r));
    return;
  }
  put_results(e, stack, n, results, [&](int k) -> const tt_output & { return *tt_plan_output(plan, k); });
}

void call_with_outputs(Entry &e, torch::jit::Stack *stack, const std::vector<tt_output> &outputs) {
  const c10::IValue *args = stack->data() + (stack->size() - e.n_stack);
  int n = static_cast<int>(outputs.size());
  std::vector<tt_storage *> results(outputs.size() + 1);
  Frame f;
  f.pack(e, args);
  tt_call c;
  fill(&c, e, f);
  tt_error err{};
  Pending pending(&e, args);
  if (tt_trace *trace = tt_trace_current()) {
    GilRelease nogil;
    check(tt_trace_call(trace, &c, outputs.data(), n, results.data(), &err), err);
  } else {
    check(tt_call_begin(&c, &err), err);
    struct End {
      tt_call *c;
      ~End() { tt_call_end(c); }
    } end{&c};
    const tt_plan *plan = tt_plan_find(&c);
    if (!plan) {
      GilRelease nogil;
      plan = tt_plan_build(&c, outputs.data(), n, &err);
    }
    if (!plan) raise(err);
    run(plan, c, results.data());
  }
  put_results(e, stack, n, results.data(), [&](int k) -> const tt_output & { return outputs[k]; });
}

// ---- schemas ----
Kind kind_of(const c10::Type &type) {
  using T = c10::TypeKind;
  switch (type.kind()) {
    case T::OptionalType: return kind_of(*type.castRaw<c10::OptionalType>()->getElementType());
    case T::TensorType: return Kind::Tensor;
    case T::NumberType:
    case T::FloatType:
    case T::ComplexType:
    case T::SymFloatType: return Kind::Scalar;
    case T::IntType:
    case T::SymIntType: return Kind::Int;
    case T::BoolType:
    case T::SymBoolType: return Kind::Bool;
    case T::StringType: return Kind::String;
    case T::GeneratorType: return Kind::Generator;
    case T::DeviceObjType: return Kind::Device;
    case T::StreamObjType: return Kind::Stream;
    case T::ScalarTypeType: return Kind::Dtype;
    case T::LayoutType: return Kind::Layout;
    case T::MemoryFormatType: return Kind::MemoryFormat;
    case T::ListType:
      switch (kind_of(*type.castRaw<c10::ListType>()->getElementType())) {
        case Kind::Tensor: return Kind::Tensors;
        case Kind::Int: return Kind::Ints;
        case Kind::Bool: return Kind::Bools;
        case Kind::String: return Kind::Strings;
        case Kind::Scalar:
          return type.castRaw<c10::ListType>()->getElementType()->kind() == T::FloatType ? Kind::Floats : Kind::Scalars;
        default: return Kind::Other;
      }
    default: return Kind::Other;
  }
}

std::unique_ptr<Entry> make_entry(const c10::OperatorHandle &op) {
  const c10::FunctionSchema &schema = op.schema();
  auto e = std::make_unique<Entry>(op);
  e->name = schema.name();
  if (e->name.compare(0, 6, "aten::") == 0) e->name.erase(0, 6);
  if (!schema.overload_name().empty()) e->name += "." + schema.overload_name();
  e->n_stack = static_cast<int16_t>(schema.arguments().size());
  bool fits = e->n_stack < 64 && schema.returns().size() <= 16;
  for (int16_t i = 0; i < e->n_stack; i++) {
    const c10::Argument &a = schema.arguments()[i];
    // real_type keeps ScalarType, Layout and MemoryFormat apart from int.
    Kind kind = kind_of(*a.real_type());
    if (a.name() == "indices" && kind == Kind::Tensors) e->indices = i;
    if (a.name() == "check_errors") e->check_errors = i;
    if (a.is_out()) e->outs.push_back(i);
    if (a.alias_info() && a.alias_info()->isWrite() && i < 64) e->variant.written |= uint64_t{1} << i;
    fits = fits && kind != Kind::Other && kind != Kind::Stream;
    e->args.push_back({kind, i, {}});
  }
  std::fill(std::begin(e->variant.alias), std::end(e->variant.alias), int8_t{-1});
  for (size_t k = 0; k < schema.returns().size(); k++) {
    const c10::Argument &r = schema.returns()[k];
    Kind kind = kind_of(*r.real_type());
    ReturnInfo info{kind == Kind::Tensors, -1};
    if (r.alias_info())
      for (int16_t i = 0; i < e->n_stack; i++) {
        const auto *a = schema.arguments()[i].alias_info();
        if (a && a->isWrite() && a->beforeSets() == r.alias_info()->beforeSets()) info.alias = i;
      }
    if (r.alias_info() && info.alias < 0) fits = false; // a view: made by torch, or on the host
    if (kind != Kind::Tensor && kind != Kind::Tensors) fits = false;
    if (k < 16) e->variant.alias[k] = static_cast<int8_t>(info.alias);
    e->returns.push_back(info);
  }
  if (!fits) e->route = ROUTE_CPU;
  e->variant.op = tt_op_without_rule();
  e->variant.name = e->name.c_str();
  e->variant.id = tt_variant_new_id();
  e->variant.n_args = static_cast<uint8_t>(e->args.size());
  e->variant.n_results = static_cast<uint8_t>(e->returns.size());
  e->variant.user = e.get();
  e->matmul = true; // not known what it is made of
  return e;
}

std::unique_ptr<Entry> make_graph_entry() {
  auto e = make_entry(c10::Dispatcher::singleton().findSchemaOrThrow("torch_tpu::graph_call", ""));
  e->args = {{Kind::Tensors, 0, {}}, {Kind::Tensors, 1, {}}}; // without the handle
  e->n_stack = 2;
  e->variant.n_args = 2;
  e->variant.written = 1;
  e->variant.graph = true;
  return e;
}

} // namespace tpu
