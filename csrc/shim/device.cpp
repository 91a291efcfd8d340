// device.cpp: the device as torch knows it: name, client, allocator, guard with streams and events, generators, hooks.
//
// All work of one device is in order, so a stream is only a number and every event is recorded behind everything else.
// Nothing touches the plugin before the first use of the device. Host memory is pinned by being remembered: uploads
// from it need no wait.
#include <Python.h>
#include <ATen/EmptyTensor.h>
#include <ATen/core/GeneratorForPrivateuseone.h>
#include <ATen/detail/PrivateUse1HooksInterface.h>
#include <c10/core/CachingDeviceAllocator.h>
#include <c10/core/impl/DeviceGuardImplInterface.h>
#include <cstdlib>
#include <map>
#include <mutex>
#include <unistd.h>
#include "shim/common.h"

extern "C" { // graph/holders.h
#include "graph/holders.h"
}

namespace tpu {

std::atomic<tt_client *> the_client{nullptr};
static std::mutex client_lock;
static tt_code (*lazy_init)(tt_error *err);
static thread_local c10::DeviceIndex thread_device = 0;

// ---- errors ----
static std::string mebibytes(int64_t bytes) {
  char text[40];
  snprintf(text, sizeof text, "%.2f MiB", static_cast<double>(bytes) / 1048576);
  return text;
}

// What stands behind a message about a device that is full.
static std::string who_holds_memory(int device) {
  enum { SHOWN = 5 };
  tt_memory m;
  tt_holder holders[SHOWN];
  tt_memory_get(device, &m);
  size_t n = tt_holders(device, holders, SHOWN);
  std::string text = "\n  in use: " + mebibytes(m.live_bytes) + " in " + std::to_string(m.live_buffers) +
                     " buffers, at the peak " + mebibytes(m.peak_bytes) + (n ? "; the largest:" : "");
  for (size_t i = 0; i < n && i < SHOWN; i++) {
    char shape[200];
    tt_describe_shape(shape, sizeof shape, static_cast<tt_dtype>(holders[i].dtype), holders[i].rank, holders[i].dims);
    text += "\n    " + mebibytes(static_cast<int64_t>(holders[i].bytes)) + " " + shape;
    if (holders[i].made) text += std::string(" made by ") + holders[i].made;
  }
  return text;
}

void reclaim_memory(int device) {
  tt_memory_count(device, 1, 0);
  tt_error ignored;
  {
    GilRelease nogil;
    tt_flush(-1, &ignored); // what a window holds on to
  }
  tt_scalars_clear(client());
  if (!Py_IsInitialized()) return;
  PyGILState_STATE gil = PyGILState_Ensure();
  PyObject *type, *value, *trace; // of an exception that is on its way
  PyErr_Fetch(&type, &value, &trace);
  // also where it is disabled
  PyObject *gc = PyImport_ImportModule("gc"), *n = gc ? PyObject_CallMethod(gc, "collect", nullptr) : nullptr;
  Py_XDECREF(n);
  Py_XDECREF(gc);
  PyErr_Restore(type, value, trace);
  PyGILState_Release(gil);
}

void raise(const tt_error &e, const std::string &more, int device) {
  std::string text = e.message;
  if (e.code == TT_RESOURCE_EXHAUSTED && text.compare(0, 18, "out of host memory")) {
    if (text.compare(0, 17, "TPU out of memory")) text = "TPU out of memory. " + text;
    if (device < 0) device = thread_device;
    text += who_holds_memory(device);
    tt_memory_count(device, 0, 1);
  }
  if (e.where[0] && text.find(e.where) == std::string::npos) text += std::string(" (") + e.where + ")";
  text += more;
  switch (e.code) {
    case TT_RESOURCE_EXHAUSTED: TORCH_CHECK_WITH(OutOfMemoryError, false, text);
    case TT_UNIMPLEMENTED: TORCH_CHECK_NOT_IMPLEMENTED(false, text);
    case TT_OUT_OF_RANGE: TORCH_CHECK_INDEX(false, text);
    default: TORCH_CHECK(false, text);
  }
}

GilRelease::GilRelease() : state(Py_IsInitialized() && PyGILState_Check() ? PyEval_SaveThread() : nullptr) {}
GilRelease::~GilRelease() {
  if (state) PyEval_RestoreThread(static_cast<PyThreadState *>(state));
}

// ---- dtypes ----
static const struct {
  c10::ScalarType torch;
  tt_dtype core;
} dtypes[] = {{c10::ScalarType::Bool, TT_BOOL},
              {c10::ScalarType::Byte, TT_U8},
              {c10::ScalarType::UInt16, TT_U16},
              {c10::ScalarType::UInt32, TT_U32},
              {c10::ScalarType::UInt64, TT_U64},
              {c10::ScalarType::Char, TT_I8},
              {c10::ScalarType::Short, TT_I16},
              {c10::ScalarType::Int, TT_I32},
              {c10::ScalarType::Long, TT_I64},
              {c10::ScalarType::Half, TT_F16},
              {c10::ScalarType::BFloat16, TT_BF16},
              {c10::ScalarType::Float, TT_F32},
              {c10::ScalarType::Double, TT_F64},
              {c10::ScalarType::ComplexFloat, TT_C64},
              {c10::ScalarType::ComplexDouble, TT_C128},
              {c10::ScalarType::Float8_e4m3fn, TT_F8E4M3FN},
              {c10::ScalarType::Float8_e5m2, TT_F8E5M2},
              {c10::ScalarType::Float8_e4m3fnuz, TT_F8E4M3FNUZ},
              {c10::ScalarType::Float8_e5m2fnuz, TT_F8E5M2FNUZ},
              {c10::ScalarType::Float8_e8m0fnu, TT_F8E8M0FNU},
              {c10::ScalarType::Float4_e2m1fn_x2, TT_F4X2}};

struct DtypeTable {
  uint8_t core[64];
  c10::ScalarType torch[TT_DTYPES];
  DtypeTable() {
    std::fill(std::begin(core), std::end(core), uint8_t{TT_NO_DTYPE});
    std::fill(std::begin(torch), std::end(torch), c10::ScalarType::Undefined);
    for (const auto &d : dtypes) {
      core[static_cast<int>(d.torch)] = static_cast<uint8_t>(d.core);
      torch[d.core] = d.torch;
    }
  }
};
static const DtypeTable table;

uint8_t dtype_of(c10::ScalarType t) {
  uint8_t core = table.core[static_cast<unsigned>(t) & 63];
  TORCH_CHECK_TYPE(core != TT_NO_DTYPE, "tpu tensors cannot have dtype ", c10::toString(t));
  return core;
}
c10::ScalarType scalar_type_of(uint8_t dtype) { return table.torch[dtype]; }

// ---- client ----
tt_client *make_client() {
  tt_error err{};
  tt_client *c = shim_client_or_error(&err);
  if (!c) raise(err);
  return c;
}

// ---- current device and streams, by thread ----
static thread_local c10::StreamId thread_streams[MAX_DEVICES];

c10::DeviceIndex current_device() { return thread_device; }
DeviceScope::DeviceScope(c10::DeviceIndex device) : before(thread_device) {
  if (device >= 0) thread_device = device;
}
DeviceScope::~DeviceScope() { thread_device = before; }

static c10::DeviceIndex device_count() noexcept {
  tt_error err{};
  tt_client *c = shim_client_or_error(&err);
  return c ? static_cast<c10::DeviceIndex>(std::min<int>(tt_client_device_count(c), MAX_DEVICES)) : 0;
}

void check_device(c10::DeviceIndex i) {
  int n = std::min<int>(tt_client_device_count(client()), MAX_DEVICES);
  TORCH_CHECK(i >= 0 && i < n, "invalid tpu device index ", int{i}, ": there ", n == 1 ? "is " : "are ", n, " (0 to ",
              n - 1, ")");
}

static void set_device(c10::DeviceIndex i) {
  if (i == thread_device) return;
  check_device(i);
  thread_device = i;
}

// ---- storages ----
void release_storage(void *s) { tt_storage_release(static_cast<tt_storage *>(s)); }

tt_storage *storage_at(const void *address) {
  tt_storage *s = tt_storage_from_address(address);
  TORCH_CHECK(s, "the tensor's memory is not that of a tpu storage");
  return s;
}
int64_t elements_before(const c10::TensorImpl *t) {
  const void *address = t->unsafe_storage().unsafeGetStorageImpl()->data_ptr().get();
  int64_t bytes =
      static_cast<const char *>(address) - static_cast<const char *>(tt_storage_address(storage_at(address)));
  TORCH_CHECK(bytes % static_cast<int64_t>(t->itemsize()) == 0, "the tensor's memory begins inside of an element");
  return bytes / static_cast<int64_t>(t->itemsize());
}

static c10::DataPtr data_of(tt_storage *s) {
  return {tt_storage_address(s), s, release_storage,
          c10::Device(kTpu, static_cast<c10::DeviceIndex>(tt_storage_device(s)))};
}

struct TpuAllocator final : c10::DeviceAllocator { // torch.accelerator asks it for its numbers
  c10::DataPtr allocate(size_t bytes) override {
    tt_error err{};
    tt_client *c = client();
    if (thread_device) check_device(thread_device);
    tt_storage *s = nullptr;
    check(with_memory(thread_device,
                      [&] { return (s = tt_storage_create(c, thread_device, bytes, &err)) ? TT_OK : err.code; }),
          err);
    return data_of(s);
  }
  c10::DeleterFnPtr raw_deleter() const override { return nullptr; } // the context is not the address
  void copy_data(void *dest, const void *src, size_t bytes) const override {
    tt_storage *from = tt_storage_from_address(src), *to = tt_storage_from_address(dest);
    TORCH_CHECK(from && to && bytes == tt_storage_bytes(from) && bytes == tt_storage_bytes(to),
                "tpu memory is copied as whole storages only");
    std::vector<char> host(bytes);
    tt_error err{};
    GilRelease nogil;
    check(tt_storage_to_host(from, host.data(), bytes, &err), err);
    int64_t dims[1] = {static_cast<int64_t>(bytes)};
    tt_buffer *b = tt_buffer_from_host(client(), tt_storage_device(to), TT_U8, 1, dims, host.data(), &err);
    if (!b) raise(err);
    check(tt_storage_set(to, b, &err), err);
  }
  bool initialized() override { return shim_initialized(); }
  void emptyCache(c10::MempoolId_t) override {
    if (initialized()) tt_scalars_clear(client());
  }
  void recordStream(const c10::DataPtr &, c10::Stream) override {} // all streams keep one order
  c10::CachingDeviceAllocator::DeviceStats getDeviceStats(c10::DeviceIndex device) override {
    tt_memory n;
    tt_memory_get(device, &n);
    c10::CachingDeviceAllocator::DeviceStats stats;
    for (auto *bytes : {&stats.allocated_bytes, &stats.reserved_bytes, &stats.active_bytes, &stats.requested_bytes}) {
      (*bytes)[0].current = n.live_bytes; // 0: over all sizes
      (*bytes)[0].peak = n.peak_bytes;
    }
    stats.allocation[0].current = stats.active[0].current = n.live_buffers;
    return stats;
  }
  void resetAccumulatedStats(c10::DeviceIndex) override {}
  void resetPeakStats(c10::DeviceIndex device) override { tt_memory_reset_peak(device); }
  std::pair<size_t, size_t>
  getMemoryInfo(c10::DeviceIndex device) override { // where the plugin knows no limit, the host's memory
    int64_t limit = 0, in_use = -1;
    tt_counters n;
    tt_counters_get(&n);
    tt_client_device_memory(client(), device < 0 ? thread_device : device, &limit, &in_use);
    if (!limit) limit = static_cast<int64_t>(sysconf(_SC_PAGE_SIZE)) * sysconf(_SC_PHYS_PAGES);
    if (in_use < 0) in_use = n.live_bytes;
    return {static_cast<size_t>(std::max<int64_t>(limit - in_use, 0)), static_cast<size_t>(limit)};
  }
};
static TpuAllocator the_allocator;
c10::Allocator *allocator() { return &the_allocator; }

c10::Storage wrap_storage(tt_storage *s) {
  return c10::Storage(c10::make_intrusive<c10::StorageImpl>(c10::StorageImpl::use_byte_size_t(), tt_storage_bytes(s),
                                                            data_of(s), &the_allocator, true));
}

at::Tensor wrap_tensor(tt_storage *s, c10::ScalarType dtype, c10::IntArrayRef sizes, c10::IntArrayRef strides) {
  at::Tensor t = at::detail::make_tensor<c10::TensorImpl>(
      wrap_storage(s), c10::DispatchKeySet(c10::DispatchKey::PrivateUse1), c10::scalarTypeToTypeMeta(dtype));
  if (sizes.size() != 1 || sizes[0] != 0 || strides[0] != 1)
    t.unsafeGetTensorImpl()->set_sizes_and_strides(sizes, strides);
  return t;
}

void resize_storage(c10::StorageImpl *storage, size_t bytes) {
  auto *s = static_cast<tt_storage *>(storage->data_ptr().get_context());
  TORCH_CHECK(storage->resizable(), "Trying to resize storage that is not resizable");
  tt_error err{};
  {
    GilRelease nogil;
    check(tt_storage_resize(s, bytes, &err), err);
  }
  storage->set_data_ptr_noswap(data_of(tt_storage_retain(s)));
  storage->set_nbytes(bytes);
}

// ---- pinned host memory ----
struct PinnedAllocator final : c10::Allocator {
  c10::DataPtr allocate(size_t bytes) override {
    void *p = nullptr;
    if (bytes) {
      TORCH_CHECK_WITH(OutOfMemoryError, posix_memalign(&p, 64, bytes) == 0, "cannot allocate ", bytes,
                       " bytes of pinned memory");
      std::lock_guard<std::mutex> guard(lock);
      blocks.emplace(reinterpret_cast<uintptr_t>(p), bytes);
    }
    return {p, p, &release, c10::Device(c10::kCPU)};
  }
  static void release(void *p);
  c10::DeleterFnPtr raw_deleter() const override { return &release; }
  void copy_data(void *dest, const void *src, size_t bytes) const override { default_copy_data(dest, src, bytes); }
  bool holds(const void *p) {
    std::lock_guard<std::mutex> guard(lock);
    auto it = blocks.upper_bound(reinterpret_cast<uintptr_t>(p));
    if (it == blocks.begin()) return false;
    --it;
    return reinterpret_cast<uintptr_t>(p) < it->first + it->second;
  }
  std::mutex lock;
  std::map<uintptr_t, size_t> blocks;
};
static PinnedAllocator &pinned = *new PinnedAllocator; // outlives every tensor
void PinnedAllocator::release(void *p) {
  if (!p) return;
  {
    std::lock_guard<std::mutex> guard(pinned.lock);
    pinned.blocks.erase(reinterpret_cast<uintptr_t>(p));
  }
  std::free(p);
}
bool is_pinned(const void *data) { return data && pinned.holds(data); }

// ---- guard ----
struct Event {
  tt_event *event;
  bool timed;
};

struct Guard final : c10::impl::DeviceGuardImplInterface {
  c10::DeviceType type() const override { return kTpu; }
  c10::Device exchangeDevice(c10::Device d) const override {
    c10::Device before = getDevice();
    if (d.index() >= 0) set_device(d.index());
    return before;
  }
  c10::Device getDevice() const override { return {kTpu, thread_device}; }
  void setDevice(c10::Device d) const override {
    if (d.index() >= 0) set_device(d.index());
  }
  void uncheckedSetDevice(c10::Device d) const noexcept override {
    if (d.index() >= 0) thread_device = d.index();
  }
  c10::DeviceIndex deviceCount() const noexcept override { return device_count(); }

