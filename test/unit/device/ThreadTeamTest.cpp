#include "runtime/device/cpu/ThreadTeam.h"
#include "runtime/device/cpu/CpuFeatures.h"

#include <gtest/gtest.h>

#include <atomic>
#include <chrono>
#include <thread>
#include <vector>

namespace g4::device {
namespace {

TEST(ThreadTeamTest, TheCallerWorksOnceARunAndNobodyAfterIt) {
  for (unsigned threads : {1u, 2u, 5u}) {
    ThreadTeam team(threads);
    ASSERT_EQ(team.size(), threads);
    struct Shared {
      std::vector<int> calls; // plain ints: a thread that works after the run's end is a data race, which TSan reports
      std::atomic<int> inside{0}, wrong{0};
    } shared;
    shared.calls.assign(threads, 0);
    for (int run = 1; run <= 2000; ++run) {
      team.run(
          [](void *context, unsigned thread) {
            auto &s = *static_cast<Shared *>(context);
            s.inside++;
            s.wrong += thread >= s.calls.size();
            ++s.calls[thread];
            s.inside--;
          },
          &shared);
      ASSERT_EQ(shared.calls[0], run);
      ASSERT_EQ(shared.inside, 0);
      for (int &calls : shared.calls)
        calls += 0; // read and written by the caller between runs
    }
    EXPECT_EQ(shared.wrong, 0);
  }
}

TEST(ThreadTeamTest, OthersComeWhileThereIsWork) {
  ThreadTeam team(3);
  std::atomic<unsigned> here{0}; // a bit for each thread
  team.run(
      [](void *context, unsigned thread) {
        auto &bits = *static_cast<std::atomic<unsigned> *>(context);
        bits |= 1u << thread;
        while (bits != 7) // as long as this takes: each is waited for by the work itself
          std::this_thread::yield();
      },
      &here);
  EXPECT_EQ(here, 7u);
}

TEST(ThreadTeamTest, WaitingForASlowThreadSleeps) {
  // One thread works for 100 ms while the caller waits: its processor time must stay far below that.
  struct Shared {
    std::atomic<bool> here{false};
    std::chrono::nanoseconds waited{};
    static std::chrono::nanoseconds now() {
      timespec now;
      clock_gettime(CLOCK_THREAD_CPUTIME_ID, &now);
      return std::chrono::seconds(now.tv_sec) + std::chrono::nanoseconds(now.tv_nsec);
    }
  } shared;
  ThreadTeam team(2);
  team.run(
      [](void *context, unsigned thread) {
        auto &s = *static_cast<Shared *>(context);
        if (thread == 1) {
          s.here = true;
          return std::this_thread::sleep_for(std::chrono::milliseconds(100));
        }
        while (!s.here)
          std::this_thread::yield();
        s.waited = Shared::now();
      },
      &shared);
  EXPECT_LT(Shared::now() - shared.waited, std::chrono::milliseconds(50));
}

TEST(CpuFeaturesTest, ThisMachineHasACore) { EXPECT_GE(usableCores(), 1u); }

#if defined(__x86_64__)
TEST(CpuFeaturesTest, AgreesWithTheCompilersRuntime) {
  const std::vector<std::string> features = cpuFeatures();
  auto have = [&](const char *name) {
    return std::find(features.begin(), features.end(), name) != features.end();
  };
  EXPECT_EQ(have("avx2"), bool(__builtin_cpu_supports("avx2")));
  EXPECT_EQ(have("fma"), bool(__builtin_cpu_supports("fma")));
  EXPECT_EQ(have("bmi2"), bool(__builtin_cpu_supports("bmi2")));
  EXPECT_EQ(have("avx512f"), bool(__builtin_cpu_supports("avx512f")));
  EXPECT_EQ(have("avx512bw"), bool(__builtin_cpu_supports("avx512bw")));
  EXPECT_EQ(have("avx512vl"), bool(__builtin_cpu_supports("avx512vl")));
  EXPECT_EQ(have("avx512vnni"), bool(__builtin_cpu_supports("avx512vnni")));
}
#endif

} // namespace
} // namespace g4::device
