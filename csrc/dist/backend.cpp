// backend.cpp: the c10d backend "tpu_dist" for plugins of any kind: collectives on the host's memory.
//
// Gloo moves the bytes; this brings tensors to it (lend.h), makes of dtypes and reductions what it knows (reduction.h),
// and gives the results to the device as soon as they are there, whether somebody waits or not. Inputs are what they
// were when the collective was called. Where one fails, the error says where every rank is (watch.h).
#include <pybind11/pybind11.h>
#include <torch/csrc/distributed/c10d/Backend.hpp>
#include <torch/csrc/distributed/c10d/ProcessGroup.hpp>
#include <torch/csrc/distributed/c10d/reducer_timer.hpp>
#include <torch/csrc/utils/pybind.h>
#include <torch/library.h>
#include <ATen/Functions.h>
#include <algorithm>
#include "dist/dist.h"
#include "dist/lend.h"
#include "dist/reduction.h"
#include "dist/watch.h"
#include "shim/common.h"

namespace tpu {

using c10d::OpType;
using Tensors = std::vector<at::Tensor>;
using WorkPtr = c10::intrusive_ptr<c10d::Work>;
using End = std::function<void(bool filled)>;

// ---- work ----
// One collective under way: what the host does, then what brings the results to the device.
class TpuWork final : public c10d::Work {
public:
  TpuWork(OpType type, int rank, std::vector<WorkPtr> host, std::vector<End> ends, Tensors results,
          std::shared_ptr<Record> record, uint64_t number)
      : Work(rank, type), host_(std::move(host)), ends_(std::move(ends)), results_(std::move(results)),
        record_(std::move(record)), number_(number),
        future_(c10::make_intrusive<c10::ivalue::Future>(c10::ListType::create(c10::TensorType::get()))) {}

  // Where the host's works tell of their end by themselves, so does this: when none of them goes on.
  void follow() {
    struct Left {
      std::mutex lock;
      size_t works;
      std::exception_ptr why;
    };
    follows_ = true;
    auto self = c10::intrusive_ptr<TpuWork>::reclaim_copy(this);
    auto left = std::make_shared<Left>();
    left->works = host_.size();
    for (const WorkPtr &w : host_)
      w->getFuture()->addCallback([self, left](c10::ivalue::Future &f) {
        std::unique_lock<std::mutex> guard(left->lock);
        if (f.hasError() && !left->why) left->why = f.exception_ptr();
        bool last = --left->works == 0;
        guard.unlock();
        if (last) self->finish(left->why);
      });
  }

  bool isCompleted() override { return future_->completed(); }
  bool isSuccess() const override { return future_->completed() && !future_->hasError(); }
  std::exception_ptr exception() const override { return future_->hasError() ? future_->exception_ptr() : nullptr; }
  int sourceRank() const override { return host_.at(0)->sourceRank(); }
  Tensors result() override { return results_; }
  void synchronize() override { wait(kNoTimeout); }
  void abort() override {
    for (const WorkPtr &w : host_) w->abort();
  }
  c10::intrusive_ptr<c10::ivalue::Future> getFuture() override { return future_; }
  uint64_t getSequencenumber() const override { return number_; }

  bool wait(std::chrono::milliseconds timeout) override {
    try {
      for (const WorkPtr &w : host_) w->wait(timeout);
      if (!follows_) finish(nullptr);
      future_->waitAndThrow();
    } catch (const std::exception &x) {
      if (!follows_) finish(std::current_exception()); // else it may go on: who waits again may see it end
      C10_THROW_ERROR(DistBackendError, explained(x.what()));
    }
    return true;
  }

private:
  void finish(std::exception_ptr why) {
    {
      std::lock_guard<std::mutex> guard(once_);
      if (std::exchange(ended_, true)) return;
    }
    for (const End &end : ends_) {
      try {
        end(!why);
      } catch (...) {
        why = std::current_exception();
      }
    }
    ends_.clear();
    if (why) return future_->setError(why);
    record_->end(number_);
    future_->markCompleted(c10::IValue(results_));
  }

