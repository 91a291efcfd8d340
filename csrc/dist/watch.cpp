// watch.cpp: a collective that fails says where every rank is.
//
// Each group remembers its last collective. One thread for each process looks now and then at a counter in the store;
// when somebody has raised it, the process writes down there where its groups are. So who fails asks, and who is late
// or elsewhere answers, while it computes; who does not answer has ended or cannot be reached. Costs a collective a
// short text, and the store a request a second from each rank (fewer when there are thousands).
#include "dist/watch.h"
#include <algorithm>
#include <atomic>
#include <condition_variable>
#include <cstring>
#include <map>
#include <sstream>
#include <thread>
#include "shim/common.h"

namespace tpu {

using Clock = std::chrono::steady_clock;
using std::chrono::milliseconds;

// ---- records ----
Record::Record(std::string g, std::vector<int64_t> r)
    : group(std::move(g)), ranks(std::move(r)), since_(Clock::now()) {}

static std::string describe(const char *op, const std::vector<at::Tensor> &tensors) {
  std::ostringstream s;
  s << op;
  for (size_t i = 0; i < tensors.size() && i < 2; i++)
    s << ' ' << tensors[i].sizes() << ' ' << tensors[i].scalar_type();
  if (tensors.size() > 2) s << " and " << tensors.size() - 2 << " more";
  return s.str();
}

uint64_t Record::begin(const char *op, const std::vector<at::Tensor> &tensors) {
  std::string what = describe(op, tensors), line = user_line(false);
  if (!line.empty()) what += " (" + line + ")";
  std::lock_guard<std::mutex> guard(lock_);
  what_ = std::move(what);
  since_ = Clock::now();
  return ++number_;
}

void Record::end(uint64_t number) {
  std::lock_guard<std::mutex> guard(lock_);
  ended_ = std::max(ended_, number);
  if (number == number_) since_ = Clock::now();
}

std::string Record::text() const {
  std::lock_guard<std::mutex> guard(lock_);
  if (!number_) return "has begun no collective";
  double seconds = std::chrono::duration<double>(Clock::now() - since_).count();
  char ago[32];
  std::snprintf(ago, sizeof ago, "%.1f s", seconds);
  std::string call = "#" + std::to_string(number_) + " " + what_;
  return ended_ >= number_ ? "has ended " + call + " " + ago + " ago and begun no other"
                           : "is at " + call + " since " + ago;
}

// ---- the process ----
struct Watch {
  std::mutex lock;
  std::condition_variable changed;
  std::vector<std::weak_ptr<Record>> records;
  c10::intrusive_ptr<c10d::Store> store; // a connection of the thread's own
  int64_t me = 0, seen = 0;
  size_t world = 1;
  bool stop = false, running = false;

