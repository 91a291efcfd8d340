// operators.h: what is known of an operator overload, and the ways to run one: boxed kernel, decomposition, CPU.
#ifndef TT_SHIM_OPERATORS_H
#define TT_SHIM_OPERATORS_H
#include <ATen/core/dispatch/Dispatcher.h>
#include "shim/common.h"

namespace tpu {

enum class Kind : uint8_t {
  None,
  Tensor,
  Tensors,
  Scalar,
  Int,
  Bool,
  Dtype,
  String,
  Ints,
  Floats,
  Bools,
  Scalars,
  Strings,
  Generator,
  Device,
  Layout,
  MemoryFormat,
  Stream,
  Other
};
struct ArgInfo {
  Kind kind;
  int16_t stack;         // where the schema has it; -1: the row has it and this overload has not
  c10::IValue otherwise; // then this
};
struct ReturnInfo {
  bool list;
  int16_t alias; /* stack position, or -1 */
};

// How calls are run: of an operator, which only ever moves down, or of one key.
enum Route : uint8_t {
  ROUTE_PLAN,  // as a program of its own: by its row, or by tracing its decomposition
  ROUTE_EAGER, // its decomposition reads values: run it as Python, each of its operators a program
  ROUTE_CPU    // on the host
};

// What is known of an operator overload; made once, lives for ever.
struct Entry {
  explicit Entry(c10::OperatorHandle op) : handle(std::move(op)) {}
  c10::OperatorHandle handle;
  tt_variant variant{};
  std::vector<ArgInfo> args;
  std::vector<ReturnInfo> returns;
  std::vector<int16_t> outs; // stack positions of out= arguments
  int16_t n_stack = 0;
  int16_t indices = -1;   // stack position of a list of indices, which may be masks or on the host
  int16_t check_errors = -1; // stack position of a factorisation's check_errors, whose info is the last result
  bool matmul = false;    // float32 precision matters
  void *python = nullptr; // PyObject: what is traced, for captured graphs; NULL: torch_tpu._decompose
  int16_t refusals = -1, n_refusals = 0; // rows of refusals.h
  void (*check)(const c10::IValue *args) = nullptr; // of numbers that are not in the key: torch's kernels refuse some
  std::atomic<uint8_t> route{ROUTE_PLAN};
  std::atomic<int64_t> fallbacks{0};
  std::string name; // "add.Tensor"
};

// ---- kernel.cpp ----
Kind kind_of(const c10::Type &type);
std::unique_ptr<Entry> make_entry(const c10::OperatorHandle &op); // without a row: its arguments are the schema's
void call(Entry &e, torch::jit::Stack *stack);
std::unique_ptr<Entry> make_graph_entry(); // (Tensor[] written, Tensor[] read) -> Tensor[]
// As call, for an entry whose results are known without Meta. There is no other way to run it: errors are raised.
void call_with_outputs(Entry &e, torch::jit::Stack *stack, const std::vector<tt_output> &outputs);

// ---- refuse.cpp ----
void find_refusals(Entry &e);
// Raises what the host's kernel says of these dtypes, if it refuses them whatever the values.
void refuse(const Entry &e, const c10::IValue *args);

// ---- sparse.cpp ----
void register_sparse();

// ---- register.cpp ----
void register_operators();
Entry &entry_of(const c10::OperatorHandle &op); // of an operator that has no kernel of its own here
// Raises what the host's kernel raises; else counts, and says so once. run: how, NULL for dense tensors.
void fall_back(Entry &e, torch::jit::Stack *stack,
               void (*run)(const c10::OperatorHandle &op, torch::jit::Stack *stack) = nullptr);
bool may_fall_back();                     // not with TORCH_TPU_FALLBACK=error
Entry &copy_entry(); // aten::copy_ between tensors of one device: not in the dispatcher, tensor.cpp calls it

// ---- tensor.cpp ----
void register_tensor_operators();

// ---- dynamic.cpp ----
void register_dynamic_operators();
// For a call that takes a list of indices: does it if one mask is all of them, else makes its masks and host tensors
// indices.
bool index_by_masks(Entry &e, torch::jit::Stack *stack, c10::IValue *args);

// ---- decompose.cpp ----
void register_decompositions();
// Runs the Python decomposition on the arguments themselves, each of its operators a program. False: there is none.
bool decompose_eagerly(Entry &e, torch::jit::Stack *stack);
struct Gil {
  Gil();
  ~Gil();
  Gil(const Gil &) = delete;
  int state;
};
// Calls fn (a PyObject) on traced tensors; what it delivers is the results. False: it failed, then *why.
bool run_part(void *fn, const std::vector<at::Tensor> &args, std::vector<at::Tensor> *results, std::string *why);
bool traced_result(tt_trace *t, at::Tensor x, tt_tensor *result); // result gets a new reference; false without memory

// ---- control.cpp, sizes.cpp ----
void register_control();
void register_sizes();

// The arguments of the call that this thread is lowering: a decomposition gets them with traced tensors put in.
struct Pending {
  Pending(Entry *entry, const c10::IValue *args);
  ~Pending();
  Pending(const Pending &) = delete;
  Entry *entry;
  const c10::IValue *args;
  Pending *before;
};
extern thread_local bool decomposition_known; // false: there is none, whatever the arguments
extern thread_local bool interrupted;        // the user stopped a decomposition: says nothing about the operator
extern thread_local bool read_while_tracing; // a value was asked for that is not known yet

} // namespace tpu
#endif