  std::string explained(const std::string &what) {
    std::lock_guard<std::mutex> guard(explaining_);
    if (explanation_.empty())
      explanation_ = c10d::opTypeToString(opType_) + " #" + std::to_string(number_) + " of group " + record_->group +
                     " failed on rank " + std::to_string(record_->ranks.at(rank_)) + ": " +
                     what.substr(0, what.find("\nException raised")) + where_all_are(*record_);
    return explanation_;
  }

  std::vector<WorkPtr> host_;
  std::vector<End> ends_;
  Tensors results_;
  std::shared_ptr<Record> record_;
  uint64_t number_;
  c10::intrusive_ptr<c10::ivalue::Future> future_;
  std::mutex once_, explaining_;
  bool ended_ = false, follows_ = false;
  std::string explanation_;
};

// ---- helpers ----
// What only moves is moved as bytes, whatever it is.
static at::Tensor bytes(const at::Tensor &host) { return host.reshape({host.numel()}).view(at::kByte); }

static bool all_like(const Tensors &tensors, const at::Tensor &one) {
  return std::all_of(tensors.begin(), tensors.end(), [&](const at::Tensor &t) { return t.nbytes() == one.nbytes(); });
}

static void check_single(const char *op, const Tensors &tensors) {
  TORCH_CHECK(tensors.size() == 1, "ProcessGroupTPU::", op, ": expected one tensor, got ", tensors.size());
}

// ---- the backend ----
class TpuBackend final : public c10d::Backend {
public:
  TpuBackend(c10::intrusive_ptr<Backend> host, std::shared_ptr<Record> record)
      : Backend(host->getRank(), host->getSize()), host_(std::move(host)), record_(std::move(record)) {}

  const std::string getBackendName() const override { return "tpu_dist"; }
  c10::intrusive_ptr<Options> getBackendOptions() override { return host_->getBackendOptions(); }
  void setTimeout(std::chrono::milliseconds t) override { host_->setTimeout(t); }
  void setSequenceNumberForGroup() override { host_->setSequenceNumberForGroup(); }
  uint64_t getSequenceNumberForGroup() override { return host_->getSequenceNumberForGroup(); }
  void abort() override {
    record_->close();
    host_->abort();
  }
  void shutdown() override {
    record_->close();
    host_->shutdown();
  }
  bool supportsSplitting() const override { return host_->supportsSplitting(); }
  // Failures are raised where they are waited for.
  c10d::ErrorType getError() override { return c10d::ErrorType::SUCCESS; }

  c10::intrusive_ptr<Backend> split(const c10::intrusive_ptr<c10d::Store> &store, const std::vector<int> &ranks,
                                    const c10::intrusive_ptr<Options> &opts) override {
    c10::intrusive_ptr<Backend> part = host_->split(store, ranks, opts);
    if (!part) return part;
    std::vector<int64_t> members;
    for (int r : ranks) members.push_back(record_->ranks.at(r));
    int64_t me = members.at(part->getRank());
    return c10::make_intrusive<TpuBackend>(
        part, watch(opts ? opts->group_name : record_->group + "/split", members, me, store));
  }

  // ---- one to all, all to one ----
  WorkPtr broadcast(Tensors &tensors, const c10d::BroadcastOptions &opts) override {
    check_single("broadcast", tensors);
    uint64_t number = record_->begin("broadcast", tensors);
    if (opts.rootRank == rank_) {
      Tensors host = {bytes(readable(tensors[0]))};
      return collective(OpType::BROADCAST, number, {host_->broadcast(host, opts)}, {}, tensors);
    }
    Lent to = writable(tensors[0], false);
    Tensors host = {bytes(to.host)};
    return collective(OpType::BROADCAST, number, {host_->broadcast(host, opts)}, {to.end}, tensors);
  }

