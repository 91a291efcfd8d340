// profiler.cpp: time on the device for torch.profiler's PrivateUse1 activity.
//
// The profiler records an event where an operator begins and one where it ends, and asks for the time between them: how
// long the device took to get from what was submitted before the operator to the end of its own work.
#include <c10/util/ApproximateClock.h>
#include <torch/csrc/profiler/stubs/base.h>
#include "shim/common.h"

namespace tpu {

namespace {
struct Stubs final : torch::profiler::impl::ProfilerStubs {
  using Event = torch::profiler::impl::ProfilerVoidEventStub;

  void record(c10::DeviceIndex *device, Event *event, int64_t *cpu_ns) const override {
    tt_error err{};
    if (device) *device = current_device();
    tt_event *e = tt_event_record(client(), current_device(), &err);
    if (!e) raise(err);
    *event = std::shared_ptr<void>(e, [](void *p) { tt_event_destroy(static_cast<tt_event *>(p)); });
    if (cpu_ns) *cpu_ns = c10::getTime();
  }
  float elapsed(const Event *from, const Event *to) const override { // microseconds
    tt_error err{};
    auto *a = static_cast<tt_event *>(from->get()), *b = static_cast<tt_event *>(to->get());
    GilRelease nogil;
    check(tt_event_await(a, &err), err);
    check(tt_event_await(b, &err), err);
    return static_cast<float>(tt_event_time(b) - tt_event_time(a)) / 1000;
  }
  void mark(const char *) const override {}
  void rangePush(const char *) const override {}
  void rangePop() const override {}
  bool enabled() const override { return true; }
  void onEachDevice(std::function<void(int)> op) const override {
    for (int i = 0; i < tt_client_device_count(client()); i++) op(i);
  }
  void synchronize() const override {
    tt_error err{};
    GilRelease nogil;
    for (int i = 0; i < tt_client_device_count(client()); i++) check(tt_client_synchronize(client(), i, &err), err);
  }
};
const bool registered = [] {
  static Stubs stubs;
  torch::profiler::impl::registerPrivateUse1Methods(&stubs);
  return true;
}();
} // namespace

} // namespace tpu
