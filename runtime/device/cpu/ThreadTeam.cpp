#include "runtime/device/cpu/ThreadTeam.h"

#include <algorithm>
#include <chrono>
#include <system_error>
#include <utility>

#if defined(__x86_64__)
#include <immintrin.h>
#endif

namespace g4::device {
namespace {

using Clock = std::chrono::steady_clock;
// Several times what threads wait for each other's last item in a decode step, and for the sampling between two steps; waking
// a parked thread costs 50 us. Much shorter than a time slice.
constexpr std::chrono::microseconds kSpin(200);
// So long between two looks at the clock: the core went to another thread, and is better left to it than spun on. Yielding
// instead would cost this thread its place in the queue, which the others then wait for.
constexpr std::chrono::microseconds kCoreIsWanted(50);
// Pauses between two looks at the clock: one to three microseconds.
constexpr int kPauses = 64;

void relax() {
#if defined(__x86_64__)
  _mm_pause();
#elif defined(__aarch64__)
  __asm__ volatile("yield");
#endif
}

} // namespace

void spinThenPark(const std::atomic<uint32_t> &word, uint32_t seen) {
  const Clock::time_point begin = Clock::now();
  for (Clock::time_point now = begin, last; now - begin < kSpin;) {
    for (int i = 0; i < kPauses; ++i) {
      if (word.load(std::memory_order_acquire) != seen)
        return;
      relax();
    }
    last = std::exchange(now, Clock::now());
    if (now - last > kCoreIsWanted)
      break;
  }
  while (word.load(std::memory_order_acquire) == seen)
    word.wait(seen, std::memory_order_acquire);
}

void TeamSize::ran(int64_t workedNs, int64_t waitedNs) {
  worked_ += workedNs;
  waited_ += waitedNs;
  const int64_t window = worked_ + waited_;
  if (window < kWindowNs)
    return;
  const bool tooMany = waited_ > worked_ && threads_ > 1;
  worked_ = waited_ = 0;
  since_ = tooMany ? 0 : since_ + window;
  if (tooMany) {
    threads_ /= 2;
    hold_ = std::min(4 * hold_, kLongestHoldNs);
  } else if (since_ >= hold_) {
    threads_ = std::min(2 * threads_, most_);
    hold_ = std::max(hold_ / 2, kShortestHoldNs); // half as long to the next step up, and twice as long after a step down
    since_ = 0;
  }
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
  invited_.store(UINT32_MAX, std::memory_order_release);
  invited_.notify_all();
  epoch_.fetch_add(1, std::memory_order_release);
  epoch_.notify_all();
  for (std::thread &thread : threads_)
    thread.join();
}

void ThreadTeam::run(Work work, void *context, unsigned threads) {
  if (threads == 1)
    return work(context, 0);
  if (invited_.load(std::memory_order_relaxed) != threads) {
    invited_.store(threads, std::memory_order_release);
    invited_.notify_all();
  }
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
    if (uint32_t invited = invited_.load(std::memory_order_acquire); thread >= invited) {
      invited_.wait(invited, std::memory_order_acquire); // not for the next run, which may come without this thread too
      continue;
    }
    if (enter()) {
      work_(context_, thread);
      leave();
    }
  }
}

} // namespace g4::device
