// tensor.cpp: what a tensor is apart from its values: making, viewing, resizing, sharing; and copies between host and
// device.
//
// Views are torch's own: sizes, strides and an offset over a shared storage. A copy that fills a whole storage replaces
// its buffer; between whole storages of one device nothing is copied at all, the buffer is shared until one is written.
// Reading a value that is being traced is refused, and remembered: the decomposition that asked is then run eagerly.
#include <ATen/record_function.h>
#include <ATen/EmptyTensor.h>
#include <ATen/ExpandUtils.h>
#include <ATen/MemoryOverlap.h>
#include <ATen/native/Resize.h>
#include <ATen/ops/_has_compatible_shallow_copy_type_native.h>
#include <ATen/ops/_reshape_alias_native.h>
#include <ATen/ops/as_strided_native.h>
#include <ATen/ops/empty_strided.h>
#include <ATen/ops/is_set_to_native.h>
#include <ATen/ops/set_native.h>
#include <ATen/ops/unfold_native.h>
#include <ATen/ops/view_as_complex_native.h>
#include <ATen/ops/view_as_real_native.h>
#include <ATen/ops/view_native.h>
#include <torch/library.h>
#include "graph/contents.h"
#include "shim/operators.h"
namespace tpu {

int64_t elements_before(const c10::TensorImpl *t); // device.cpp; kernel.cpp says what

thread_local bool read_while_tracing = false;

using at::Tensor;
using OptDtype = std::optional<at::ScalarType>;
using OptLayout = std::optional<at::Layout>;
using OptDevice = std::optional<at::Device>;
using OptFormat = std::optional<at::MemoryFormat>;

// ---- making ----
static void check_options(OptLayout layout, std::optional<bool> pin) {
  TORCH_CHECK_NOT_IMPLEMENTED(!layout || *layout == at::kStrided, "tpu tensors have the strided layout only, got ",
                              *layout);
  TORCH_CHECK(!pin || !*pin, "Only dense CPU tensors can be pinned");
}

static void check_rank(at::IntArrayRef size) {
  TORCH_CHECK_NOT_IMPLEMENTED(size.size() <= TT_MAX_RANK, "tpu tensors have at most ", int{TT_MAX_RANK}, " dims, got ",
                              size.size());
}

static Tensor empty(at::IntArrayRef size, OptDtype dtype, OptLayout layout, OptDevice device, std::optional<bool> pin,
                    OptFormat format) {
  check_options(layout, pin);
  check_rank(size);
  DeviceScope scope(device ? device->index() : -1);
  at::ScalarType t = c10::dtype_or_default(dtype);
  dtype_of(t);
  return at::detail::empty_generic(size, allocator(), c10::DispatchKeySet(c10::DispatchKey::PrivateUse1), t, format);
}

static Tensor empty_strided(at::IntArrayRef size, at::IntArrayRef stride, OptDtype dtype, OptLayout layout,
                            OptDevice device, std::optional<bool> pin) {
  check_options(layout, pin);
  check_rank(size);
  DeviceScope scope(device ? device->index() : -1);
  at::ScalarType t = c10::dtype_or_default(dtype);
  dtype_of(t);
  return at::detail::empty_strided_generic(size, stride, allocator(),
                                           c10::DispatchKeySet(c10::DispatchKey::PrivateUse1), t);
}

// A tensor that is known to be zero and has no memory: torch's autograd makes them, and its ZeroTensor key sees to
// their use.
static Tensor efficient_zeros(at::IntArrayRef size, OptDtype dtype, OptLayout, OptDevice device, std::optional<bool>) {
  struct Nothing final : c10::Allocator {
    c10::DataPtr allocate(size_t) override { return {nullptr, nullptr, nullptr, c10::Device(kTpu, current_device())}; }
    void copy_data(void *, const void *, size_t) const override {}
  };
  static Nothing nothing;
  check_rank(size);
  DeviceScope scope(device ? device->index() : -1);
  c10::DispatchKeySet keys({c10::DispatchKey::PrivateUse1, c10::DispatchKey::ZeroTensor});
  return at::detail::empty_generic(size, &nothing, keys, c10::dtype_or_default(dtype), {});
}

static Tensor empty_like_dense(const Tensor &like, at::ScalarType dtype) { // contiguous, on like's device
  return empty(like.sizes(), dtype, {}, like.device(), {}, {});
}

// ---- resizing ----
static void grow_storage(c10::TensorImpl *t, int64_t numel, size_t bytes) {
  c10::StorageImpl *s = t->unsafe_storage().unsafeGetStorageImpl();
  if (numel && bytes > s->nbytes()) resize_storage(s, bytes);
}

// The storage first: where it cannot grow the tensor stays as it was.
void resize_tensor(c10::TensorImpl *t, c10::IntArrayRef sizes, c10::OptionalArrayRef<int64_t> strides) {
  if (t->sizes() == sizes && (!strides || t->strides() == *strides)) return;
  size_t item = t->dtype().itemsize(), offset = static_cast<size_t>(t->storage_offset());
  grow_storage(t, c10::multiply_integers(sizes),
               strides ? at::detail::computeStorageNbytes(sizes, *strides, item, offset)
                       : at::detail::computeStorageNbytesContiguous(sizes, item, offset));
  if (strides)
    t->set_sizes_and_strides(sizes, *strides);
  else
    t->set_sizes_contiguous(sizes);
}

static const Tensor &resize_(const Tensor &self, at::IntArrayRef size, OptFormat format) {
  at::detail::check_size_nonnegative(size);
  c10::TensorImpl *t = self.unsafeGetTensorImpl();
  resize_tensor(t, size, {});
  if (format && *format != at::MemoryFormat::Preserve) {
    t->empty_tensor_restride(*format);
  } else {
    TORCH_CHECK(!format, "Unsupported memory format", *format);
  }
  return self;
}

static Tensor &set_storage(Tensor &self, at::Storage source, int64_t offset, at::IntArrayRef size,
                           at::IntArrayRef stride) {
  at::native::checkSetStorage(self, source, offset, size, stride);
  c10::TensorImpl *t = self.unsafeGetTensorImpl();
  t->set_storage_offset(offset);
  resize_tensor(t, size, stride.data() ? c10::OptionalArrayRef<int64_t>(stride) : c10::OptionalArrayRef<int64_t>());
  return self;
}

static Tensor &set_empty(Tensor &self) {
  DeviceScope scope(self.device().index());
  self.unsafeGetTensorImpl()->set_storage_keep_dtype(
      c10::Storage(c10::make_intrusive<c10::StorageImpl>(c10::StorageImpl::use_byte_size_t(), 0, allocator(), true)));
  self.unsafeGetTensorImpl()->set_storage_offset(0);
  self.unsafeGetTensorImpl()->set_sizes_contiguous({0});
  return self;
}

// ---- copies ----
// True if t is dense and all there is in its storage: then the storage's bytes in order are t's elements by its
// strides. perm: t's dims by decreasing stride.
static bool fills_storage(const Tensor &t, int *perm) {
  size_t bytes = t.unsafeGetTensorImpl()->unsafe_storage().nbytes();
  return t.storage_offset() == 0 && static_cast<size_t>(t.numel()) * t.element_size() == bytes &&
         tt_storage_bytes(storage_of(t.unsafeGetTensorImpl())) == bytes && // torch's storage may be a part: from_blob
         t.dim() <= TT_MAX_RANK &&
         tt_strides_dense(static_cast<int>(t.dim()), t.sizes().data(), t.strides().data(), perm);
}

static void release_tensor(void *t) { delete static_cast<Tensor *>(t); }

// Replaces what dst's storage holds by host, of dst's dtype and strides.
static void upload(const Tensor &dst, const Tensor &host, const int *perm, bool non_blocking) {
  RECORD_USER_SCOPE("tpu::copy_to_device");
  int64_t dims[TT_MAX_RANK];
  for (int i = 0; i < dst.dim(); i++) dims[i] = dst.size(perm[i]);
  tt_error err{};
  tt_storage *s = storage_of(dst.unsafeGetTensorImpl());
  auto dtype = static_cast<tt_dtype>(dtype_of(dst.scalar_type()));
  int rank = static_cast<int>(dst.dim());
  const void *data = host.const_data_ptr();
  tt_client *c = client();
  tt_buffer *b;
  GilRelease nogil;
  if (non_blocking && is_pinned(data))
    b = tt_buffer_from_host_async(c, tt_storage_device(s), dtype, rank, dims, data, release_tensor, new Tensor(host),
                                  &err);
  else
    with_memory(tt_storage_device(s), [&] {
      b = tt_buffer_from_host(c, tt_storage_device(s), dtype, rank, dims, data, &err);
      return b ? TT_OK : err.code;
    });
  if (!b) raise(err);
  check(tt_storage_set(s, b, &err), err);
}

static Tensor &copy_(Tensor &dst, const Tensor &src, bool non_blocking);

static void copy_from_host(Tensor &dst, const Tensor &src, bool non_blocking) {
  if (tt_trace *trace = tt_trace_current()) {
    Tensor host = src.to(dst.scalar_type()).contiguous();
    tt_error err{};
    tt_storage *s = tt_trace_constant(trace, static_cast<tt_dtype>(dtype_of(host.scalar_type())),
                                      static_cast<int>(host.dim()), host.sizes().data(), host.const_data_ptr(), &err);
    if (!s) raise(err);
    copy_(dst, wrap_tensor(s, host.scalar_type(), host.sizes(), host.strides()), false);
    return;
  }
  int perm[TT_MAX_RANK];
  if (src.numel() < dst.numel() || !fills_storage(dst, perm)) { // repeated, or into a part: through a tensor of its own
    Tensor whole = empty_like_dense(src, dst.scalar_type());
    copy_from_host(whole, src, non_blocking);
    copy_(dst, whole, false);
    return;
  }
  Tensor host = src;
  if (host.sizes() != dst.sizes()) host = host.expand(dst.sizes());
  if (host.scalar_type() != dst.scalar_type()) host = host.to(dst.scalar_type());
  if (host.strides() != dst.strides()) {
    Tensor dense = at::empty_strided(dst.sizes(), dst.strides(), host.options());
    host = dense.copy_(host);
  }
  upload(dst, host, perm, non_blocking);
}

static void download_storage(tt_storage *s, void *to, size_t bytes) {
  if (tt_storage_is_traced(s)) read_while_tracing = true;
  tt_error err{};
  GilRelease nogil;
  if (tt_storage_pending(s)) {
    RECORD_USER_SCOPE("tpu::flush");
    tt_storage_settle(s);
  }
  RECORD_USER_SCOPE("tpu::copy_from_device");
  check(tt_storage_to_host(s, to, bytes, &err), err);
}

// src on the host: same dtype, sizes; strides as they come.
static Tensor to_host(const Tensor &src) {
  TORCH_CHECK(!tt_trace_current() || !(read_while_tracing = true),
              "the value of a tpu tensor was asked for inside a program being traced");
  auto options = at::TensorOptions(at::kCPU);
  int perm[TT_MAX_RANK];
  if (src.numel() == 0) return at::empty_strided(src.sizes(), src.strides(), options.dtype(src.scalar_type()));
  tt_storage *s = storage_of(src.unsafeGetTensorImpl());
  if (fills_storage(src, perm)) {
    Tensor host = at::empty_strided(src.sizes(), src.strides(), options.dtype(src.scalar_type()));
    download_storage(s, host.mutable_data_ptr(), tt_storage_bytes(s));
    return host;
  }
  size_t bytes = tt_storage_bytes(s);
  if (bytes <= 4096 || bytes <= 2 * static_cast<size_t>(src.numel()) * src.element_size()) { // cheaper than a program
    c10::Storage whole(c10::make_intrusive<c10::StorageImpl>(c10::StorageImpl::use_byte_size_t(), bytes,
                                                             c10::GetAllocator(at::kCPU), false));
    download_storage(s, whole.mutable_data(), bytes);
    Tensor host = at::detail::make_tensor<c10::TensorImpl>(std::move(whole), c10::DispatchKeySet(c10::DispatchKey::CPU),
                                                           src.dtype());
    host.unsafeGetTensorImpl()->set_sizes_and_strides(src.sizes(), src.strides(),
                                                     src.storage_offset() + elements_before(src.unsafeGetTensorImpl()));
    return host;
  }
  Tensor dense = empty_like_dense(src, src.scalar_type());
  copy_(dense, src, false);
  return to_host(dense);
}

static void copy_to_host(Tensor &dst, const Tensor &src) {
  int perm[TT_MAX_RANK];
  if (dst.scalar_type() == src.scalar_type() && dst.sizes() == src.sizes() && dst.strides() == src.strides() &&
      src.numel() && fills_storage(src, perm) && !tt_trace_current()) {
    download_storage(storage_of(src.unsafeGetTensorImpl()), dst.mutable_data_ptr(),
                     tt_storage_bytes(storage_of(src.unsafeGetTensorImpl())));
    return;
  }
  dst.copy_(to_host(src));
}

// Whole storages of one dtype and order: the buffer is shared until one of them is written.
static bool share_buffer(const Tensor &dst, const Tensor &src) {
  int perm[TT_MAX_RANK];
  if (tt_trace_current() || dst.scalar_type() != src.scalar_type() || dst.sizes() != src.sizes() ||
      dst.strides() != src.strides() || !fills_storage(src, perm) || !fills_storage(dst, perm))
    return false;
  tt_storage *from = storage_of(src.unsafeGetTensorImpl()), *to = storage_of(dst.unsafeGetTensorImpl());
  if (from == to) return true;
  if (tt_storage_is_traced(from) || tt_storage_is_traced(to) || tt_storage_is_padded(from)) return false;
  if (tt_window_share(to, from)) return true;
  tt_buffer *b = tt_storage_take_reference(from);
  if (!b) return false;
  tt_error err{};
  check(tt_storage_set(to, b, &err), err);
  return true;
}

static void copy_on_device(Tensor &dst, const Tensor &src) {
  at::assert_no_internal_overlap(dst);
  at::assert_no_partial_overlap(dst, src);
  if (share_buffer(dst, src)) return;
  TORCH_INTERNAL_ASSERT(copy_entry().variant.op->rule, "the lowering table has no row for copy");
  torch::jit::Stack stack{dst, src, false};
  call(copy_entry(), &stack);
}

static Tensor &copy_(Tensor &self, const Tensor &src_, bool non_blocking) {
  if (self.is_same(src_) || self.numel() == 0) {
    if (self.sizes() != src_.sizes()) src_.expand(self.sizes()); // the error
    return self;
  }
  Tensor dst = self, src = src_;
  // Lazy conjugates and negatives: plain values are copied, then turned if just one side is lazy.
  bool conjugate = dst.is_conj() != src.is_conj(), negate = dst.is_neg() != src.is_neg();
  if (dst.is_conj()) dst = dst.conj();
  if (src.is_conj()) src = src.conj();
  if (dst.is_neg()) dst = dst._neg_view();
  if (src.is_neg()) src = src._neg_view();
  if (conjugate || negate) {
    copy_(dst, src, non_blocking);
    if (conjugate) dst.conj_physical_();
    if (negate) dst.neg_();
    return self;
  }
  if (src.sizes() != dst.sizes()) {
    auto both = at::infer_size(dst.sizes(), src.sizes());
    TORCH_CHECK(dst.sizes() == at::IntArrayRef(both), "output with shape ", dst.sizes(),
                " doesn't match the broadcast shape ", both);
  }
  bool to = dst.device().type() == kTpu, from = src.device().type() == kTpu;
  TORCH_CHECK_NOT_IMPLEMENTED((to || dst.is_cpu()) && (from || src.is_cpu()), "copy from ", src.device(), " to ",
                              dst.device());
  if (!from)
    copy_from_host(dst, src, non_blocking);
  else if (!to)
    copy_to_host(dst, src);
  else if (dst.device() == src.device())
    copy_on_device(dst, src.sizes() == dst.sizes() ? src : src.expand(dst.sizes()));
  else
    copy_from_host(dst, to_host(src), false);
  return self;
}

static Tensor copy_from(const Tensor &self, const Tensor &dst, bool non_blocking) {
  Tensor d = dst;
  copy_(d, self, non_blocking);
  return dst;
}

static Tensor copy_from_and_resize(const Tensor &self, const Tensor &dst) {
  if (dst.sizes() != self.sizes()) dst.resize_(self.sizes());
  return copy_from(self, dst, false);
}

static at::Scalar local_scalar_dense(const Tensor &self) {
  TORCH_CHECK(self.numel() == 1, "a Tensor with ", self.numel(), " elements cannot be converted to Scalar");
  return to_host(self.is_conj() || self.is_neg() ? self.resolve_conj().resolve_neg() : self).item();
}

static bool equal(const Tensor &a, const Tensor &b) {
  TORCH_CHECK(a.device() == b.device(),
              "Expected all tensors to be on the same device, but found at least two devices, ", a.device(), " and ",
              b.device(), "!");
  TORCH_CHECK(a.scalar_type() == b.scalar_type(), "Expected object of data type ", a.dtype(), " but got data type ",
              b.dtype(), " for argument 'other' in call to tpu_equal");
  if (a.sizes() != b.sizes()) return false;
  return a.numel() == 0 || a.eq(b).all().item<bool>();
}

static void record_stream(Tensor &, at::Stream) {} // running programs hold their buffers themselves

// A parameter that moves between host and device stays the same object: both are plain TensorImpls over a storage.
static bool has_compatible_shallow_copy_type(const Tensor &self, const Tensor &from) {
  auto plain = [](const Tensor &t) {
    return (t.is_cpu() || t.device().type() == kTpu) && t.layout() == at::kStrided && !t.is_mkldnn() &&
           !t.is_quantized();
  };
  return (plain(self) && plain(from)) || self.unsafeGetTensorImpl()->has_compatible_shallow_copy_type(from.key_set());
}

void register_tensor_operators() {
  static auto &m = *new torch::Library(torch::Library::IMPL, "aten", c10::DispatchKey::PrivateUse1, __FILE__, __LINE__);
  m.impl("empty.memory_format", TORCH_FN(empty));
  m.impl("empty_strided", TORCH_FN(empty_strided));
  m.impl("_efficientzerotensor", TORCH_FN(efficient_zeros));
  m.impl("as_strided", TORCH_FN(at::native::as_strided_tensorimpl));
  m.impl("view", TORCH_FN(at::native::view));
  m.impl("_reshape_alias", TORCH_FN(at::native::_reshape_alias));
  m.impl("unfold", TORCH_FN(at::native::unfold));
  m.impl("view_as_real", TORCH_FN(at::native::view_as_real));
  m.impl("view_as_complex", TORCH_FN(at::native::view_as_complex));
  m.impl("resize_", TORCH_FN(resize_));
  m.impl("set_.source_Storage_storage_offset", TORCH_FN(set_storage));
  m.impl("set_.source_Storage", TORCH_FN(static_cast<Tensor &(*)(Tensor &, at::Storage)>(at::native::set_)));
  m.impl("set_.source_Tensor", TORCH_FN(at::native::set_tensor_));
  m.impl("set_", TORCH_FN(set_empty));
  m.impl("is_set_to", TORCH_FN(at::native::is_set_to));
  m.impl("copy_", TORCH_FN(copy_));
  m.impl("_copy_from", TORCH_FN(copy_from));
  m.impl("_copy_from_and_resize", TORCH_FN(copy_from_and_resize));
  m.impl("_local_scalar_dense", TORCH_FN(local_scalar_dense));
  m.impl("equal", TORCH_FN(equal));
  m.impl("record_stream", TORCH_FN(record_stream));
  m.impl("_has_compatible_shallow_copy_type", TORCH_FN(has_compatible_shallow_copy_type));
}

} // namespace tpu
