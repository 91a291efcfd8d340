// decompose.cpp: operators and captured graphs that are lowered by running Python once on traced tensors.
//
// The core hands over traced storages in place of a call's; here they become torch tensors, Python runs on them, and
// every operator it calls adds to the program. Results come back through an operator (torch_tpu::deliver), so no Python
// object is ever taken apart here. Captured graphs are calls of the same kind, of an operator without name whose Python
// is the graph.
#include <Python.h>
#include <ATen/core/LegacyTypeDispatch.h>
#include <torch/library.h>
#include <mutex>
#include "shim/meta.h"

// torch's makers of Python objects, as its own (pybind11) headers declare them.
struct THPDtype;
struct THPLayout;
PyObject *THPVariable_Wrap(const at::TensorBase &);
PyObject *THPDevice_New(const at::Device &);
PyObject *THPGenerator_Wrap(const at::Generator &);
namespace torch {
THPDtype *getTHPDtype(at::ScalarType);
THPLayout *getTHPLayout(at::Layout);
namespace utils {
PyObject *getTHPMemoryFormat(at::MemoryFormat);
}
} // namespace torch

namespace tpu {

thread_local bool interrupted = false, decomposition_known = true;
static PyObject *decompose_fn; // run(name, args) of torch_tpu._decompose

Gil::Gil() : state(PyGILState_Ensure()) {}
Gil::~Gil() { PyGILState_Release(static_cast<PyGILState_STATE>(state)); }

// ---- what is being lowered ----
static thread_local Pending *pending;
Pending::Pending(Entry *entry_, const c10::IValue *args_) : entry(entry_), args(args_), before(pending) {
  pending = this;
}
Pending::~Pending() { pending = before; }

static thread_local std::vector<at::Tensor> *delivered;

static void deliver(const c10::List<std::optional<at::Tensor>> &results) {
  TORCH_CHECK(delivered, "torch_tpu::deliver is called by decompositions only");
  delivered->clear();
  for (const std::optional<at::Tensor> &t : results) // storages know no lazy conjugates
    delivered->push_back(t ? t->resolve_conj().resolve_neg() : at::Tensor());
}

// ---- IValue -> Python ----
static PyObject *to_python(Kind kind, const c10::IValue &v) { // new reference, NULL on error
  if (v.isNone()) Py_RETURN_NONE;
  if (v.isTensor()) {
    if (!v.toTensor().defined()) Py_RETURN_NONE;
    return THPVariable_Wrap(v.toTensor());
  }
  if (v.isList()) {
    auto items = v.toListRef();
    PyObject *list = PyList_New(static_cast<Py_ssize_t>(items.size()));
    for (size_t i = 0; list && i < items.size(); i++) {
      PyObject *x = to_python(Kind::Other, items[i]);
      if (!x)
        Py_CLEAR(list);
      else
        PyList_SET_ITEM(list, static_cast<Py_ssize_t>(i), x);
    }
    return list;
  }
  if (v.isDevice()) return THPDevice_New(v.toDevice());
  if (v.isGenerator()) return THPGenerator_Wrap(v.toGenerator());
  if (v.isBool()) return PyBool_FromLong(v.toBool());
  if (v.isDouble()) return PyFloat_FromDouble(v.toDouble());
  if (v.isComplexDouble()) return PyComplex_FromDoubles(v.toComplexDouble().real(), v.toComplexDouble().imag());
  if (v.isString()) return PyUnicode_FromString(v.toStringRef().c_str());
  if (v.isInt()) {
    PyObject *known = nullptr;
    if (kind == Kind::Dtype)
      known = reinterpret_cast<PyObject *>(torch::getTHPDtype(static_cast<at::ScalarType>(v.toInt())));
    if (kind == Kind::Layout)
      known = reinterpret_cast<PyObject *>(torch::getTHPLayout(static_cast<at::Layout>(v.toInt())));
    if (kind == Kind::MemoryFormat) known = torch::utils::getTHPMemoryFormat(static_cast<at::MemoryFormat>(v.toInt()));
    return known ? Py_NewRef(known) : PyLong_FromLongLong(v.toInt());
  }
  PyErr_Format(PyExc_NotImplementedError, "an argument of kind %s", v.tagKind().c_str());
  return nullptr;
}

static std::string python_error() {
  PyObject *type, *value, *trace;
  PyErr_Fetch(&type, &value, &trace);
  PyErr_NormalizeException(&type, &value, &trace);
  PyObject *text = value ? PyObject_Str(value) : nullptr;
  const char *utf8 = text ? PyUnicode_AsUTF8(text) : nullptr;
  std::string s =
      (type ? reinterpret_cast<PyTypeObject *>(type)->tp_name : "error") + std::string(": ") + (utf8 ? utf8 : "?");
  PyErr_Clear();
  Py_XDECREF(text);
  Py_XDECREF(type);
  Py_XDECREF(value);
  Py_XDECREF(trace);
  return s;
}

// Calls fn(list), or the decomposition of name; its results come by deliver. Takes list, which may be NULL. Under the
// GIL.
static bool run_delivering(PyObject *fn, const char *name, PyObject *list, std::vector<at::Tensor> *results,
                           std::string *why) {
  std::vector<at::Tensor> *outer = delivered;
  delivered = results;
  PyObject *r = nullptr;
  if (list) {
    at::AutoDispatchBelowADInplaceOrView below;
    c10::impl::ExcludeDispatchKeyGuard no_autocast(c10::autocast_dispatch_keyset);
    r = fn ? PyObject_CallFunctionObjArgs(fn, list, nullptr) : PyObject_CallFunction(decompose_fn, "sO", name, list);
  }
  delivered = outer;
  Py_XDECREF(list);
  if (!r && PyErr_ExceptionMatches(PyExc_KeyboardInterrupt)) {
    *why = python_error();
    // The call is done another way, and Python hears of it right after: this thread, whatever is done about signals, or
    // the main one where this runs no Python, as autograd's.
    if (PyEval_GetFrame()) PyThreadState_SetAsyncExc(PyThread_get_thread_ident(), PyExc_KeyboardInterrupt);
    else PyErr_SetInterrupt();
    interrupted = true;
  } else if (!r) {
    *why = python_error();
    decomposition_known = true; // whatever an operator inside of it said
  } else if (r == Py_NotImplemented) {
    *why = "no decomposition";
    decomposition_known = false;
  }
  bool ok = r && r != Py_NotImplemented;
  Py_XDECREF(r);
  return ok;
}

// Calls fn on args (of entry's kinds; fn NULL: the operator's decomposition). False: none, or it failed; then *why.
static bool run_python(const Entry &e, PyObject *fn, const std::vector<c10::IValue> &args,
                       std::vector<at::Tensor> *results, std::string *why) {
  Gil gil;
  std::vector<Kind> kinds(args.size(), Kind::Other);
  for (const ArgInfo &a : e.args)
    if (a.stack >= 0 && static_cast<size_t>(a.stack) < kinds.size()) kinds[a.stack] = a.kind;
  PyObject *list = PyList_New(0);
  for (size_t i = 0; list && i < args.size(); i++) {
    PyObject *x = to_python(kinds[i], args[i]);
    if (!x || PyList_Append(list, x)) Py_CLEAR(list);
    Py_XDECREF(x);
  }
  return run_delivering(fn, e.name.c_str(), list, results, why);
}

bool run_part(void *fn, const std::vector<at::Tensor> &args, std::vector<at::Tensor> *results, std::string *why) {
  Gil gil;
  c10::List<at::Tensor> list;
  for (const at::Tensor &t : args) list.push_back(t);
  return run_delivering(static_cast<PyObject *>(fn), "", to_python(Kind::Tensors, list), results, why);
}

// ---- traced ----
struct Graph {
  PyObject *fn;
  std::unique_ptr<Entry> entry;
  std::vector<tt_output> outputs;
  std::vector<std::vector<int64_t>> shapes;
};

// The call's own argument with traced tensors in place of its tensors.
static c10::IValue traced(const tt_arg &a, const c10::IValue &own) {
  if (own.isTensor() && a.tag == TT_ARG_TENSOR) {
    const at::Tensor &t = own.toTensor();
    // traced already
    if (t.device().type() == kTpu && storage_of(t.unsafeGetTensorImpl()) == a.tensor->storage) return own;
    at::Tensor x = wrap_tensor(tt_storage_retain(a.tensor->storage), t.scalar_type(), {a.tensor->sizes, a.tensor->rank},
                               {a.tensor->strides, a.tensor->rank});
    x.unsafeGetTensorImpl()->set_storage_offset(a.tensor->offset);
    if (t.unsafeGetTensorImpl()->is_wrapped_number()) x.unsafeGetTensorImpl()->set_wrapped_number(true);
    return x;
  }
  if (own.isList() && a.tag == TT_ARG_LIST) {
    auto items = own.toListRef();
    if (items.size() != a.count) return own;
    if (own.isTensorList()) {
      c10::List<at::Tensor> list;
      for (uint32_t i = 0; i < a.count; i++) list.push_back(traced(a.list[i], items[i]).toTensor());
      return list;
    }
    bool tensors = false;
    for (const auto &x : items) tensors |= x.isTensor();
    if (!tensors) return own;
    c10::List<std::optional<at::Tensor>> list;
    for (uint32_t i = 0; i < a.count; i++)
      list.push_back(items[i].isTensor() ? std::optional<at::Tensor>(traced(a.list[i], items[i]).toTensor())
                                         : std::nullopt);
    return list;
  }
  return own;
}

bool traced_result(tt_trace *t, at::Tensor x, tt_tensor *result) {
  if (x.device().type() != kTpu) x = x.to(c10::Device(kTpu, current_device()));
  auto rank = static_cast<size_t>(x.dim());
  auto *shape = static_cast<int64_t *>(tt_trace_alloc(t, (2 * rank + 1) * sizeof(int64_t)));
  if (!shape) return false;
  std::copy(x.sizes().begin(), x.sizes().end(), shape);
  std::copy(x.strides().begin(), x.strides().end(), shape + rank);
  *result = tensor_of(x.unsafeGetTensorImpl());
  result->sizes = shape;
  result->strides = shape + rank;
  tt_storage_retain(result->storage);
  return true;
}

static tt_code decompose(tt_trace *t, const tt_variant *v, const tt_arg *args, tt_tensor *results, int n,
                         tt_error *err) {
  auto *e = static_cast<Entry *>(v->user);
  if (!pending || pending->entry != e) return tt_fail(err, TT_UNIMPLEMENTED, v->name, "no lowering");
  try {
    std::vector<c10::IValue> values(pending->args, pending->args + e->n_stack);
    for (size_t i = 0; i < e->args.size(); i++)
      if (e->args[i].stack >= 0) values[e->args[i].stack] = traced(args[i], values[e->args[i].stack]);
    std::vector<at::Tensor> made;
    std::string why;
    if (!run_python(*e, static_cast<PyObject *>(e->python), values, &made, &why))
      return tt_fail(err, TT_UNIMPLEMENTED, v->name, "%s", why.c_str());
    if (static_cast<int>(made.size()) != n)
      return tt_fail(err, TT_UNIMPLEMENTED, v->name, "expected %d results of the decomposition, got %d", n,
                     static_cast<int>(made.size()));
    for (int k = 0; k < n; k++) {
      if (!made[k].defined()) continue;
      if (!traced_result(t, made[k], &results[k]))
        return tt_fail(err, TT_RESOURCE_EXHAUSTED, v->name, "out of host memory");
    }
    return TT_OK;
  } catch (const c10::Error &x) {
    return tt_fail(err, TT_UNIMPLEMENTED, v->name, "%s", x.what_without_backtrace());
  } catch (const std::exception &x) {
    return tt_fail(err, TT_UNIMPLEMENTED, v->name, "%s", x.what());
  }
}

// ---- eager ----
bool decompose_eagerly(Entry &e, torch::jit::Stack *stack) {
  if (!decompose_fn) return false;
  static thread_local std::vector<const Entry *> running;
  for (const Entry *r : running)
    if (r == &e) return false; // a decomposition that calls its own operator
  size_t base = stack->size() - e.n_stack;
  std::vector<c10::IValue> args(stack->begin() + static_cast<std::ptrdiff_t>(base), stack->end());
  std::vector<at::Tensor> made;
  std::string why;
  running.push_back(&e);
  bool ok = run_python(e, nullptr, args, &made, &why);
  running.pop_back();
  if (!ok) {
    tt_log("aten::%s: decomposition not run: %s", e.name.c_str(), why.c_str());
    return false;
  }
  size_t k = 0;
  std::vector<c10::IValue> results;
  for (const ReturnInfo &r : e.returns) {
    if (r.alias >= 0) {
      results.push_back(args[r.alias]);
    } else if (r.list) {
      c10::List<at::Tensor> list;
      size_t end = made.size() - static_cast<size_t>(&e.returns.back() - &r);
      while (k < end) list.push_back(made[k++]);
      results.emplace_back(std::move(list));
    } else {
      results.emplace_back(k < made.size() ? made[k] : at::Tensor());
      k++;
    }
  }
  stack->resize(base);
  for (auto &v : results) stack->push_back(std::move(v));
  return true;
}

// ---- captured graphs ----
static std::mutex graphs_lock;
static std::vector<std::shared_ptr<Graph>> &graphs() {
  static auto &all = *new std::vector<std::shared_ptr<Graph>>;
  return all;
}

// torch_tpu::graph_call(int handle, Tensor[] written, Tensor[] read) -> Tensor[]
static std::vector<at::Tensor> graph_call(int64_t handle, const c10::List<at::Tensor> &written,
                                          const c10::List<at::Tensor> &read) {
  std::shared_ptr<Graph> g;
  {
    std::lock_guard<std::mutex> guard(graphs_lock);
    if (handle >= 0 && static_cast<size_t>(handle) < graphs().size()) g = graphs()[handle];
  }
  TORCH_CHECK(g, "the compiled graph has been released");
  torch::jit::Stack stack{written, read};
  call_with_outputs(*g->entry, &stack, g->outputs);
  return stack[0].toTensorVector();
}

// ---- kernels of others: torch.library's autograd kernel is Python: a call that needs no gradients goes by it ----
bool run_derived(const c10::OperatorHandle &op, c10::DispatchKeySet below, torch::jit::Stack *stack); // kernel_grad.cpp
void register_kernel_grad();

static void past_autograd(const c10::OperatorHandle &op, c10::DispatchKeySet keys, torch::jit::Stack *stack) {
  bool needed = false, grad = c10::GradMode::is_enabled();
  const auto look = [&](const c10::IValue &v) {
    if (!v.isTensor()) return;
    const at::Tensor &t = v.toTensor();
    needed |= grad && t.requires_grad();
    TORCH_CHECK_NOT_IMPLEMENTED(!t._fw_grad(0).defined(), op.schema().name(),
                                ": a kernel has no forward-mode derivative (jvp, dual tensors)");
  };
  for (size_t i = stack->size() - op.schema().arguments().size(); i < stack->size(); i++) {
    if ((*stack)[i].isList())
      for (const c10::IValue &v : (*stack)[i].toListRef()) look(v);
    else look((*stack)[i]);
  }
  keys = keys & c10::DispatchKeySet(c10::DispatchKeySet::FULL_AFTER, c10::DispatchKey::AutogradFunctionality);
  if (needed && run_derived(op, keys & c10::after_autograd_keyset, stack)) return;
  // where it is as well
  if (needed) return op.redispatchBoxed(keys | c10::DispatchKeySet(c10::DispatchKey::AutogradOther), stack);
  at::AutoDispatchBelowAutograd below;
  op.redispatchBoxed(keys & c10::after_autograd_keyset, stack);
}
static void go_past_autograd(c10::string_view name) { // for ever: the handle takes it back
  for (c10::DispatchKey key : {c10::DispatchKey::AutogradPrivateUse1, c10::DispatchKey::AutogradCPU})
    new c10::RegistrationHandleRAII(c10::Dispatcher::singleton().registerImpl(
        {std::string(name), ""}, key, c10::KernelFunction::makeFromBoxedFunction<&past_autograd>(), std::nullopt,
        nullptr, "torch_tpu"));
}

void register_attention(); // attention.cpp

void register_decompositions() {
  register_attention();
  register_kernel_grad();
  tt_set_decompose(decompose);
  static auto &defs = *new torch::Library(torch::Library::DEF, "torch_tpu", std::nullopt, __FILE__, __LINE__);
  defs.def("deliver(Tensor?[] results) -> ()");
  defs.def("past_autograd(str name) -> ()", TORCH_FN(go_past_autograd));
  defs.def("graph_call(int handle, Tensor(a!)[] written, Tensor[] read) -> Tensor[]");
  static auto &all = *new torch::Library(torch::Library::IMPL, "torch_tpu", c10::DispatchKey::CompositeExplicitAutograd,
                                         __FILE__, __LINE__);
  all.impl("deliver", TORCH_FN(deliver));
  all.impl("graph_call", TORCH_FN(graph_call));
}

} // namespace tpu

