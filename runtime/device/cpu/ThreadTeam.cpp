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
  stopping_.store(true, std::memory_order_release);
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
  gate_.store(0, std::memory_order_release); // nobody is inside
  epoch_.fetch_add(1, std::memory_order_release);
  epoch_.notify_all();
  work(context, 0);
  for (uint32_t inside = gate_.fetch_or(kClosed, std::memory_order_acq_rel) | kClosed; inside != kClosed;
       inside = gate_.load(std::memory_order_acquire))
    spinThenPark(gate_, inside);
}

bool ThreadTeam::enter() {
  uint32_t inside = gate_.load(std::memory_order_relaxed);
  do {
    if (inside & kClosed)
      return false;
  } while (!gate_.compare_exchange_weak(inside, inside + 1, std::memory_order_acquire, std::memory_order_relaxed));
  return true;
}

void ThreadTeam::leave() {
  if (gate_.fetch_sub(1, std::memory_order_acq_rel) & kClosed)
    gate_.notify_one();
}

void ThreadTeam::threadMain(unsigned thread) {
  for (uint32_t seen = 0;;) {
    spinThenPark(epoch_, seen);
    seen = epoch_.load(std::memory_order_acquire);
    if (stopping_.load(std::memory_order_acquire))
      return;
    if (enter()) {
      work_(context_, thread);
      leave();
    }
  }
}

} // namespace g4::device
