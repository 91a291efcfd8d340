// places.cpp: which line of the user's program is running.
//
// That is the innermost Python frame outside of torch and torch_tpu. Threads of autograd run no Python: there it is the
// node of backward that tells. Looked at only where something fails or TORCH_TPU_TRACE_STACKS is set.
#include <Python.h>
#include <cstring>
#include <mutex>
#include <torch/csrc/autograd/function.h>
#include <unordered_set>
#include "shim/common.h"

namespace tpu {

const bool tracing_stacks = [] {
  const char *asked = tt_env("TORCH_TPU_TRACE_STACKS");
  return asked && std::strcmp(asked, "0") != 0;
}();

namespace {
struct Gil {
  PyGILState_STATE state = PyGILState_Ensure();
  ~Gil() { PyGILState_Release(state); }
};

std::string text_of(PyObject *o) { // takes the reference
  const char *utf8 = o && PyUnicode_Check(o) ? PyUnicode_AsUTF8(o) : nullptr;
  std::string text = utf8 ? utf8 : "";
  PyErr_Clear();
  Py_XDECREF(o);
  return text;
}

std::string folder_of(const char *module) { // with its slash; what no file begins with if it is not known
  PyObject *modules = PyImport_GetModuleDict(), *m = modules ? PyDict_GetItemString(modules, module) : nullptr;
  std::string file = m ? text_of(PyObject_GetAttrString(m, "__file__")) : "";
  size_t slash = file.rfind('/');
  return slash == std::string::npos ? "\n" : file.substr(0, slash + 1);
}

bool is_users(const std::string &file) {
  static const std::string torch = folder_of("torch"), own = folder_of("torch_tpu");
  return file.compare(0, torch.size(), torch) && file.compare(0, own.size(), own) && file.compare(0, 8, "<frozen ");
}

std::string source_of(const std::string &file, int line) {
  PyObject *linecache = PyImport_ImportModule("linecache");
  PyObject *text = linecache ? PyObject_CallMethod(linecache, "getline", "si", file.c_str(), line) : nullptr;
  Py_XDECREF(linecache);
  std::string s = text_of(text);
  size_t from = s.find_first_not_of(" \t"), to = s.find_last_not_of(" \t\n");
  return from == std::string::npos ? "" : s.substr(from, to - from + 1);
}

std::string frame_line(bool source) {
  PyFrameObject *f = PyEval_GetFrame(); // borrowed
  for (Py_XINCREF(f); f;) {
    PyCodeObject *code = PyFrame_GetCode(f);
    Py_INCREF(code->co_filename);
    std::string file = text_of(code->co_filename);
    if (is_users(file)) {
      int line = PyFrame_GetLineNumber(f);
      Py_INCREF(code->co_name);
      std::string place = file + ":" + std::to_string(line) + " in " + text_of(code->co_name);
      std::string text = source ? source_of(file, line) : "";
      Py_DECREF(code);
      Py_DECREF(f);
      return text.empty() ? place : place + ": " + text;
    }
    Py_DECREF(code);
    PyFrameObject *back = PyFrame_GetBack(f);
    Py_DECREF(f);
    f = back;
  }
  return "";
}
} // namespace

std::string user_line(bool source) {
  if (!Py_IsInitialized()) return "";
  std::string line;
  {
    Gil gil;
    PyObject *type, *value, *trace; // of an exception that is on its way
    PyErr_Fetch(&type, &value, &trace);
    line = frame_line(source);
    PyErr_Restore(type, value, trace);
  }
  if (!line.empty()) return line;
  auto node = torch::autograd::get_current_node();
  return node ? "the backward of " + node->name() : "";
}

const char *place_of(const char *name) {
  static std::mutex lock;
  static auto &all = *new std::unordered_set<std::string>; // as many as the program has lines that call operators
  std::string line = user_line(false), place = line.empty() ? name : std::string(name) + " at " + line;
  std::lock_guard<std::mutex> guard(lock);
  return all.insert(std::move(place)).first->c_str();
}

} // namespace tpu