  // Behind all that was called so far, recorded calls too. NULL on failure.
  static tt_event *event_here(c10::DeviceIndex device, tt_error *err) {
    tt_client *c = client();
    GilRelease nogil;
    return tt_flush(device, err) ? nullptr : tt_event_record(c, device, err);
  }
  static c10::Device full(c10::Device d) { return {kTpu, d.index() < 0 ? thread_device : d.index()}; }
  static c10::StreamId &current(c10::Device d) {
    TORCH_CHECK(d.index() < MAX_DEVICES, "invalid tpu device index ", int{d.index()});
    return thread_streams[full(d).index()];
  }
  static c10::Stream fresh(c10::Device d) {
    static std::atomic<c10::StreamId> last{0};
    return c10::Stream(c10::Stream::UNSAFE, full(d), ++last);
  }
  c10::Stream getStream(c10::Device d) const override { return c10::Stream(c10::Stream::UNSAFE, full(d), current(d)); }
  c10::Stream getDefaultStream(c10::Device d) const override { return c10::Stream(c10::Stream::DEFAULT, full(d)); }
  c10::Stream getStreamFromGlobalPool(c10::Device d, bool) const override { return fresh(d); }
  c10::Stream getNewStream(c10::Device d, int) const override { return fresh(d); }
  c10::Stream exchangeStream(c10::Stream s) const override {
    c10::StreamId &id = current(s.device());
    c10::Stream before(c10::Stream::UNSAFE, full(s.device()), id);
    id = s.id();
    return before;
  }
  bool queryStream(const c10::Stream &s) const override {
    tt_error err{};
    tt_event *e = event_here(s.device_index(), &err);
    if (!e) raise(err);
    bool done = tt_event_done(e);
    tt_event_destroy(e);
    return done;
  }
  void synchronizeStream(const c10::Stream &s) const override { synchronizeDevice(s.device_index()); }
  void synchronizeDevice(const c10::DeviceIndex i) const override {
    tt_error err{};
    check_device(i);
    tt_client *c = client();
    GilRelease nogil;
    check(tt_flush(i, &err), err);
    check(tt_client_synchronize(c, i, &err), err);
  }
  void recordDataPtrOnStream(const c10::DataPtr &, const c10::Stream &) const override {
  } // work holds its buffers itself