  WorkPtr gather(std::vector<Tensors> &outputs, Tensors &inputs, const c10d::GatherOptions &opts) override {
    check_single("gather", inputs);
    uint64_t number = record_->begin("gather", inputs);
    std::vector<Tensors> host;
    std::vector<End> ends;
    if (opts.rootRank == rank_) host.push_back(fill(outputs.at(0), &ends));
    Tensors in = {bytes(readable(inputs[0]))};
    return collective(OpType::GATHER, number, {host_->gather(host, in, opts)}, ends,
                      opts.rootRank == rank_ ? outputs[0] : Tensors{});
  }

  WorkPtr scatter(Tensors &outputs, std::vector<Tensors> &inputs, const c10d::ScatterOptions &opts) override {
    check_single("scatter", outputs);
    uint64_t number = record_->begin("scatter", outputs);
    std::vector<End> ends;
    Tensors out = fill(outputs, &ends);
    std::vector<Tensors> host;
    if (opts.rootRank == rank_) host.push_back(read(inputs.at(0)));
    return collective(OpType::SCATTER, number, {host_->scatter(out, host, opts)}, ends, outputs);
  }

  // ---- all gather ----
  WorkPtr allgather(std::vector<Tensors> &outputs, Tensors &inputs, const c10d::AllgatherOptions &opts) override {
    check_single("allgather", inputs);
    uint64_t number = record_->begin("all_gather", inputs);
    std::vector<End> ends;
    // Gloo gathers equal sizes; a broadcast by each rank takes any.
    if (!all_like(outputs.at(0), inputs[0])) return uneven_allgather(outputs[0], inputs[0], opts, number);
    std::vector<Tensors> host = {fill(outputs[0], &ends)};
    Tensors in = read(inputs);
    return collective(OpType::ALLGATHER, number, {host_->allgather(host, in, opts)}, ends, outputs[0]);
  }

  WorkPtr _allgather_base(at::Tensor &output, at::Tensor &input, const c10d::AllgatherOptions &opts) override {
    uint64_t number = record_->begin("all_gather_into_tensor", {input});
    TORCH_CHECK(output.numel() == input.numel() * size_,
                "output tensor size must be equal to world_size times input tensor size");
    TORCH_CHECK(output.scalar_type() == input.scalar_type(), "output tensor must have the same type as input tensor");
    return gather_all({output}, {input}, opts, OpType::_ALLGATHER_BASE, number);
  }

  WorkPtr allgather_into_tensor_coalesced(Tensors &outputs, Tensors &inputs,
                                          const c10d::AllgatherOptions &opts) override {
    uint64_t number = record_->begin("all_gather_into_tensor_coalesced", inputs);
    TORCH_CHECK(outputs.size() == inputs.size(), "expected as many outputs as inputs");
    return gather_all(outputs, inputs, opts, OpType::COALESCED, number);
  }

  WorkPtr allgather_coalesced(std::vector<Tensors> &outputs, Tensors &inputs,
                              const c10d::AllgatherOptions &opts) override {
    uint64_t number = record_->begin("all_gather_coalesced", inputs);
    std::vector<WorkPtr> works;
    std::vector<End> ends;
    for (size_t i = 0; i < inputs.size(); i++) {
      Tensors outs, in = {bytes(readable(inputs[i]))};
      for (Tensors &of_rank : outputs) outs.push_back(of_rank.at(i));
      std::vector<Tensors> host = {fill(outs, &ends)};
      works.push_back(host_->allgather(host, in, opts));
    }
    return collective(OpType::ALLGATHER_COALESCED, number, works, ends, {});
  }

  // ---- reductions ----
  WorkPtr allreduce(Tensors &tensors, const c10d::AllreduceOptions &opts) override {
    check_single("allreduce", tensors);
    if (tensors[0].is_sparse()) return sparse_allreduce(tensors[0], opts);
    return reduce_all(tensors, opts, OpType::ALLREDUCE, record_->begin("all_reduce", tensors));
  }

  WorkPtr allreduce_coalesced(Tensors &tensors, const c10d::AllreduceCoalescedOptions &opts) override {
    return reduce_all(tensors, opts, OpType::ALLREDUCE_COALESCED, record_->begin("all_reduce_coalesced", tensors));
  }

