// meta.h: what a call returns, asked of torch's own kernels for Meta tensors: no shape is computed here.
#ifndef TT_SHIM_META_H
#define TT_SHIM_META_H
#include "shim/operators.h"

namespace tpu {

// Arguments as Meta tensors.
struct MetaArgs {
  std::vector<std::pair<const c10::StorageImpl *, c10::Storage>> storages;
  std::vector<std::pair<const c10::TensorImpl *, at::Tensor>> tensors;

  c10::Storage storage(const c10::StorageImpl *of) {
    for (auto &s : storages)
      if (s.first == of) return s.second;
    c10::Storage s(c10::make_intrusive<c10::StorageImpl>(c10::StorageImpl::use_byte_size_t(), of->nbytes(),
                                                         c10::DataPtr(nullptr, c10::Device(c10::kMeta)),
                                                         c10::GetAllocator(c10::kMeta), true));
    storages.emplace_back(of, s);
    return s;
  }
  // Tensors that share memory share it on Meta too, so that torch's checks for overlap see it.
  virtual at::Tensor tensor(const at::Tensor &x) {
    if (!x.defined() || x.is_cpu()) return x; // a 0-dim host tensor is an operand on Meta as well
    const c10::TensorImpl *t = x.unsafeGetTensorImpl();
    for (auto &known : tensors)
      if (known.first == t) return known.second;
    at::Tensor m = at::detail::make_tensor<c10::TensorImpl>(storage(t->unsafe_storage().unsafeGetStorageImpl()),
                                                            c10::DispatchKeySet(c10::DispatchKey::Meta), t->dtype());
    m.unsafeGetTensorImpl()->set_sizes_and_strides(t->sizes(), t->strides(), t->storage_offset());
    tensors.emplace_back(t, m);
    return m;
  }
  virtual ~MetaArgs() = default;
  c10::DeviceType device = c10::kMeta;
  c10::IValue value(const ArgInfo &info, const c10::IValue &v) {
    switch (info.kind) {
      case Kind::Tensor:
      case Kind::Scalar: return v.isTensor() ? c10::IValue(tensor(v.toTensor())) : v;
      case Kind::Tensors: {
        if (!v.isList()) return v;
        auto items = v.toListRef();
        if (v.isTensorList()) {
          c10::List<at::Tensor> list;
          for (auto &x : items) list.push_back(tensor(x.toTensor()));
          return list;
        }
        c10::List<std::optional<at::Tensor>> list;
        for (auto &x : items)
          list.push_back(x.isTensor() ? std::optional<at::Tensor>(tensor(x.toTensor())) : std::nullopt);
        return list;
      }
      case Kind::Device: return v.isDevice() ? c10::IValue(c10::Device(device)) : v;
      case Kind::Generator: return c10::IValue();
      default: return v;
    }
  }
};

// Copies on the host.
struct HostArgs final : MetaArgs {
  HostArgs() { device = c10::kCPU; }
  at::Tensor tensor(const at::Tensor &x) override { return x.defined() ? x.cpu() : x; }
};

struct Outputs {
  std::vector<at::Tensor> tensors; // keep sizes and strides alive
  std::vector<tt_output> outputs;
  std::vector<at::Tensor> outs; // what became of out= arguments
  void add(const at::Tensor &t) {
    tt_output o{};
    if (t.defined()) {
      TORCH_CHECK_NOT_IMPLEMENTED(t.dim() <= TT_MAX_RANK, "tpu tensors have at most ", int{TT_MAX_RANK}, " dims, got ",
                                  t.dim());
      o.defined = true;
      o.dtype = dtype_of(t.scalar_type());
      o.rank = static_cast<uint8_t>(t.dim());
      o.sizes = t.sizes().data();
      o.strides = t.strides().data();
    }
    outputs.push_back(o);
  }
};
template <class F> void each_tensor(const c10::IValue &v, F f) { // of a tensor or a list of them
  if (!v.isTensorList()) return f(v.toTensor());
  for (const at::Tensor &t : v.toTensorVector()) f(t);
}

// False if torch cannot say: no Meta kernel, or what is returned depends on values. A call that Meta refuses raises.
bool meta_outputs(Entry &e, const c10::IValue *args, Outputs &out, MetaArgs &meta);
bool meta_outputs(Entry &e, const c10::IValue *args, Outputs &out);

// A plan for a call whose sizes vary (tt.h), or NULL: it has to be an ordinary one. meta.cpp
const tt_plan *build_bucketed(Entry &e, c10::IValue *args, tt_call &c);

} // namespace tpu
#endif
