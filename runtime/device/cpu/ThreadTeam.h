/// A fixed set of threads that run one function together.
#pragma once

#include <atomic>
#include <cstdint>
#include <thread>
#include <vector>

namespace g4::device {

/// Waits for a word to change: spins for some microseconds, since the others are usually about to arrive,
/// then sleeps in the kernel, so that a machine with more threads than cores does not burn time slices.
/// `seen` is the value to wait away from.
void spinThenPark(const std::atomic<uint32_t> &word, uint32_t seen);

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
  /// be such that any of the calls can do all of it: taken piece by piece from a counter.
  using Work = void (*)(void *context, unsigned thread);
  void run(Work work, void *context);

private:
  void threadMain(unsigned thread);
  bool enter();
  void leave();

  static constexpr uint32_t kClosed = 1u << 31;
  // Each word has a cache line of its own: they are written by one side while the other spins on the next.
  alignas(64) std::atomic<uint32_t> epoch_{0};      // bumped to start a run
  alignas(64) std::atomic<uint32_t> gate_{kClosed}; // threads inside the run, and whether others may still come
  alignas(64) std::atomic<bool> stopping_{false};
  Work work_ = nullptr; // of the run; written while the gate is closed
  void *context_ = nullptr;
  unsigned size_ = 1;
  std::vector<std::thread> threads_;
};

} // namespace g4::device