  WorkPtr reduce(Tensors &tensors, const c10d::ReduceOptions &opts) override {
    check_single("reduce", tensors);
    uint64_t number = record_->begin("reduce", tensors);
    Reduction how(opts.reduceOp, tensors[0].scalar_type(), size_);
    if (opts.rootRank != rank_) { // what others hold stays as it is, while Gloo uses its memory for partial sums
      Tensors carried = {how.before(readable(tensors[0]).clone())};
      return collective(OpType::REDUCE, number, {host_->reduce(carried, plain(opts, how))}, {}, tensors);
    }
    Lent to = writable(tensors[0], true);
    Tensors carried = {how.before(to.host)};
    return collective(OpType::REDUCE, number, {host_->reduce(carried, plain(opts, how))}, {after(how, carried[0], to)},
                      tensors);
  }

  WorkPtr reduce_scatter(Tensors &outputs, std::vector<Tensors> &inputs,
                         const c10d::ReduceScatterOptions &opts) override {
    check_single("reduce_scatter", outputs);
    uint64_t number = record_->begin("reduce_scatter", outputs);
    const Tensors &parts = inputs.at(0);
    TORCH_CHECK(parts.size() == static_cast<size_t>(size_), "expected as many inputs as ranks");
    if (!all_like(parts, outputs[0])) return uneven_reduce_scatter(outputs[0], parts, opts, number);
    Tensors flat;
    for (const at::Tensor &t : parts) flat.push_back(readable(t).reshape({t.numel()}));
    return scatter_reduced({outputs[0]}, {at::cat(flat)}, opts, OpType::REDUCE_SCATTER, number);
  }

  WorkPtr _reduce_scatter_base(at::Tensor &output, at::Tensor &input, const c10d::ReduceScatterOptions &opts) override {
    uint64_t number = record_->begin("reduce_scatter_tensor", {input});
    TORCH_CHECK(input.numel() == output.numel() * size_,
                "input tensor must be the same size as output size times world size");
    TORCH_CHECK(output.scalar_type() == input.scalar_type(),
                "input tensor must be the same type as the output tensor.");
    return scatter_reduced({output}, {readable(input)}, opts, OpType::_REDUCE_SCATTER_BASE, number);
  }

  WorkPtr reduce_scatter_tensor_coalesced(Tensors &outputs, Tensors &inputs,
                                          const c10d::ReduceScatterOptions &opts) override {
    uint64_t number = record_->begin("reduce_scatter_tensor_coalesced", inputs);
    TORCH_CHECK(outputs.size() == inputs.size(), "expected as many outputs as inputs");
    Tensors hosts;
    for (const at::Tensor &t : inputs) hosts.push_back(readable(t));
    return scatter_reduced(outputs, hosts, opts, OpType::REDUCE_SCATTER_TENSOR_COALESCED, number);
  }

  // ---- all to all ----
  WorkPtr alltoall_base(at::Tensor &output, at::Tensor &input, std::vector<int64_t> &to, std::vector<int64_t> &from,
                        const c10d::AllToAllOptions &opts) override {
    uint64_t number = record_->begin("all_to_all_single", {input});
    c10d::checkSplitSizes(from, input, size_);
    c10d::checkSplitSizes(to, output, size_);
    TORCH_CHECK(output.scalar_type() == input.scalar_type(), "Tensors are not equal in size or data type");
    std::vector<End> ends;
    at::Tensor out = fill({output}, &ends)[0], in = bytes(readable(input));
    return collective(OpType::ALLTOALL_BASE, number,
                      {exchange(out, in, in_bytes(to, output), in_bytes(from, input), opts)}, ends, {output});
  }

