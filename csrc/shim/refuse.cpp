// refuse.cpp: dtypes and numbers that the CPU refuses for an operator, and the tpu would compute with: they raise what
// the CPU says.
//
// Meta kernels see shapes and let such calls pass; integers would then give cut results. Which operators refuse what is
// measured (tools/refusals.py). It is asked when a call has no plan yet, so that calls that have one pay nothing.
// Numbers are no part of a key: a few operators look at theirs at each call.
#include <ATen/core/Tensor.h>
#include <ATen/ops/empty.h>
#include <string>
#include "shim/operators.h"
#include "shim/refusals.h"

namespace tpu {

// ---- numbers that torch's kernels refuse ----
static void check_uniform(const c10::IValue *args) {
  double from = args[1].toDouble(), to = args[2].toDouble();
  TORCH_CHECK(from <= to, "uniform_ expects to return a [from, to) range, but found from=", from, " > to=", to);
}
static void check_bernoulli(const c10::IValue *args) {
  double p = args[1].toDouble();
  TORCH_CHECK(0 <= p && p <= 1, "bernoulli_ expects p to be in [0, 1], but got p=", p);
}
// A number that becomes an element has to fit in: self is the first argument, the number is argument value.
template <int value> static void check_element(const c10::IValue *args) {
  if (!args[0].isTensor()) return;
  c10::ScalarType t = args[0].toTensor().scalar_type();
  if (t == c10::kFloat || t == c10::kBFloat16 || t == c10::kDouble ||
      !(args[value].isScalar() || args[value].isUnsigned()))
    return;
  at::Scalar number = args[value].isUnsigned() ? at::Scalar(args[value].toUInt()) : args[value].toScalar();
  switch (t) {
    case c10::kHalf: number.toHalf(); break;
    case c10::kByte: number.toByte(); break;
    case c10::kChar: number.toChar(); break;
    case c10::kShort: number.toShort(); break;
    case c10::kInt: number.toInt(); break;
    case c10::kLong: number.toLong(); break;
    case c10::kUInt64: number.toUInt64(); break;
    default: break;
  }
}
static void check_full(const c10::IValue *args) { // (size, value, dtype, ...)
  if (args[2].isNone()) return;
  auto t = static_cast<c10::ScalarType>(args[2].toInt());
  if (c10::isIntegralType(t, false) || t == c10::kHalf) {
    const c10::IValue as_fill[] = {at::empty({0}, at::TensorOptions(t)), args[1]};
    check_element<1>(as_fill);
  }
}
static void check_multinomial(const c10::IValue *args) {
  TORCH_CHECK(args[1].toInt() > 0, "cannot sample n_sample <= 0 samples");
}

static const struct {
  const char *name;
  void (*check)(const c10::IValue *args);
} checks[] = {{"uniform_", check_uniform},
              {"bernoulli_.float", check_bernoulli},
              {"multinomial", check_multinomial},
              {"full", check_full},
              {"fill.Scalar", check_element<1>},
              {"fill_.Scalar", check_element<1>},
              {"masked_fill.Scalar", check_element<2>},
              {"masked_fill_.Scalar", check_element<2>},
              {"constant_pad_nd", check_element<2>},
              {"scatter.value", check_element<3>},
              {"scatter_.value", check_element<3>},
              {"scatter.value_reduce", check_element<3>},
              {"scatter_.value_reduce", check_element<3>},
              {"index_fill.int_Scalar", check_element<3>},
              {"index_fill_.int_Scalar", check_element<3>}};

// ---- dtypes ----
void find_refusals(Entry &e) {
  for (const auto &c : checks)
    if (e.name == c.name) e.check = c.check;
  std::string name = e.handle.schema().name();
  if (name.compare(0, 6, "aten::")) return;
  name.erase(0, 6);
  while (name[0] != '_' && name.back() == '_') name.pop_back();
  if (!e.outs.empty()) { // they go by their functional form's
    if (!e.variant.op->rule) return;
    name = e.variant.op->name;
  } else if (!e.handle.schema().overload_name().empty()) {
    name += "." + e.handle.schema().overload_name();
  }
  e.n_refusals = 0;
  int16_t i = 0;
  for (const Refusal &r : refusals) {
    if (name == r.op && !e.n_refusals++) e.refusals = i;
    i++;
  }
}

static const c10::ScalarType order[] = {c10::kBool, c10::kByte,  c10::kChar,   c10::kShort,        c10::kInt,
                                        c10::kLong, c10::kFloat, c10::kDouble, c10::kComplexFloat, c10::kComplexDouble};

static unsigned bit_of(c10::ScalarType t) { // 0: of none
  for (unsigned i = 0; i < 10; i++)
    if (order[i] == t) return 1u << i;
  return 0;
}

void refuse(const Entry &e, const c10::IValue *args) {
  auto first = c10::ScalarType::Undefined, together = first;
  bool known = true;
  auto see = [&](const c10::IValue &v) {
    if (!v.isTensor() || !v.toTensor().defined()) return;
    c10::ScalarType t = v.toTensor().scalar_type();
    if (first == c10::ScalarType::Undefined) first = together = t;
    if (!(known = known && bit_of(t))) return; // not all others have a promotion
    together = c10::promoteTypes(together, t);
  };
  for (const ArgInfo &a : e.args) // a dtype that is asked for may be one that the operator takes
    if (a.kind == Kind::Dtype && a.stack >= 0 && !args[a.stack].isNone()) return;
  for (int i = 0; i < e.n_stack; i++) {
    see(args[i]);
    if (args[i].isList())
      for (const c10::IValue &v : args[i].toListRef()) see(v);
  }
  if (!known || first != together) return;
  for (const Refusal *r = refusals + e.refusals, *end = r + e.n_refusals; r < end; r++) {
    if (!(r->dtypes & bit_of(first))) continue;
    std::string words = r->words;
    for (size_t at; (at = words.find("{}")) != std::string::npos;) words.replace(at, 2, c10::toString(first));
    switch (r->kind) {
      case 1: TORCH_CHECK_NOT_IMPLEMENTED(false, words);
      case 2: TORCH_CHECK_VALUE(false, words);
      case 3: TORCH_CHECK_INDEX(false, words);
      default: TORCH_CHECK(false, words);
    }
  }
}

} // namespace tpu
