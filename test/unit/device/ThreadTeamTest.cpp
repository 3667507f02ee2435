#include "runtime/device/cpu/ThreadTeam.h"
#include "runtime/device/cpu/CpuFeatures.h"

#include <gtest/gtest.h>

#include <chrono>

namespace g4::device {
namespace {

TEST(ThreadTeamTest, EveryThreadWorksOnceARun) {
  for (unsigned threads : {1u, 2u, 5u}) {
    ThreadTeam team(threads);
    ASSERT_EQ(team.size(), threads);
    std::vector<int> calls(threads, 0);
    for (int run = 1; run <= 100; ++run) {
      team.run([](void *context, unsigned thread) { ++(*static_cast<std::vector<int> *>(context))[thread]; },
               &calls);
      EXPECT_EQ(calls, std::vector<int>(threads, run));
    }
  }
}

TEST(ThreadTeamTest, ABarrierShowsWhatOthersWroteBeforeIt) {
  struct Shared {
    ThreadTeam team{4};
    int values[4] = {}; // plain ints: a missing barrier is a data race, which TSan reports
    int wrong[4] = {};
  } shared;
  shared.team.run(
      [](void *context, unsigned thread) {
        auto &s = *static_cast<Shared *>(context);
        for (int round = 1; round <= 500; ++round) {
          s.values[thread] = round;
          s.team.barrier();
          for (int value : s.values)
            s.wrong[thread] += value != round;
          s.team.barrier();
        }
      },
      &shared);
  for (int wrong : shared.wrong)
    EXPECT_EQ(wrong, 0);
}

TEST(ThreadTeamTest, WaitingForASlowThreadSleeps) {
  // One thread works for 100 ms while the other waits: the waiter's processor time must stay far below that.
  struct Shared {
    std::chrono::nanoseconds waited{};
  } shared;
  ThreadTeam team(2);
  team.run(
      [](void *context, unsigned thread) {
        if (thread == 1)
          return std::this_thread::sleep_for(std::chrono::milliseconds(100));
        timespec now;
        clock_gettime(CLOCK_THREAD_CPUTIME_ID, &now);
        static_cast<Shared *>(context)->waited =
            std::chrono::seconds(now.tv_sec) + std::chrono::nanoseconds(now.tv_nsec);
      },
      &shared);
  timespec now;
  clock_gettime(CLOCK_THREAD_CPUTIME_ID, &now);
  const auto after = std::chrono::seconds(now.tv_sec) + std::chrono::nanoseconds(now.tv_nsec);
  EXPECT_LT(after - shared.waited, std::chrono::milliseconds(50));
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
