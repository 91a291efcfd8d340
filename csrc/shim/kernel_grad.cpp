// kernel_grad.cpp: the derivative of a kernel whose backward is an operator, without the Python of torch.library.
//
// NAME_backward takes all arguments of NAME and the gradients of its floating results, and returns the gradients of its
// floating tensors (torch_tpu/pallas/op.py). The node saves the arguments and calls it. What this does not do, complex
// tensors, is left to Python, which says why it is refused.
#include <ATen/core/dispatch/Dispatcher.h>
#include <torch/csrc/autograd/function.h>
#include <torch/csrc/autograd/functions/utils.h>
#include <torch/csrc/autograd/saved_variable.h>
#include <torch/csrc/autograd/variable.h>
#include <torch/library.h>
#include <mutex>
#include <shared_mutex>

namespace tpu {

using torch::autograd::SavedVariable;
using torch::autograd::variable_list;

static std::shared_mutex lock;
static std::unordered_map<std::string, c10::OperatorHandle> &backwards() {
  static auto &all = *new std::unordered_map<std::string, c10::OperatorHandle>;
  return all;
}

static void derived(c10::string_view name, c10::string_view backward) { // backward "": no more
  std::unique_lock<std::shared_mutex> guard(lock);
  backwards().erase(std::string(name));
  if (!backward.empty())
    backwards().emplace(std::string(name),
                        c10::Dispatcher::singleton().findSchemaOrThrow(std::string(backward).c_str(), ""));
}

struct KernelBackward : torch::autograd::Node {
  KernelBackward(const c10::OperatorHandle &op) : op(op) {}

  variable_list apply(variable_list &&given) override {
    torch::jit::Stack stack;
    std::vector<bool> floating;
    size_t next = 0;
    const auto unpack = [&] {
      at::Tensor t = saved[next++].unpack();
      floating.push_back(t.is_floating_point());
      return t;
    };
    std::unique_lock<std::mutex> guard(mutex_); // another thread's backward may release what is saved
    TORCH_CHECK(!released, torch::autograd::ERR_BACKWARD_TWICE);
    for (size_t i = 0; i < arguments.size(); i++) {
      if (counts[i] < 0) stack.push_back(arguments[i]);
      else if (counts[i] == 0) stack.emplace_back(unpack());
      else {
        c10::List<at::Tensor> list;
        for (int k = 0; k < counts[i]; k++) list.push_back(unpack());
        stack.emplace_back(std::move(list));
      }
    }
    guard.unlock();
    c10::List<at::Tensor> gradients;
    for (size_t i = 0; i < given.size(); i++)
      gradients.push_back(given[i].defined() ? given[i] : input_metadata(i).zeros_like());
    stack.emplace_back(std::move(gradients));
    op.callBoxed(&stack);
    std::vector<at::Tensor> made = stack.at(0).toTensorVector();
    variable_list results(floating.size());
    for (size_t i = 0, k = 0; i < floating.size(); i++)
      if (floating[i]) results[i] = made.at(k++);
    return results;
  }

  void release_variables() override {
    std::lock_guard<std::mutex> guard(mutex_);
    saved.clear();
    released = true;
  }

  c10::OperatorHandle op;
  std::vector<c10::IValue> arguments; // None where tensors were
  std::vector<int> counts;            // of each: -1 no tensor, 0 one, else how many a list has
  std::vector<SavedVariable> saved;
  bool released = false;
};

// Runs op, whose arguments need gradients, below autograd, and lets its results know. False, with the stack as it was:
// Python does it.
bool run_derived(const c10::OperatorHandle &op, c10::DispatchKeySet below, torch::jit::Stack *stack) {
  std::optional<c10::OperatorHandle> backward;
  {
    std::shared_lock<std::shared_mutex> guard(lock);
    auto found = backwards().find(op.operator_name().name);
    if (found == backwards().end()) return false;
    backward = found->second;
  }
  const size_t n = op.schema().arguments().size();
  const std::vector<c10::IValue> given(stack->end() - static_cast<ptrdiff_t>(n), stack->end());
  auto node = c10::make_intrusive<KernelBackward>(*backward);
  variable_list tensors;
  for (const c10::IValue &v : given) {
    const size_t before = tensors.size();
    if (v.isTensor()) tensors.push_back(v.toTensor());
    else if (v.isTensorList())
      for (const at::Tensor &t : v.toTensorVector()) tensors.push_back(t);
    const bool has = tensors.size() > before;
    node->counts.push_back(v.isTensor() ? 0 : has ? static_cast<int>(tensors.size() - before) : -1);
    node->arguments.push_back(has ? c10::IValue() : v);
  }
  for (const at::Tensor &t : tensors)
    if (!t.defined() || t.is_complex()) return false;
  {
    at::AutoDispatchBelowAutograd guard;
    op.redispatchBoxed(below, stack);
  }
  variable_list results;
  for (size_t i = stack->size() - op.schema().returns().size(); i < stack->size(); i++) {
    if ((*stack)[i].isTensor()) results.push_back((*stack)[i].toTensor());
    else
      for (const at::Tensor &t : (*stack)[i].toTensorVector()) results.push_back(t);
  }
  for (const at::Tensor &t : results)
    if (t.is_complex()) { // once more, in Python
      stack->resize(stack->size() - op.schema().returns().size());
      stack->insert(stack->end(), given.begin(), given.end());
      return false;
    }
  node->set_next_edges(torch::autograd::collect_next_edges(tensors));
  for (const at::Tensor &t : tensors) node->saved.emplace_back(t, false);
  for (at::Tensor &t : results)
    if (t.is_floating_point()) torch::autograd::set_history(t, c10::intrusive_ptr<torch::autograd::Node>(node));
  return true;
}

void register_kernel_grad() {
  static auto &defs = *new torch::Library(torch::Library::FRAGMENT, "torch_tpu", std::nullopt, __FILE__, __LINE__);
  defs.def("derived(str name, str backward) -> ()", TORCH_FN(derived));
}

} // namespace tpu
