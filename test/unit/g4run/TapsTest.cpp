#include "tools/g4run/Taps.h"
#include "tools/common/Npy.h"

#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
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

TEST_F(TapsTest, NoInputIsReplaced) {
  std::filesystem::create_directories(folder);
  std::ofstream(folder / "a.npy") << "model";
  FileUses uses{folder / "a.npy"};
  TapFiles taps(folder, uses);
  ASSERT_TRUE(taps.add(view("0", {1, 2, 3})).ok()); // the first file
  ASSERT_TRUE(taps.add(view("a", {1, 2, 3})).ok());
  EXPECT_NE(taps.write().message().find("is the input"), std::string::npos);
  EXPECT_EQ(std::filesystem::file_size(folder / "a.npy"), 5u);
  EXPECT_FALSE(std::filesystem::exists(folder / "0.npy"));
}

TEST_F(TapsTest, NamesThatAreOneFileAreAnError) {
  FileUses uses;
  TapFiles taps(folder, uses);
  ASSERT_TRUE(taps.add(view("a.b", {1, 2, 3})).ok());
  ASSERT_TRUE(taps.add(view("a/b", {1, 2, 3})).ok());
  EXPECT_EQ(taps.write().code(), Code::kInvalidArgument);
}

TEST_F(TapsTest, RowsOfSeveralStepsAreJoinedWithoutGaps) {
  FileUses uses;
  TapFiles taps(folder / "new", uses);
  ASSERT_TRUE(taps.add(view("idx", {1, 2, -1, 3, 4, -1})).ok());
  ASSERT_TRUE(taps.add(view("idx", {5, 6, -1})).ok());
  ASSERT_TRUE(taps.write().ok());
  auto array = readNpyInts(folder / "new" / "idx.npy");
  ASSERT_TRUE(array.ok()) << array.status().message();
  EXPECT_EQ(array->shape, (std::vector<uint64_t>{3, 2}));
  EXPECT_EQ(array->values, (std::vector<int32_t>{1, 2, 3, 4, 5, 6}));
}

TEST_F(TapsTest, NamesCannotLeaveTheFolder) {
  FileUses uses;
  TapFiles taps(folder / "new", uses);
  ASSERT_TRUE(taps.add(view("../../evil/x", {1, 2, 3})).ok());
  ASSERT_TRUE(taps.write().ok());
  EXPECT_TRUE(std::filesystem::exists(folder / "new" / "______evil_x.npy"));
}

TEST_F(TapsTest, OneNameForTwoShapesIsAnError) {
  FileUses uses;
  TapFiles taps(folder / "new", uses);
  ASSERT_TRUE(taps.add(view("a", {1, 2, 3})).ok());
  EXPECT_EQ(taps.add(view("a", {1, 2, 3}, 3)).code(), Code::kInvalidArgument);
}

TEST_F(TapsTest, AFolderThatCannotBeMadeIsAnError) {
  FileUses uses;
  TapFiles taps("/proc/no-such-folder", uses);
  EXPECT_EQ(taps.add(view("a", {1, 2, 3})).code(), Code::kInvalidArgument);
}

} // namespace
} // namespace g4::tool
