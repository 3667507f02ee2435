#include "runtime/device/cpu/CpuDevice.h"
#include "test/unit/device/TestFiles.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstdio>
#include <fstream>

namespace g4::device {
namespace {

const std::vector<std::string> kKernels = {"which", "count", "reverse"};
enum : uint32_t { kWhich, kCount, kReverse };

class CpuDeviceTest : public testing::TestWithParam<unsigned> {
protected:
  void SetUp() override {
    device = createCpuDevice({GetParam(), {}});
    auto loaded = device->loadCode(readFile(G4_KERNELS_1), kKernels);
    ASSERT_TRUE(loaded.ok()) << loaded.status().message();
    code = *std::move(loaded);
  }
  std::unique_ptr<Device> device;
  std::unique_ptr<Executable> code;
};

TEST_P(CpuDeviceTest, EveryItemIsDoneOnce) {
  for (int64_t items : {1, 2, 7, 64, 1000}) {
    std::vector<int32_t> out(size_t(items) + 1, 0);
    void *buffers[] = {out.data()};
    const Launch launches[] = {{kCount, buffers, items, false}};
    ASSERT_TRUE(device->run(*code, launches).ok());
    EXPECT_EQ(std::count(out.begin(), out.end() - 1, 1), items);
    EXPECT_EQ(out.back(), 0);
  }
}

TEST_P(CpuDeviceTest, ABarrierOrdersDependentLaunches) {
  constexpr int64_t kItems = 257;
  std::vector<int32_t> a(kItems), b(kItems);
  for (int64_t i = 0; i < kItems; ++i)
    a[size_t(i)] = int32_t(i);
  int64_t items = kItems;
  void *forth[] = {a.data(), b.data(), &items}, *back[] = {b.data(), a.data(), &items};
  std::vector<Launch> launches;
  for (int i = 0; i < 50; ++i) {
    launches.push_back({kReverse, forth, kItems, true});
    launches.push_back({kReverse, back, kItems, true});
  }
  ASSERT_TRUE(device->run(*code, launches).ok());
  for (int64_t i = 0; i < kItems; ++i)
    ASSERT_EQ(a[size_t(i)], i + 100);
  EXPECT_EQ(device->counters().launches, 100u);
  EXPECT_EQ(device->counters().barriers, 99u); // none is needed before the first
}

TEST_P(CpuDeviceTest, EmptyLaunchesCostNoBarrier) {
  std::vector<int32_t> out(8, 0);
  void *buffers[] = {out.data()};
  const Launch launches[] = {{kCount, buffers, 0, true},  {kCount, buffers, 8, true},
                             {kCount, buffers, 0, true},  {kCount, buffers, 0, true},
                             {kCount, buffers, 8, false}, {kCount, buffers, 0, true}};
  ASSERT_TRUE(device->run(*code, launches).ok());
  EXPECT_EQ(out, std::vector<int32_t>(8, 2));
  EXPECT_EQ(device->counters().launches, 2u);
  EXPECT_EQ(device->counters().barriers, 1u); // the empty launches' barriers fall together before the second
}

TEST_P(CpuDeviceTest, ATraceHasEveryLaunchWithWorkInOrder) {
  std::vector<int32_t> out(64, 0);
  void *buffers[] = {out.data()};
  const Launch launches[] = {
      {kCount, buffers, 64, false}, {kCount, buffers, 0, true}, {kCount, buffers, 64, true}};
  std::vector<LaunchSpan> spans;
  device->trace(&spans);
  ASSERT_TRUE(device->run(*code, launches).ok());
  EXPECT_EQ(out, std::vector<int32_t>(64, 2));
  ASSERT_GE(spans.size(), 2u);
  EXPECT_EQ(spans.front().launch, 0u);
  EXPECT_EQ(spans.back().launch, 2u);
  for (const LaunchSpan &span : spans) {
    EXPECT_NE(span.launch, 1u);
    EXPECT_LT(span.thread, device->threadCount());
    EXPECT_GT(span.beginNs, 0);
    EXPECT_LE(span.beginNs, span.endNs);
    for (const LaunchSpan &other : spans) // the barrier between them
      if (span.launch < other.launch) {
        EXPECT_LE(span.endNs, other.beginNs);
      }
  }
  const size_t before = spans.size();
  device->trace(nullptr);
  ASSERT_TRUE(device->run(*code, launches).ok());
  EXPECT_EQ(spans.size(), before);
}

TEST_P(CpuDeviceTest, ARunWithoutWorkIsFine) {
  ASSERT_TRUE(device->run(*code, {}).ok());
  EXPECT_EQ(device->counters().barriers, 0u);
}

TEST_P(CpuDeviceTest, AnUnknownKernelRunsNothing) {
  std::vector<int32_t> out(4, 0);
  void *buffers[] = {out.data()};
  const Launch launches[] = {{kCount, buffers, 4, false}, {9, buffers, 1, false}};
  EXPECT_EQ(device->run(*code, launches).code(), Code::kInvalidArgument);
  EXPECT_EQ(out, std::vector<int32_t>(4, 0));
}

TEST_P(CpuDeviceTest, TwoCodesOnOneDeviceStayApart) {
  auto other = device->loadCode(readFile(G4_KERNELS_2), kKernels);
  ASSERT_TRUE(other.ok());
  int32_t value = 0;
  void *buffers[] = {&value};
  const Launch launches[] = {{kWhich, buffers, 1, false}};
  ASSERT_TRUE(device->run(*code, launches).ok());
  EXPECT_EQ(value, 1);
  ASSERT_TRUE(device->run(**other, launches).ok());
  EXPECT_EQ(value, 2);
  ASSERT_TRUE(device->run(*code, launches).ok());
  EXPECT_EQ(value, 1);
}

TEST_P(CpuDeviceTest, AMissingKernelIsNamed) {
  const std::vector<std::string> names = {"which", "matvec_q4_0"};
  auto loaded = device->loadCode(readFile(G4_KERNELS_1), names);
  ASSERT_FALSE(loaded.ok());
  EXPECT_EQ(loaded.status().code(), Code::kDataLoss);
  EXPECT_NE(loaded.status().message().find("matvec_q4_0"), std::string::npos);
}

TEST_P(CpuDeviceTest, MemoryIsZeroAndItsAbsenceAStatus) {
  auto memory = device->allocate(1 << 20, Pages::kSmall);
  ASSERT_TRUE(memory.ok());
  EXPECT_EQ((*memory)->size(), size_t(1 << 20));
  EXPECT_TRUE(std::all_of((*memory)->data(), (*memory)->data() + 4096,
                          [](std::byte b) { return b == std::byte(0); }));
  for (Pages pages : {Pages::kSmall, Pages::kLarge}) {
    auto empty = device->allocate(0, pages);
    ASSERT_TRUE(empty.ok());
    EXPECT_EQ((*empty)->size(), 0u);
    for (size_t tooMuch : {size_t(1) << 62, SIZE_MAX - 4096}) {
      auto none = device->allocate(tooMuch, pages);
      ASSERT_FALSE(none.ok());
      EXPECT_EQ(none.status().code(), Code::kResourceExhausted);
    }
  }
}

/// Whether the mapping that this address lies in was given the advice MADV_HUGEPAGE.
bool isAdvised(const void *address) {
  std::ifstream maps("/proc/self/smaps");
  bool here = false;
  for (std::string line; std::getline(maps, line);) {
    size_t begin = 0, end = 0;
    if (std::sscanf(line.c_str(), "%zx-%zx ", &begin, &end) == 2)
      here = uintptr_t(address) >= begin && uintptr_t(address) < end;
    else if (here && line.starts_with("VmFlags:"))
      return line.find(" hg") != std::string::npos;
  }
  return false;
}

TEST_P(CpuDeviceTest, LargePagesAreAlignedAndAskedForWhereABlockHoldsOne) {
  constexpr size_t kLarge = size_t(2) << 20;
  const bool exist = std::ifstream("/sys/kernel/mm/transparent_hugepage/enabled").good();
  std::vector<std::unique_ptr<Memory>> blocks;
  for (size_t bytes : {kLarge, kLarge + 1, 5 * kLarge - 4096}) {
    auto memory = device->allocate(bytes, Pages::kLarge);
    ASSERT_TRUE(memory.ok()) << memory.status().message();
    std::byte *data = (*memory)->data();
    EXPECT_EQ((*memory)->size(), bytes);
    EXPECT_EQ(uintptr_t(data) % kLarge, 0u);
    EXPECT_EQ(isAdvised(data), exist);
    EXPECT_EQ(isAdvised(data + bytes - 1), exist);
    EXPECT_TRUE(std::all_of(data, data + bytes, [](std::byte b) { return b == std::byte(0); }));
    std::fill_n(data, bytes, std::byte(1));
    blocks.push_back(*std::move(memory));
  }
  EXPECT_FALSE(isAdvised((*device->allocate(kLarge - 1, Pages::kLarge))->data()));
  EXPECT_FALSE(isAdvised((*device->allocate(kLarge, Pages::kSmall))->data()));
}

INSTANTIATE_TEST_SUITE_P(Threads, CpuDeviceTest, testing::Values(1u, 2u, 4u, 16u));

} // namespace
} // namespace g4::device
