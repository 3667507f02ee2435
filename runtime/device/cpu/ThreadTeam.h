/// A fixed set of threads that run one function together, with barriers inside it.
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

  /// Calls work(context, thread) once on every thread of the team and returns when all have returned.
  using Work = void (*)(void *context, unsigned thread);
  void run(Work work, void *context);

  /// Inside a run: returns once every thread of the team has called it. What was written before it is seen
  /// after it by all.
  void barrier();

private:
  void threadMain(unsigned thread);

  // Each word has a cache line of its own: they are written by one side while the other spins on the next.
  alignas(64) std::atomic<uint32_t> epoch_{0};      // bumped to start a run
  alignas(64) std::atomic<uint32_t> arrived_{0};    // threads at the barrier
  alignas(64) std::atomic<uint32_t> generation_{0}; // bumped by the last to arrive
  alignas(64) Work work_ = nullptr;                 // null: end the thread
  void *context_ = nullptr;
  unsigned size_ = 1;
  std::vector<std::thread> threads_;
};

} // namespace g4::device