  WorkPtr alltoall(Tensors &outputs, Tensors &inputs, const c10d::AllToAllOptions &opts) override {
    uint64_t number = record_->begin("all_to_all", inputs);
    TORCH_CHECK(outputs.size() == static_cast<size_t>(size_) && inputs.size() == static_cast<size_t>(size_),
                "expected a tensor for each rank");
    std::vector<int64_t> to, from;
    std::vector<End> ends;
    Tensors outs = fill(outputs, &ends), ins = read(inputs);
    for (const at::Tensor &t : outs) to.push_back(t.numel());
    for (const at::Tensor &t : ins) from.push_back(t.numel());
    at::Tensor in = at::cat(ins), out = at::empty({total(to)}, in.options());
    ends.insert(ends.begin(), [outs, out, to](bool filled) {
      int64_t at = 0;
      for (size_t i = 0; filled && i < outs.size(); at += to[i++]) at::Tensor(outs[i]).copy_(out.narrow(0, at, to[i]));
    });
    return collective(OpType::ALLTOALL, number, {exchange(out, in, to, from, opts)}, ends, outputs);
  }

  // ---- one to one ----
  WorkPtr send(Tensors &tensors, int to, int tag) override {
    check_single("send", tensors);
    uint64_t number = record_->begin("send", tensors);
    Tensors host = read(tensors);
    return between(OpType::SEND, number, host_->send(host, to, tag), {}, host);
  }
  WorkPtr recv(Tensors &tensors, int from, int tag) override {
    check_single("recv", tensors);
    uint64_t number = record_->begin("recv", tensors);
    std::vector<End> ends;
    Tensors host = fill(tensors, &ends);
    return between(OpType::RECV, number, host_->recv(host, from, tag), ends, tensors);
  }
  WorkPtr recvAnysource(Tensors &tensors, int tag) override {
    check_single("recvAnysource", tensors);
    uint64_t number = record_->begin("recv", tensors);
    std::vector<End> ends;
    Tensors host = fill(tensors, &ends);
    return between(OpType::RECVANYSOURCE, number, host_->recvAnysource(host, tag), ends, tensors);
  }

  // ---- barriers ----
  WorkPtr barrier(const c10d::BarrierOptions &opts) override {
    uint64_t number = record_->begin("barrier", {});
    c10d::BarrierOptions plain;
    plain.timeout = opts.timeout;
    plain.asyncOp = opts.asyncOp;
    return collective(OpType::BARRIER, number, {host_->barrier(plain)}, {}, {});
  }
  void monitoredBarrier(const c10d::BarrierOptions &opts, bool all) override {
    uint64_t number = record_->begin("monitored_barrier", {});
    host_->monitoredBarrier(opts, all);
    record_->end(number);
  }

private:
  // Host memory as bytes that becomes the tensors' contents.
  Tensors fill(const Tensors &tensors, std::vector<End> *ends) {
    Tensors hosts;
    for (const at::Tensor &t : tensors) {
      Lent to = writable(t, false);
      hosts.push_back(bytes(to.host));
      ends->push_back(std::move(to.end));
    }
    return hosts;
  }
  Tensors read(const Tensors &tensors) {
    Tensors hosts;
    for (const at::Tensor &t : tensors) hosts.push_back(bytes(readable(t)));
    return hosts;
  }

  WorkPtr collective(OpType type, uint64_t number, std::vector<WorkPtr> works, std::vector<End> ends, Tensors results) {
    auto w = c10::make_intrusive<TpuWork>(type, rank_, std::move(works), std::move(ends), std::move(results), record_,
                                          number);
    w->follow();
    return w;
  }
  // Gloo's sends and receives end in wait().
  WorkPtr between(OpType type, uint64_t number, WorkPtr work, std::vector<End> ends, Tensors results) {
    return c10::make_intrusive<TpuWork>(type, rank_, std::vector<WorkPtr>{std::move(work)}, std::move(ends),
                                        std::move(results), record_, number);
  }

  template <class Options> static Options plain(Options opts, const Reduction &how) {
    opts.reduceOp = how.plain;
    return opts;
  }
  static End after(const Reduction &how, const at::Tensor &result, const Lent &to) {
    return [how, result, to](bool filled) {
      if (filled) how.after(result, to.host);
      to.end(filled);
    };
  }