  void record(void **event, const c10::Stream &s, const c10::DeviceIndex, const c10::EventFlag flag) const override {
    tt_error err{};
    tt_event *fresh_event = event_here(s.device_index(), &err);
    if (!fresh_event) raise(err);
    auto *e = static_cast<Event *>(*event);
    if (!e) *event = e = new Event{nullptr, flag == c10::EventFlag::BACKEND_DEFAULT};
    tt_event_destroy(e->event);
    e->event = fresh_event;
  }
  void destroyEvent(void *event, const c10::DeviceIndex) const noexcept override {
    auto *e = static_cast<Event *>(event);
    if (!e) return;
    tt_event_destroy(e->event);
    delete e;
  }
  void block(void *, const c10::Stream &) const override {} // a device runs in order: what comes later waits anyway
  bool queryEvent(void *event) const override { return !event || tt_event_done(static_cast<Event *>(event)->event); }
  void synchronizeEvent(void *event) const override {
    if (!event) return;
    tt_error err{};
    GilRelease nogil;
    check(tt_event_await(static_cast<Event *>(event)->event, &err), err);
  }
  double elapsedTime(void *a, void *b, const c10::DeviceIndex) const override {
    TORCH_CHECK(a && b, "Both events must be recorded before calculating elapsed time.");
    auto *first = static_cast<Event *>(a), *second = static_cast<Event *>(b);
    TORCH_CHECK(first->timed && second->timed, "Both events must be created with argument 'enable_timing=True'.");
    TORCH_CHECK(tt_event_done(first->event) && tt_event_done(second->event),
                "Both events must be completed before calculating elapsed time.");
    return static_cast<double>(tt_event_time(second->event) - tt_event_time(first->event)) * 1e-6;
  }
};
C10_REGISTER_GUARD_IMPL(PrivateUse1, Guard);

// ---- generators ----
struct Generator final : c10::GeneratorImpl {
  Generator(c10::DeviceIndex device, tt_generator *g, bool owned)
      : GeneratorImpl(c10::Device(kTpu, device), c10::DispatchKeySet(c10::DispatchKey::PrivateUse1)), core(g),
        owned(owned) {}
  ~Generator() override {
    if (owned) tt_generator_destroy(core);
  }
  static c10::intrusive_ptr<Generator> fresh(c10::DeviceIndex device, uint64_t seed) {
    tt_error err{};
    tt_generator *g = tt_generator_create(seed, &err);
    if (!g) raise(err);
    return c10::make_intrusive<Generator>(device, g, true);
  }
  void get(uint64_t *state) const { tt_generator_get(core, &state[0], &state[1]); }
  void set_current_seed(uint64_t seed) override { tt_generator_set(core, seed, 0); }
  uint64_t current_seed() const override {
    uint64_t s[2];
    get(s);
    return s[0];
  }
  void set_offset(uint64_t offset) override { tt_generator_set(core, current_seed(), offset); }
  uint64_t get_offset() const override {
    uint64_t s[2];
    get(s);
    return s[1];
  }
  uint64_t seed() override {
    uint64_t seed = c10::detail::getNonDeterministicRandom();
    set_current_seed(seed);
    return seed;
  }
  void set_state(const c10::TensorImpl &t) override {
    TORCH_CHECK_TYPE(t.device().is_cpu() && t.dtype() == c10::scalarTypeToTypeMeta(c10::kByte) && t.is_contiguous(),
                     "RNG state must be a torch.ByteTensor");
    TORCH_CHECK(t.numel() == 16, "RNG state is wrong size: expected 16 bytes, got ", t.numel());
    uint64_t s[2];
    std::memcpy(s, t.data(), sizeof s);
    tt_generator_set(core, s[0], s[1]);
  }
  c10::intrusive_ptr<c10::TensorImpl> get_state() const override {
    uint64_t s[2];
    get(s);
    at::TensorBase t = at::detail::empty_cpu({16}, c10::kByte);
    std::memcpy(t.mutable_data_ptr(), s, sizeof s);
    return t.getIntrusivePtr();
  }
  Generator *clone_impl() const override {
    uint64_t s[2];
    get(s);
    auto g = fresh(device().index(), s[0]);
    tt_generator_set(g->core, s[0], s[1]);
    return g.release();
  }
  tt_generator *core;
  bool owned;
};

tt_generator *generator_of(const at::Generator &g) {
  TORCH_CHECK(g.device().type() == kTpu, "Expected a 'tpu' device type for generator but found '", g.device().type(),
              "'");
  return static_cast<Generator *>(g.unsafeGetGeneratorImpl())->core;
}

const at::Generator &default_generator(c10::DeviceIndex i) {
  static std::vector<at::Generator> &all = *[] {
    auto *v = new std::vector<at::Generator>;
    for (int k = 0; k < MAX_DEVICES; k++)
      v->push_back(at::Generator(
          c10::make_intrusive<Generator>(static_cast<c10::DeviceIndex>(k), tt_generator_default(k), false)));
    return v;
  }();
  if (i < 0) i = thread_device;
  TORCH_CHECK(i < MAX_DEVICES, "invalid tpu device index ", int{i});
  return all[i];
}

// ---- hooks ----
struct Hooks final : at::PrivateUse1HooksInterface {
  bool isBuilt() const override { return true; }
  bool isAvailable() const override { return shim_initialized() || lazy_init; }
  bool hasPrimaryContext(c10::DeviceIndex i) const override {
    return shim_initialized() && i >= 0 && i < device_count();
  }
  void init() const override { client(); }
  c10::DeviceIndex deviceCount() const override { return device_count(); }
  c10::DeviceIndex getCurrentDevice() const override { return thread_device; }
  void setCurrentDevice(c10::DeviceIndex i) const override { set_device(i); }
  c10::DeviceIndex exchangeDevice(c10::DeviceIndex i) const override {
    c10::DeviceIndex before = thread_device;
    if (i >= 0) set_device(i);
    return before;
  }
  c10::DeviceIndex maybeExchangeDevice(c10::DeviceIndex i) const override { return exchangeDevice(i); }
  const at::Generator &getDefaultGenerator(c10::DeviceIndex i) const override { return default_generator(i); }
  at::Generator getNewGenerator(c10::DeviceIndex i) const override {
    return at::Generator(Generator::fresh(i < 0 ? thread_device : i, c10::default_rng_seed_val));
  }
  at::Device getDeviceFromPtr(void *data) const override {
    tt_storage *s = tt_storage_from_address(data);
    TORCH_CHECK(s, "the pointer belongs to no tpu tensor");
    return {kTpu, static_cast<c10::DeviceIndex>(tt_storage_device(s))};
  }
  bool isPinnedPtr(const void *data) const override { return is_pinned(data); }
  at::Allocator *getPinnedMemoryAllocator() const override { return &pinned; }
  void resizePrivateUse1Bytes(const c10::Storage &storage, size_t bytes) const override {
    resize_storage(storage.unsafeGetStorageImpl(), bytes);
  }
};

void register_device() {
  c10::register_privateuse1_backend("tpu");
  c10::SetAllocator(kTpu, &the_allocator);
  at::RegisterPrivateUse1HooksInterface(new Hooks);
  register_modes();
}

} // namespace tpu

