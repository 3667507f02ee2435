#include "tools/g4run/Taps.h"
#include "tools/common/Npy.h"

#include <gtest/gtest.h>

#include <filesystem>
#include <unistd.h>

namespace g4::tool {
namespace {

class TapsTest : public testing::Test {
protected:
  TapsTest()
      : folder(std::filesystem::temp_directory_path() / ("g4-taps-test-" + std::to_string(getpid()))) {}
  ~TapsTest() override { std::filesystem::remove_all(folder); }
  /// Rows of two columns, three elements from row to row.
  static api::TapView view(std::string_view name, const std::vector<int32_t> &data, uint32_t columns = 2) {
    return {name,
            0,
            api::TapView::Type::kI32,
            api::TapView::Set::kRows,
            uint32_t(data.size() / 3),
            columns,
            12,
            reinterpret_cast<const std::byte *>(data.data())};
  }
  std::filesystem::path folder;
};

TEST_F(TapsTest, RowsOfSeveralStepsAreJoinedWithoutGaps) {
  TapFiles taps;
  ASSERT_TRUE(taps.add(view("idx", {1, 2, -1, 3, 4, -1})).ok());
  ASSERT_TRUE(taps.add(view("idx", {5, 6, -1})).ok());
  ASSERT_TRUE(taps.write(folder / "new").ok());
  auto array = readNpyInts(folder / "new" / "idx.npy");
  ASSERT_TRUE(array.ok()) << array.status().message();
  EXPECT_EQ(array->shape, (std::vector<uint64_t>{3, 2}));
  EXPECT_EQ(array->values, (std::vector<int32_t>{1, 2, 3, 4, 5, 6}));
}

TEST_F(TapsTest, NamesCannotLeaveTheFolder) {
  TapFiles taps;
  ASSERT_TRUE(taps.add(view("../../evil/x", {1, 2, 3})).ok());
  ASSERT_TRUE(taps.write(folder).ok());
  EXPECT_TRUE(std::filesystem::exists(folder / "______evil_x.npy"));
}

TEST_F(TapsTest, OneNameForTwoShapesIsAnError) {
  TapFiles taps;
  ASSERT_TRUE(taps.add(view("a", {1, 2, 3})).ok());
  EXPECT_EQ(taps.add(view("a", {1, 2, 3}, 3)).code(), Code::kInvalidArgument);
}

TEST_F(TapsTest, AFolderThatCannotBeMadeIsAnError) {
  TapFiles taps;
  EXPECT_EQ(taps.write("/proc/no-such-folder").code(), Code::kInvalidArgument);
}

} // namespace
} // namespace g4::tool