  WorkPtr gather_all(const Tensors &outputs, const Tensors &inputs, const c10d::AllgatherOptions &opts, OpType type,
                     uint64_t number) {
    std::vector<WorkPtr> works;
    std::vector<End> ends;
    for (size_t i = 0; i < outputs.size(); i++) {
      at::Tensor out = fill({outputs[i]}, &ends)[0], in = bytes(readable(inputs[i]));
      works.push_back(host_->_allgather_base(out, in, opts));
    }
    return collective(type, number, works, ends, outputs);
  }

  WorkPtr reduce_all(const Tensors &tensors, const c10d::AllreduceOptions &opts, OpType type, uint64_t number) {
    std::vector<WorkPtr> works;
    std::vector<End> ends;
    for (const at::Tensor &t : tensors) {
      Reduction how(opts.reduceOp, t.scalar_type(), size_);
      Lent to = writable(t, true);
      Tensors carried = {how.before(to.host)};
      works.push_back(host_->allreduce(carried, plain(opts, how)));
      ends.push_back(after(how, carried[0], to));
    }
    return collective(type, number, works, ends, tensors);
  }

  // Gloo adds up whatever elements the ranks have.
  WorkPtr sparse_allreduce(const at::Tensor &t, const c10d::AllreduceOptions &opts) {
    uint64_t number = record_->begin("all_reduce, sparse,", {t});
    Tensors host = {t.cpu()};
    WorkPtr work = host_->allreduce(host, opts);
    End end = [t, host](bool filled) {
      at::NoGradGuard no_grad;
      if (filled) at::Tensor(t).copy_(host[0].coalesce());
    };
    return collective(OpType::_ALLREDUCE_SPARSE, number, {std::move(work)}, {std::move(end)}, {t});
  }

  // inputs: on the host, a part for each rank. Each rank gets all ranks' values of its part and combines them: half of
  // what a reduction of all parts everywhere would move, and in the same order wherever it is done.
  WorkPtr scatter_reduced(const Tensors &outputs, const Tensors &inputs, const c10d::ReduceScatterOptions &opts,
                          OpType type, uint64_t number) {
    std::vector<WorkPtr> works;
    std::vector<End> ends;
    c10d::AllToAllOptions each;
    each.timeout = opts.timeout;
    for (size_t i = 0; i < outputs.size(); i++) {
      Reduction how(opts.reduceOp, outputs[i].scalar_type(), size_);
      Lent to = writable(outputs[i], false);
      at::Tensor in = how.before(how.scales() ? inputs[i].clone() : inputs[i]).contiguous();
      at::Tensor rows = at::empty({size_, in.numel() / size_}, in.options());
      std::vector<int64_t> parts(size_, static_cast<int64_t>(in.nbytes()) / size_);
      works.push_back(exchange(bytes(rows), bytes(in), parts, parts, each));
      ends.push_back([how, rows, to](bool filled) {
        if (filled) how.after(how.combined(rows), to.host);
        to.end(filled);
      });
    }
    return collective(type, number, works, ends, outputs);
  }

  WorkPtr uneven_allgather(const Tensors &outputs, const at::Tensor &input, const c10d::AllgatherOptions &opts,
                           uint64_t number) {
    std::vector<WorkPtr> works;
    std::vector<End> ends;
    for (int r = 0; r < size_; r++) {
      Lent to = writable(outputs.at(r), false);
      if (r == rank_) to.host.copy_(readable(input));
      c10d::BroadcastOptions from;
      from.rootRank = r;
      from.timeout = opts.timeout;
      Tensors host = {bytes(to.host)};
      works.push_back(host_->broadcast(host, from));
      ends.push_back(to.end);
    }
    return collective(OpType::ALLGATHER, number, works, ends, outputs);
  }

  WorkPtr uneven_reduce_scatter(const at::Tensor &output, const Tensors &parts, const c10d::ReduceScatterOptions &opts,
                                uint64_t number) {
    std::vector<WorkPtr> works;
    std::vector<End> ends;
    Reduction how(opts.reduceOp, output.scalar_type(), size_);
    for (int r = 0; r < size_; r++) {
      Tensors carried = {how.before(readable(parts.at(r)).clone())};
      c10d::ReduceOptions to;
      to.rootRank = r;
      to.timeout = opts.timeout;
      to.reduceOp = how.plain;
      works.push_back(host_->reduce(carried, to));
      if (r == rank_) ends.push_back(after(how, carried[0], writable(output, false)));
    }
    return collective(OpType::REDUCE_SCATTER, number, works, ends, {output});
  }

