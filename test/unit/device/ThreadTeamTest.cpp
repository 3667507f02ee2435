#include "runtime/device/cpu/ThreadTeam.h"
#include "runtime/device/cpu/CpuFeatures.h"

#include <gtest/gtest.h>

#include <atomic>
#include <chrono>
#include <filesystem>
#include <fstream>
#include <numeric>
#include <thread>
#include <unistd.h>
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

TEST(ThreadTeamTest, ARunForFewerLeavesTheOthersAsleep) {
  ThreadTeam team(3);
  for (unsigned threads : {2u, 3u, 2u, 1u, 3u}) {
    struct Shared {
      unsigned all;
      std::atomic<unsigned> here{0};
    } shared{(1u << threads) - 1};
    team.run(
        [](void *context, unsigned thread) {
          auto &s = *static_cast<Shared *>(context);
          s.here |= 1u << thread;
          while (s.here < s.all)
            std::this_thread::yield();
        },
        &shared, threads);
    EXPECT_EQ(shared.here, shared.all);
  }
}

constexpr int64_t kMs = 1'000'000;

TEST(TeamSizeTest, AllThreadsWorkWhileTheCallerWaitsForLessThanItWorks) {
  TeamSize size(8);
  for (int run = 0; run < 1000; ++run) {
    size.ran(10 * kMs, 9 * kMs);
    ASSERT_EQ(size.threads(), 8u);
  }
}

TEST(TeamSizeTest, OneSlowRunAmongManyChangesNothing) {
  TeamSize size(2);
  for (int run = 0; run < 1000; ++run) {
    size.ran(kMs, run % 50 == 5 ? 8 * kMs : 0);
    ASSERT_EQ(size.threads(), 2u);
  }
}

TEST(TeamSizeTest, WaitingForLongerThanWorkingHalvesTheTeam) {
  TeamSize size(8);
  for (unsigned want : {4u, 2u, 1u, 1u}) {
    size.ran(10 * kMs, 11 * kMs);
    EXPECT_EQ(size.threads(), want);
  }
}

TEST(TeamSizeTest, TriesGrowRareWhileTheCoresAreTaken) {
  TeamSize size(2);
  int tries = 0;
  for (int run = 0; run < 10000; ++run) { // 10 s of work, and 4 ms of waiting for each that the second thread was to share
    bool two = size.threads() == 2;
    tries += two;
    size.ran(kMs, two ? 4 * kMs : 0);
  }
  EXPECT_GE(tries, 20);  // it goes on trying
  EXPECT_LE(tries, 100); // windows of 4 runs, at most some 10 of them
}