using namespace tpu;

void shim_set_lazy_init(tt_code (*ask)(tt_error *err)) { lazy_init = ask; }
bool shim_initialized(void) { return the_client.load() != nullptr; }

tt_code shim_init(const char *plugin_path, int n_devices, tt_error *err) {
  GilRelease nogil;
  std::lock_guard<std::mutex> guard(client_lock);
  if (the_client.load()) return tt_fail(err, TT_FAILED_PRECONDITION, "", "the tpu client is initialised already");
  unsigned settings; // the variable may have been set after the import
  if (tt_mode_from_env(&settings, err)) return err->code;
  tt_plugin *p = tt_plugin_load(plugin_path, err);
  tt_client *c = p ? tt_client_create(p, n_devices, err) : nullptr;
  if (!c) return err->code ? err->code : TT_INTERNAL;
  the_client.store(c, std::memory_order_release);
  return TT_OK;
}

tt_client *shim_client_or_error(tt_error *err) {
  tt_client *c = the_client.load(std::memory_order_acquire);
  if (c) return c;
  static std::mutex asking; // one thread asks; the GIL is not held while others wait here
  GilRelease nogil;
  std::lock_guard<std::mutex> guard(asking);
  if (!the_client.load() && lazy_init)
    lazy_init(err);
  else if (!lazy_init)
    tt_fail(err, TT_FAILED_PRECONDITION, "", "torch_tpu is not imported: no plugin is known");
  c = the_client.load();
  if (!c && !err->code) tt_fail(err, TT_INTERNAL, "", "the tpu client was not made");
  return c;
}

int shim_current_device(void) { return thread_device; }

tt_code shim_set_device(int device, tt_error *err) {
  tt_client *c = shim_client_or_error(err);
  if (!c) return err->code;
  if (device < 0 || device >= std::min<int>(tt_client_device_count(c), MAX_DEVICES))
    return tt_fail(err, TT_INVALID_ARGUMENT, "", "invalid tpu device index %d", device);
  thread_device = static_cast<c10::DeviceIndex>(device);
  return TT_OK;
}
