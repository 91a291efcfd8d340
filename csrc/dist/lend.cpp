// lend.cpp: tensors lend their memory to a transport that works on the host's.
//
// Buffers are immutable to the rest of the system, so what is read can be handed out as it is. What is written is
// either a buffer that nobody else holds, taken out of its storage for the time, or fresh memory that becomes the
// storage's next buffer. Copies are made of views only, and by plugins whose memory is not the host's.
#include "dist/lend.h"
#include <ATen/core/LegacyTypeDispatch.h>
#include <ATen/core/grad_mode.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/from_blob.h>
#include <cstring>
#include <memory>
#include "shim/common.h"
extern "C" {
#include "pjrt/pjrt.h"
}
#include "graph/contents.h"

namespace tpu {

static at::Tensor empty_on_host(const at::Tensor &like) {
  return at::empty(like.sizes(), at::TensorOptions(at::kCPU).dtype(like.scalar_type()));
}

// Whether t's elements are the storage's bytes, in order.
static bool is_whole(const at::Tensor &t) {
  return t.storage_offset() == 0 && t.is_contiguous() && !t.is_conj() && !t.is_neg() &&
         t.nbytes() == tt_storage_bytes(storage_of(t.unsafeGetTensorImpl()));
}

static at::Tensor over(void *data, const at::Tensor &t, std::function<void(void *)> release) {
  return at::from_blob(data, t.sizes(), std::move(release), at::TensorOptions(at::kCPU).dtype(t.scalar_type()));
}

at::Tensor readable(const at::Tensor &t) {
  if (t.device().is_cpu()) return t.contiguous();
  tt_storage *s = storage_of(t.unsafeGetTensorImpl());
  if (t.numel() && t.is_contiguous() && !t.is_conj() && !t.is_neg()) {
    GilRelease nogil;
    tt_buffer *b = tt_storage_take_reference(s);
    bool exact = b && tt_buffer_bytes(b) == tt_storage_bytes(s); // else it is padded: more than counts
    if (char *data = exact ? static_cast<char *>(tt_buffer_host_address(b)) : nullptr)
      return over(data + static_cast<size_t>(t.storage_offset()) * t.element_size(), t,
                  [b](void *) { tt_buffer_release(b); });
    tt_buffer_release(b);
  }
  at::NoGradGuard no_grad;
  return t.detach().cpu().contiguous();
}

static void release_tensor(void *t) { delete static_cast<at::Tensor *>(t); }

// t's contents become host's memory.
static void adopt(const at::Tensor &t, const at::Tensor &host) {
  tt_error err{};
  tt_storage *s = storage_of(t.unsafeGetTensorImpl());
  tt_buffer *b = tt_buffer_of_host(client(), tt_storage_device(s), static_cast<tt_dtype>(dtype_of(t.scalar_type())),
                                   static_cast<int>(t.dim()), t.sizes().data(), host.mutable_data_ptr(), release_tensor,
                                   new at::Tensor(host), &err);
  if (!b) raise(err);
  check(tt_storage_set(s, b, &err), err);
}

// The buffer of s, taken out of it, if it is nobody else's and lies in the host's memory; else NULL and s as it was.
// Programs that read it have ended then: what is under way is waited for, and its failure raised here; those that leave
// no event to wait for are known to end inside Execute (pjrt/executable.c).
static tt_buffer *take(tt_storage *s, void **data) {
  bool lent = false;
  tt_storage_settle(s);
  tt_buffer *b = tt_storage_try_take(s, true, &lent);
  if (!b) return nullptr;
  tt_error err{};
  tt_code code = TT_OK;
  bool ours = tt_buffer_unique(b) && tt_buffer_bytes(b) == tt_storage_bytes(s);
  if (ours) code = tt_client_synchronize(client(), tt_storage_device(s), &err);
  if (ours && !code && (*data = tt_buffer_host_address(b))) return b;
  tt_storage_put(s, b);
  check(code, err);
  return nullptr;
}

// A storage's own buffer, until it is given back.
struct Loan {
  Loan(at::Tensor t, tt_buffer *b) : of(std::move(t)), buffer(b) {}
  Loan(const Loan &) = delete;
  ~Loan() { give_back(); }
  void give_back() {
    if (buffer) tt_storage_put(storage_of(of.unsafeGetTensorImpl()), buffer);
    buffer = nullptr;
  }
  at::Tensor of;
  tt_buffer *buffer;
};

Lent writable(const at::Tensor &t, bool keep) {
  TORCH_CHECK(t.device().type() == kTpu, "expected a tensor on tpu, got one on ", t.device());
  if (t.numel() && is_whole(t)) {
    tt_storage *s = storage_of(t.unsafeGetTensorImpl());
    void *data = nullptr;
    GilRelease nogil;
    if (tt_buffer *b = keep ? take(s, &data) : nullptr) {
      auto loan = std::make_shared<Loan>(t, b);
      return {over(data, t, [loan](void *) {}), [loan](bool) { loan->give_back(); }};
    }
    at::Tensor host = empty_on_host(t);
    if (keep) std::memcpy(host.mutable_data_ptr(), readable(t).const_data_ptr(), host.nbytes());
    return {host, [t, host](bool filled) {
              if (filled) adopt(t, host);
            }};
  }
  at::Tensor host = keep ? readable(t).clone() : empty_on_host(t);
  return {host, [t, host](bool filled) {
            if (!filled) return;
            at::NoGradGuard no_grad;
            at::AutoDispatchBelowADInplaceOrView below;
            at::Tensor to = t;
            to.copy_(host);
          }};
}

} // namespace tpu