using namespace tpu;

void *shim_default_generator(int device) {
  return THPGenerator_Wrap(default_generator(static_cast<c10::DeviceIndex>(device)));
}

void shim_set_decompose(void *fn) {
  Py_XINCREF(static_cast<PyObject *>(fn));
  Py_XDECREF(decompose_fn);
  decompose_fn = static_cast<PyObject *>(fn);
}

int64_t shim_graph_register(void *fn, int n_outputs, const tt_output *outputs, tt_error *err) {
  try {
    auto g = std::make_shared<Graph>();
    g->fn = Py_NewRef(static_cast<PyObject *>(fn));
    g->entry = make_graph_entry();
    g->entry->python = fn;
    for (int k = 0; k < n_outputs; k++) {
      tt_output o = outputs[k];
      g->shapes.emplace_back(o.sizes, o.sizes + o.rank);
      o.sizes = g->shapes.back().data();
      g->shapes.emplace_back(o.strides, o.strides + o.rank);
      o.strides = g->shapes.back().data();
      g->outputs.push_back(o);
    }
    std::lock_guard<std::mutex> guard(graphs_lock);
    graphs().push_back(std::move(g));
    return static_cast<int64_t>(graphs().size()) - 1;
  } catch (const std::exception &x) {
    tt_fail(err, TT_INTERNAL, "", "%s", x.what());
    return -1;
  }
}

// The Python side goes; the entry stays, since plans carry its name.
void shim_graph_release(int64_t handle) {
  std::shared_ptr<Graph> g;
  {
    std::lock_guard<std::mutex> guard(graphs_lock);
    if (handle < 0 || static_cast<size_t>(handle) >= graphs().size()) return;
    g.swap(graphs()[handle]);
  }
  if (!g) return;
  g->entry->python = nullptr;
  (void)g->entry.release();
  Py_XDECREF(g->fn);
}

tt_code shim_register(tt_error *err) {
  try {
    register_device();
    register_operators();
    register_tensor_operators();
    register_decompositions();
    register_control();
    register_sizes();
    register_sparse();
    register_dynamic_operators();
    register_autocast();
    return TT_OK;
  } catch (const std::exception &x) {
    return tt_fail(err, TT_INTERNAL, "", "%s", x.what());
  }
}
