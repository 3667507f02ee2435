#include "runtime/device/cpu/SharedObject.h"
#include "runtime/module/StepAbi.h"
#include "test/unit/device/TestFiles.h"

#include <gtest/gtest.h>

#include <filesystem>

namespace g4::device {
namespace {

int answer(const SharedObject &object) {
  int32_t value = 0;
  void *buffers[] = {&value};
  auto *which = reinterpret_cast<module::KernelFn>(object.symbol("which"));
  if (which)
    which(buffers, 0, 1);
  return value;
}

std::unique_ptr<SharedObject> load(const char *path, bool temporary = false) {
  SharedObjectOptions options;
  options.useTemporaryFile = temporary;
  auto object = SharedObject::load(readFile(path), options);
  EXPECT_TRUE(object.ok()) << object.status().message();
  return object.ok() ? *std::move(object) : nullptr;
}

size_t openDescriptors() {
  size_t n = 0;
  for ([[maybe_unused]] const auto &entry : std::filesystem::directory_iterator("/proc/self/fd"))
    ++n;
  return n;
}

TEST(SharedObjectTest, TwoLoadedAtOnceGiveTheirOwnResultsInEitherOrder) {
  for (bool temporary : {false, true}) {
    for (bool swap : {false, true}) {
      auto first = load(swap ? G4_KERNELS_2 : G4_KERNELS_1, temporary);
      auto second = load(swap ? G4_KERNELS_1 : G4_KERNELS_2, temporary);
      ASSERT_TRUE(first && second);
      EXPECT_EQ(answer(*first), swap ? 2 : 1);
      EXPECT_EQ(answer(*second), swap ? 1 : 2);
    }
  }
}

TEST(SharedObjectTest, OneLoadedAfterAnotherWasUnloadedIsNotTheOldOne) {
  // The second gets the first's descriptor number: the trap that a closed descriptor would fall into.
  for (int round = 0; round < 4; ++round) {
    auto object = load(round % 2 ? G4_KERNELS_2 : G4_KERNELS_1);
    ASSERT_TRUE(object);
    EXPECT_EQ(answer(*object), round % 2 ? 2 : 1);
  }
}

TEST(SharedObjectTest, UnloadingLeavesNoDescriptor) {
  load(G4_KERNELS_1);
  const size_t before = openDescriptors();
  for (int i = 0; i < 5; ++i)
    load(i % 2 ? G4_KERNELS_2 : G4_KERNELS_1, i % 3 == 0);
  EXPECT_EQ(openDescriptors(), before);
}

TEST(SharedObjectTest, AMissingSymbolIsNull) {
  auto object = load(G4_KERNELS_1);
  ASSERT_TRUE(object);
  EXPECT_EQ(object->symbol("no_such_kernel"), nullptr);
}

TEST(SharedObjectTest, BytesThatAreNoObjectAreRefused) {
  const std::vector<std::byte> junk(4096, std::byte('x'));
  auto object = SharedObject::load(junk);
  ASSERT_FALSE(object.ok());
  EXPECT_EQ(object.status().code(), Code::kIncompatible);
}

TEST(SharedObjectTest, AFolderThatIsNotThereIsAnError) {
  auto object = SharedObject::load(readFile(G4_KERNELS_1), {true, "/no/such/folder"});
  ASSERT_FALSE(object.ok());
  EXPECT_EQ(object.status().code(), Code::kResourceExhausted);
}

} // namespace
} // namespace g4::device
