#include "runtime/device/cpu/ThreadTeam.h"

#include <algorithm>
#include <system_error>

#if defined(__x86_64__)
#include <immintrin.h>
#endif

namespace g4::device {
namespace {

// About 100 to 400 us at 40 to 140 cycles a pause: several times what threads wait for each other's last item in a decode
// step, and for the sampling between two steps; waking a parked thread costs 50 us. Much shorter than a time slice.
constexpr int kSpins = 8000;

void relax() {
#if defined(__x86_64__)
  _mm_pause();
#elif defined(__aarch64__)
  __asm__ volatile("yield");
#endif
}

} // namespace

void spinThenPark(const std::atomic<uint32_t> &word, uint32_t seen) {
  for (int i = 0; i < kSpins; ++i) {
    if (word.load(std::memory_order_acquire) != seen)
      return;
    relax();
  }
  while (word.load(std::memory_order_acquire) == seen)
    word.wait(seen, std::memory_order_acquire);
}

ThreadTeam::ThreadTeam(unsigned threads) {
  size_ = std::max(threads, 1u);
  threads_.reserve(size_ - 1);
  try {
    for (unsigned i = 1; i < size_; ++i)
      threads_.emplace_back([this, i] { threadMain(i); });
  } catch (const std::system_error &) {
    // A thread limit: work with what there is. Threads read size_ only after the first epoch.
    size_ = unsigned(threads_.size()) + 1;
  }
}

ThreadTeam::~ThreadTeam() {
  work_ = nullptr;
  epoch_.fetch_add(1, std::memory_order_release);
  epoch_.notify_all();
  for (std::thread &thread : threads_)
    thread.join();
}

void ThreadTeam::run(Work work, void *context) {
  if (size_ == 1)
    return work(context, 0);
  work_ = work;
  context_ = context;
  epoch_.fetch_add(1, std::memory_order_release);
  epoch_.notify_all();
  work(context, 0);
  barrier();
}

void ThreadTeam::barrier() {
  if (size_ == 1)
    return;
  const uint32_t generation = generation_.load(std::memory_order_relaxed);
  if (arrived_.fetch_add(1, std::memory_order_acq_rel) + 1 == size_) {
    arrived_.store(0, std::memory_order_relaxed);
    generation_.store(generation + 1, std::memory_order_release);
    generation_.notify_all();
    return;
  }
  spinThenPark(generation_, generation);
}

void ThreadTeam::threadMain(unsigned thread) {
  for (uint32_t seen = 0;; ++seen) {
    spinThenPark(epoch_, seen);
    if (!work_)
      return;
    work_(context_, thread);
    barrier();
  }
}

} // namespace g4::device
