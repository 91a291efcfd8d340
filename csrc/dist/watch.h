// watch.h: what this process's groups are doing, and what the other ranks say when something has gone wrong.
#ifndef TT_DIST_WATCH_H
#define TT_DIST_WATCH_H
#include <atomic>
#include <chrono>
#include <memory>
#include <mutex>
#include <string>
#include <torch/csrc/distributed/c10d/Store.hpp>
#include <vector>

namespace tpu {

// The last collective of one group on this rank.
class Record {
public:
  Record(std::string group, std::vector<int64_t> ranks);                  // ranks: the group's, in the world
  uint64_t begin(const char *op, const std::vector<at::Tensor> &tensors); // its number
  void end(uint64_t number);
  std::string text() const;        // one line, without the group
  void close() { closed_ = true; } // the group has ended: nobody will ask
  bool closed() const { return closed_; }
  const std::string group;
  const std::vector<int64_t> ranks;

private:
  mutable std::mutex lock_;
  std::atomic<bool> closed_{false};
  uint64_t number_ = 0, ended_ = 0; // the last that has begun, and the last that has ended
  std::string what_;
  std::chrono::steady_clock::time_point since_;
};

// A record that the process answers for while it lives. The first group's store is where ranks meet.
std::shared_ptr<Record> watch(std::string group, std::vector<int64_t> ranks, int64_t me,
                              const c10::intrusive_ptr<c10d::Store> &store);

// Asks all ranks of the group where they are: what to append to the message of a failure. Takes a few seconds at most.
std::string where_all_are(const Record &of);

} // namespace tpu
#endif