TEST(TeamSizeTest, AllThreadsComeBackWhenTheCoresAreFree) {
  TeamSize size(64);
  for (int run = 0; run < 10000; ++run)
    size.ran(kMs, size.threads() > 1 ? 4 * kMs : 0);
  int64_t alone = 0;
  for (; size.threads() < 64; alone += kMs)
    size.ran(kMs, 0);
  EXPECT_LE(alone, 5000 * kMs);
  EXPECT_GE(alone, 100 * kMs);
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

class UsableCoresTest : public testing::Test {
protected:
  /// 64 hardware threads of 32 cores: 0 and 32 are one core's, 1 and 33 the next one's.
  void SetUp() override {
    root = testing::TempDir() + "g4-cores-" + std::to_string(getpid());
    for (int cpu = 0; cpu < 64; ++cpu)
      write("cpu/cpu" + std::to_string(cpu) + "/topology/thread_siblings_list",
            std::to_string(cpu % 32) + "," + std::to_string(cpu % 32 + 32));
  }
  void TearDown() override { std::filesystem::remove_all(root); }
  void write(const std::string &name, const std::string &text) {
    const std::filesystem::path path = root / name;
    std::filesystem::create_directories(path.parent_path());
    std::ofstream(path) << text << '\n';
  }
  unsigned cores() {
    std::vector<int> all(64);
    std::iota(all.begin(), all.end(), 0);
    return cores(all);
  }
  unsigned cores(const std::vector<int> &processors) {
    return usableCores(processors, {root / "proc", root / "cgroup", root / "cpu"});
  }
  std::filesystem::path root;
};

TEST_F(UsableCoresTest, CoresCountOnceHoweverManyHardwareThreads) {
  EXPECT_EQ(cores(), 32u);
  EXPECT_EQ(cores({3, 35, 4}), 2u);
  EXPECT_EQ(cores({33}), 1u);
  EXPECT_EQ(cores({100, 101}), 2u); // unknown topology: each a core
  EXPECT_EQ(cores(std::vector<int>()), 1u);
}

TEST_F(UsableCoresTest, AContainersQuotaIsTheLimit) {
  write("proc/cgroup", "0::/"); // a namespace of its own: the container is the root
  for (auto [quota, want] : std::vector<std::pair<std::string, unsigned>>{{"max 100000", 32},
                                                                          {"200000 100000", 2},
                                                                          {"240000 100000", 2},
                                                                          {"250000 100000", 3},
                                                                          {"10000 100000", 1},
                                                                          {"9999999 100000", 32},
                                                                          {"", 32},
                                                                          {"-5 0", 32}}) {
    write("cgroup/cpu.max", quota);
    EXPECT_EQ(cores(), want) << quota;
  }
}

TEST_F(UsableCoresTest, AQuotaHoldsForTheGroupsWithin) {
  write("proc/cgroup", "0::/user.slice/app.scope");
  write("cgroup/user.slice/app.scope/cpu.max", "max 100000");
  EXPECT_EQ(cores(), 32u);
  write("cgroup/user.slice/cpu.max", "400000 100000");
  EXPECT_EQ(cores(), 4u);
  write("cgroup/user.slice/app.scope/cpu.max", "300000 100000");
  EXPECT_EQ(cores(), 3u);
}

TEST_F(UsableCoresTest, VersionOneGroupsAreRead) {
  write("proc/cgroup", "5:memory:/a\n4:cpu,cpuacct:/docker/0123\n1:name=systemd:/b\n0::/");
  write("cgroup/cpu,cpuacct/docker/0123/cpu.cfs_quota_us", "-1");
  write("cgroup/cpu,cpuacct/docker/0123/cpu.cfs_period_us", "100000");
  EXPECT_EQ(cores(), 32u);
  write("cgroup/cpu,cpuacct/docker/0123/cpu.cfs_quota_us", "600000");
  EXPECT_EQ(cores(), 6u);
  // In a container the path is the host's, and what is mounted is the container's group.
  std::filesystem::remove_all(root / "cgroup/cpu,cpuacct/docker");
  write("cgroup/cpu,cpuacct/cpu.cfs_quota_us", "150000");
  write("cgroup/cpu,cpuacct/cpu.cfs_period_us", "50000");
  EXPECT_EQ(cores(), 3u);
}

TEST_F(UsableCoresTest, OddLinesAreNoLimit) {
  write("proc/cgroup", "\n:\n0:\n0::\nx:cpu:/../../..\n0::/../..");
  EXPECT_EQ(cores(), 32u);
}

TEST_F(UsableCoresTest, MemoryIsThatOfTheGroupsToo) {
  const auto memory = [&] { return usableMemory(64000, {root / "proc", root / "cgroup", root / "cpu"}); };
  EXPECT_EQ(memory(), 64000u);
  write("proc/cgroup", "0::/user.slice/app.scope");
  write("cgroup/user.slice/app.scope/memory.max", "max");
  EXPECT_EQ(memory(), 64000u);
  write("cgroup/user.slice/memory.max", "4000");
  EXPECT_EQ(memory(), 4000u);
  write("proc/cgroup", "5:memory:/docker/0123");
  EXPECT_EQ(memory(), 64000u);
  write("cgroup/memory/docker/0123/memory.limit_in_bytes", "9223372036854771712");
  EXPECT_EQ(memory(), 64000u);
  write("cgroup/memory/memory.limit_in_bytes", "3000");
  EXPECT_EQ(memory(), 3000u);
  EXPECT_GT(usableMemory(), uint64_t(1) << 20);
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
