/// A fixed set of threads that run one function together.
#pragma once

#include <atomic>
#include <cstdint>
#include <thread>
#include <vector>

namespace g4::device {

/// Waits for a word to change: spins for some microseconds, since the others are usually about to arrive,
/// then sleeps in the kernel; at once when the core went to another thread meanwhile, so that a machine with more
/// threads than cores does not burn time slices. `seen` is the value to wait away from.
void spinThenPark(const std::atomic<uint32_t> &word, uint32_t seen);

/// How many threads a run gets: all, unless waiting for each other costs more than they bring.
///
/// With half as many threads a run would take about twice as long as its caller works now. So when the caller waits for longer
/// than it works, half would do: others have the cores, or the work is too little for so many. Twice as many get another try
/// after a while, which is longer after each try that failed: at most 1.6 s of runs.
/// Little processor time is no sign of it: where others hold the cores a second thread is a second share of them.
///
/// Threads: one at a time.
class TeamSize {
public:
  explicit TeamSize(unsigned most) : most_(most), threads_(most) {}
  unsigned threads() const { return threads_; }
  /// A run with threads() threads is over: its caller worked and waited for so many nanoseconds.
  void ran(int64_t workedNs, int64_t waitedNs);

private:
  // Long enough that a time slice given to another program is seen, and that single runs do not count.
  static constexpr int64_t kWindowNs = 20'000'000;
  static constexpr int64_t kShortestHoldNs = 50'000'000, kLongestHoldNs = 1'600'000'000;
  unsigned most_, threads_;
  int64_t worked_ = 0, waited_ = 0;                   // of this window
  int64_t since_ = 0, hold_ = kShortestHoldNs;        // time of runs since the number last changed; until the next try
};

/// Threads: run() from one thread at a time, which is thread 0 of the team; the others are created once and
/// sleep between runs.
class ThreadTeam {
public:
  /// `threads` >= 1, the caller included. If the system gives fewer, the team is smaller: see size().
  explicit ThreadTeam(unsigned threads);
  ~ThreadTeam();
  ThreadTeam(const ThreadTeam &) = delete;
  ThreadTeam &operator=(const ThreadTeam &) = delete;

  unsigned size() const { return size_; }

  /// Calls work(context, 0) on the caller and work(context, thread) on each other thread as it comes, and returns when all
  /// that came have returned. A thread that comes too late has no part in the run, and one may come twice: on a busy
  /// machine a thread can be off its core for longer than the work takes, and must not be waited for. So the work has to
  /// be such that any of the calls can do all of it: taken piece by piece from a counter. `threads`, 1 to size(): that many
  /// may take part; the others sleep until a run asks for them.
  using Work = void (*)(void *context, unsigned thread);
  void run(Work work, void *context, unsigned threads);
  void run(Work work, void *context) { run(work, context, size_); }

private:
  void threadMain(unsigned thread);
  bool enter();
  void leave();

  static constexpr uint32_t kClosed = 1u << 31;
  // Each word has a cache line of its own: they are written by one side while the other spins on the next.
  alignas(64) std::atomic<uint32_t> epoch_{0};      // bumped to start a run
  alignas(64) std::atomic<uint32_t> gate_{kClosed}; // threads inside the run, and whether others may still come
  alignas(64) std::atomic<uint32_t> invited_{0};    // threads that may take part; 0: not yet any run
  std::atomic<bool> stopping_{false};
  Work work_ = nullptr; // of the run; written while the gate is closed
  void *context_ = nullptr;
  unsigned size_ = 1;
  std::vector<std::thread> threads_;
};

} // namespace g4::device