  void end() { // the thread, unless it is held up by a store that does not answer
    std::unique_lock<std::mutex> guard(lock);
    stop = true;
    changed.notify_all();
    changed.wait_for(guard, std::chrono::seconds(1), [this] { return !running; });
  }
};

static bool gone(const std::weak_ptr<Record> &weak) {
  auto r = weak.lock();
  return !r || r->closed();
}

static Watch &the() { // never destroyed: its thread may outlive what is torn down at exit
  static Watch &w = *new Watch;
  static bool at_exit = (std::atexit([] { the().end(); }), true);
  return (void)at_exit, w;
}

// One key for each rank, so that answers do not pile up in the store: the number of the question, then a line a group.
static std::string key_of(int64_t rank) { return "tpu_dist/at/" + std::to_string(rank); }
static const char counter[] = "tpu_dist/questions";

static void answer(Watch &w, c10d::Store &store, int64_t question) {
  std::string all = std::to_string(question) + "\n";
  {
    std::lock_guard<std::mutex> guard(w.lock);
    for (const auto &weak : w.records)
      if (auto r = weak.lock()) all += r->group + "\t" + r->text() + "\n";
  }
  store.set(key_of(w.me), std::vector<uint8_t>(all.begin(), all.end()));
}

// What a rank has said, if it is about this question or a later one; else empty.
static std::string answer_of(c10d::Store &store, int64_t question, int64_t rank) {
  if (!store.check({key_of(rank)})) return "";
  std::vector<uint8_t> bytes = store.get(key_of(rank));
  std::string all(bytes.begin(), bytes.end());
  return std::strtoll(all.c_str(), nullptr, 10) >= question ? all.substr(all.find('\n')) : "";
}

// One round: false when nobody can ask any more.
static bool look(Watch &w) {
  {
    std::unique_lock<std::mutex> guard(w.lock);
    if (w.changed.wait_for(guard, milliseconds(1000 + w.world), [&] { return w.stop; })) return false;
    w.records.erase(std::remove_if(w.records.begin(), w.records.end(), gone), w.records.end());
    if (w.records.empty()) return true; // the groups are gone, and the store may be
  }
  try {
    int64_t now = w.store->add(counter, 0);
    if (w.seen < now) answer(w, *w.store, w.seen = now);
  } catch (const std::exception &) {
    return false; // the store has ended
  }
  return true;
}

static void look_out(Watch &w) {
  while (look(w)) {
  }
  std::lock_guard<std::mutex> guard(w.lock);
  w.running = false;
  w.changed.notify_all();
}

std::shared_ptr<Record> watch(std::string group, std::vector<int64_t> ranks, int64_t me,
                              const c10::intrusive_ptr<c10d::Store> &store) {
  auto record = std::make_shared<Record>(std::move(group), std::move(ranks));
  Watch &w = the();
  std::unique_lock<std::mutex> guard(w.lock);
  bool renewed = !w.running || std::all_of(w.records.begin(), w.records.end(), gone);
  w.records.push_back(record);
  if (!renewed) return record;
  // The first group of a world: after destroy_process_group and a new start the store is another.
  w.me = me;
  w.world = record->ranks.size();
  guard.unlock();
  w.end(); // a thread from before has the old store
  guard.lock();
  if (w.running) return record; // and waits for it: failures then tell of this rank alone
  try {
    w.store = store->clone();
    w.seen = w.store->add(counter, 0);
  } catch (const std::exception &) { // a store that cannot be used twice, as a test's
    w.store = nullptr;
    return record;
  }
  w.stop = false;
  w.running = true;
  std::thread(look_out, std::ref(w)).detach();
  return record;
}

static std::string line_of(const std::string &text, const std::string &group) {
  size_t at = text.find("\n" + group + "\t");
  if (at == std::string::npos) return "has no such group";
  at += group.size() + 2;
  return text.substr(at, text.find('\n', at) - at);
}

static std::string plural(std::string text) {
  for (const auto &[one, many] : {std::pair{"is ", "are "}, {"has ", "have "}, {"gives ", "give "}})
    if (text.rfind(one, 0) == 0) return many + text.substr(std::strlen(one));
  return text;
}

// What was heard: of a thread of its own, as a store that cannot be reached holds up whoever asks it for minutes.
struct Heard {
  std::mutex lock;
  std::condition_variable changed;
  std::map<int64_t, std::string> answers;
  bool ended = false, reachable = true;
};

static void ask(Heard &heard, c10d::Store &meeting, const std::string &group, const std::vector<int64_t> &ranks,
                Clock::time_point until) {
  bool reachable = true;
  try {
    c10::intrusive_ptr<c10d::Store> store = meeting.clone();
    int64_t question = store->add(counter, 1);
    answer(the(), *store, question);
    for (size_t known = 0; known < ranks.size() && Clock::now() < until;) {
      for (int64_t rank : ranks) {
        std::unique_lock<std::mutex> guard(heard.lock);
        if (heard.answers.count(rank)) continue;
        guard.unlock();
        std::string said = answer_of(*store, question, rank);
        guard.lock();
        if (!said.empty()) heard.answers[rank] = line_of(said, group);
        known = heard.answers.size();
      }
      if (known < ranks.size()) std::this_thread::sleep_for(milliseconds(100));
    }
  } catch (const std::exception &) {
    reachable = false;
  }
  std::lock_guard<std::mutex> guard(heard.lock);
  heard.reachable = reachable;
  heard.ended = true;
  heard.changed.notify_all();
}

std::string where_all_are(const Record &of) {
  Watch &w = the();
  std::unique_lock<std::mutex> guard(w.lock);
  c10::intrusive_ptr<c10d::Store> meeting = w.store;
  const int64_t me = w.me;
  const size_t world = w.world;
  guard.unlock();
  if (!meeting) return "\n  rank " + std::to_string(me) + " " + of.text();
  auto heard = std::make_shared<Heard>();
  auto until = Clock::now() + milliseconds(3500 + 2 * world);
  std::thread([heard, meeting, group = of.group, ranks = of.ranks, until] {
    ask(*heard, *meeting, group, ranks, until);
  }).detach();
  std::unique_lock<std::mutex> listening(heard->lock);
  heard->changed.wait_until(listening, until + milliseconds(500), [&] { return heard->ended; });
  std::map<int64_t, std::string> answers = heard->answers;
  bool reachable = heard->reachable && (heard->ended || !answers.empty());
  listening.unlock();
  if (!reachable) answers[me] = of.text();
  // Ranks that say the same share a line; how long they wait is not a difference.
  std::map<std::string, std::pair<std::vector<int64_t>, std::string>> said;
  for (int64_t rank : of.ranks) {
    auto it = answers.find(rank);
    std::string text = it != answers.end() ? it->second
                       : reachable         ? "gives no answer: ended, or cannot be reached"
                                           : "is not known: the store of the group (in rank 0) has ended or cannot be "
                                             "reached";
    auto &entry = said[text.substr(0, text.find(" since "))];
    entry.first.push_back(rank);
    entry.second = text;
  }
  std::string out;
  for (const auto &[ignored, entry] : said) {
    bool several = entry.first.size() > 1;
    out += several ? "\n  ranks " : "\n  rank ";
    for (size_t i = 0; i < entry.first.size(); i++) out += (i ? ", " : "") + std::to_string(entry.first[i]);
    out += " " + (several ? plural(entry.second) : entry.second);
  }
  return out;
}

} // namespace tpu
