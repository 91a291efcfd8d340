// common.h: what the shim's files share: client, storages, dtypes, errors, the GIL.
#ifndef TT_SHIM_COMMON_H
#define TT_SHIM_COMMON_H
#include <ATen/core/Tensor.h>
#include <atomic>
extern "C" {
#include "base/base.h"
#include "ops/op.h"
#include "view/view.h"
}
#include "shim/shim.h"

namespace tpu {

constexpr c10::DeviceType kTpu = c10::DeviceType::PrivateUse1;
enum { MAX_DEVICES = 64 };

// ---- device.cpp ----
void register_device();
void register_autocast(); // autocast.cpp
void register_modes();    // modes.cpp
extern std::atomic<tt_client *> the_client;
tt_client *make_client(); // throws
inline tt_client *client() {
  tt_client *c = the_client.load(std::memory_order_acquire);
  return C10_LIKELY(c != nullptr) ? c : make_client();
}
c10::DeviceIndex current_device();
c10::Allocator *allocator();
bool is_pinned(const void *data);
void resize_storage(c10::StorageImpl *storage, size_t bytes); // keeps the common prefix
void check_device(c10::DeviceIndex device);                   // throws if there is none of that index
struct DeviceScope {                                          // the thread's current device for a while
  explicit DeviceScope(c10::DeviceIndex device);
  ~DeviceScope();
  c10::DeviceIndex before;
};
const at::Generator &default_generator(c10::DeviceIndex device); // -1: of the current one
tt_generator *generator_of(const at::Generator &g);              // throws if it is not a tpu generator

// Lets go of what is kept for reuse and of Python's unreachable objects. Takes the GIL.
void reclaim_memory(int device);
// run() once more after that if the device's memory did not suffice. run returns a tt_code, having changed nothing if
// it fails.
template <class F> tt_code with_memory(int device, F run) {
  tt_code code = run();
  if (C10_LIKELY(code != TT_RESOURCE_EXHAUSTED)) return code;
  reclaim_memory(device);
  return run();
}
// more: what stands behind the message; device: whose memory it may be about, -1: the current one's
[[noreturn]] void raise(const tt_error &e, const std::string &more = {}, int device = -1);
inline void check(tt_code code, const tt_error &e) {
  if (C10_UNLIKELY(code != TT_OK)) raise(e);
}

// Lets other Python threads run while this one waits, if it holds the GIL at all.
struct GilRelease {
  GilRelease();
  ~GilRelease();
  GilRelease(const GilRelease &) = delete;
  void *state;
};

// ---- dtypes ----
uint8_t dtype_of(c10::ScalarType t); // throws for what the core has no name for
c10::ScalarType scalar_type_of(uint8_t dtype);

// ---- places.cpp: lines of the user's program ----
// "file.py:12 in forward", with source also ": the line's text"; else "the backward of LogBackward0". "" if no Python
// is running.
std::string user_line(bool source);
const char *place_of(const char *name); // "log at file.py:12 in forward", for ever; only if tracing_stacks
extern const bool tracing_stacks;       // TORCH_TPU_TRACE_STACKS

// ---- tensors ----
void release_storage(void *s);
tt_storage *storage_at(const void *address); // throws if none is there
inline tt_storage *storage_of(const c10::TensorImpl *t) {
  const c10::DataPtr &p = t->unsafe_storage().unsafeGetStorageImpl()->data_ptr();
  if (C10_UNLIKELY(p.get_deleter() != &release_storage)) return storage_at(p.get()); // torch's from_blob, in torch.save
  return static_cast<tt_storage *>(p.get_context());
}
inline tt_tensor tensor_of(const c10::TensorImpl *t) {
  return {storage_of(t),
          t->sizes().data(),
          t->strides().data(),
          t->storage_offset(),
          dtype_of(c10::typeMetaToScalarType(t->dtype())),
          static_cast<uint8_t>(t->dim()),
          t->is_wrapped_number()};
}
c10::Storage wrap_storage(tt_storage *s); // takes ownership of the reference
at::Tensor wrap_tensor(tt_storage *s, c10::ScalarType dtype, c10::IntArrayRef sizes,
                       c10::IntArrayRef strides);                                                       // takes s
void resize_tensor(c10::TensorImpl *t, c10::IntArrayRef sizes, c10::OptionalArrayRef<int64_t> strides); // tensor.cpp

} // namespace tpu
#endif