  static int64_t total(const std::vector<int64_t> &sizes) {
    int64_t n = 0;
    for (int64_t s : sizes) n += s;
    return n;
  }
  // Sizes of rows as sizes of bytes; none: equal parts.
  std::vector<int64_t> in_bytes(const std::vector<int64_t> &rows, const at::Tensor &of) const {
    int64_t n = static_cast<int64_t>(of.nbytes());
    if (rows.empty()) return std::vector<int64_t>(size_, n / size_);
    int64_t row = of.size(0) ? n / of.size(0) : 0;
    std::vector<int64_t> sizes;
    for (int64_t r : rows) sizes.push_back(r * row);
    return sizes;
  }
  WorkPtr exchange(at::Tensor out, at::Tensor in, std::vector<int64_t> to, std::vector<int64_t> from,
                   const c10d::AllToAllOptions &opts) {
    return host_->alltoall_base(out, in, to, from, opts);
  }

  c10::intrusive_ptr<Backend> host_;
  std::shared_ptr<Record> record_;
};

// ---- what DDP logs of its iterations ----
// Times of the host: what is asked of the device runs on after they are taken, and events would end a window of
// records.
class HostTimer final : public c10d::Timer {
public:
  explicit HostTimer(c10::Device) {}
  std::optional<int64_t> measureDifference(Event start, Event end) override {
    int64_t from = getTimeRef(start), to = getTimeRef(end);
    return to < from ? std::nullopt : std::optional(to - from); // under no_sync some ends are never reached
  }
};

// c10d knows of sparse tensors on the CPU and CUDA only.
static std::tuple<Tensors, WorkPtr> allreduce_sparse(at::TensorList tensors,
                                                     const c10::intrusive_ptr<c10d::ProcessGroup> &group,
                                                     const c10::intrusive_ptr<c10d::ReduceOp> &op,
                                                     const std::optional<at::Tensor> &indices, bool async_op,
                                                     int64_t timeout) {
  Tensors all = tensors.vec();
  c10d::AllreduceOptions opts;
  opts.reduceOp = *op;
  opts.timeout = std::chrono::milliseconds(timeout);
  opts.sparseIndices = indices;
  opts.asyncOp = async_op;
  WorkPtr work = group->getBackend(kTpu)->allreduce(all, opts);
  return {std::move(all), std::move(work)};
}

TORCH_LIBRARY_IMPL(c10d, SparsePrivateUse1, m) { m.impl("allreduce_", allreduce_sparse); }

} // namespace tpu

namespace c10d {
C10_REGISTER_TYPED_CLASS(TimerRegistry, tpu::kTpu, tpu::HostTimer)
}

void *dist_backend(void *host, void *store, void *ranks, const char *name) {
  namespace py = pybind11;
  try {
    auto inner = py::cast<c10::intrusive_ptr<c10d::Backend>>(py::handle(static_cast<PyObject *>(host)));
    auto meeting = py::cast<c10::intrusive_ptr<c10d::Store>>(py::handle(static_cast<PyObject *>(store)));
    auto members = py::cast<std::vector<int64_t>>(py::handle(static_cast<PyObject *>(ranks)));
    int64_t me = members.at(inner->getRank());
    std::shared_ptr<tpu::Record> record;
    {
      py::gil_scoped_release nogil;
      record = tpu::watch(name, members, me, meeting);
    }
    c10::intrusive_ptr<c10d::Backend> made = c10::make_intrusive<tpu::TpuBackend>(inner, record);
    return py::cast(made).release().ptr();
  } catch (py::error_already_set &e) {
    e.restore();
  } catch (const std::exception &e) {
    PyErr_SetString(PyExc_RuntimeError, e.what());
  }
  return nullptr;
}
