// A file appears whole or not at all, with unnamed temporary files and without.
#include "runtime/base/AtomicFile.h"

#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <sys/stat.h>
#include <vector>

namespace g4 {
namespace {

class AtomicFileTest : public testing::TestWithParam<bool> {
protected:
  void SetUp() override {
    ASSERT_NE(mkdtemp(folder.data()), nullptr);
    path = folder + "/file";
  }
  void TearDown() override { std::filesystem::remove_all(folder); }
  std::unique_ptr<AtomicFile> create() {
    auto file = AtomicFile::create(path, {.unnamed = GetParam()});
    EXPECT_TRUE(file.ok()) << file.status().message();
    return *std::move(file);
  }
  static std::span<const std::byte> asBytes(std::string_view text) { return std::as_bytes(std::span(text)); }
  std::string content() const {
    std::ifstream stream(path, std::ios::binary);
    return {std::istreambuf_iterator<char>(stream), {}};
  }
  size_t filesInFolder() const {
    return static_cast<size_t>(std::distance(std::filesystem::directory_iterator(folder), {}));
  }

  std::string folder = (std::filesystem::temp_directory_path() / "g4-atomic-XXXXXX").string();
  std::string path;
};
INSTANTIATE_TEST_SUITE_P(Temporary, AtomicFileTest, testing::Bool(),
                         [](const auto &info) { return info.param ? "Unnamed" : "Named"; });

TEST_P(AtomicFileTest, AppearsWholeAtCommit) {
  auto file = create();
  ASSERT_TRUE(file->writeAt(3, asBytes("def")).ok());
  ASSERT_TRUE(file->writeAt(0, asBytes("abc")).ok());
  EXPECT_FALSE(std::filesystem::exists(path));
  ASSERT_TRUE(file->commit().ok());
  EXPECT_EQ(content(), "abcdef");
  file.reset();
  EXPECT_EQ(content(), "abcdef");
  EXPECT_EQ(filesInFolder(), 1u);
}

TEST_P(AtomicFileTest, ReplacesAnOlderFileAtCommit) {
  std::ofstream(path) << "old";
  auto file = create();
  ASSERT_TRUE(file->writeAt(0, asBytes("new")).ok());
  EXPECT_EQ(content(), "old");
  ASSERT_TRUE(file->commit().ok());
  EXPECT_EQ(content(), "new");
  file.reset();
  EXPECT_EQ(filesInFolder(), 1u);
}

TEST_P(AtomicFileTest, LeavesNothingWithoutCommit) {
  auto file = create();
  ASSERT_TRUE(file->writeAt(0, asBytes("abc")).ok());
  file.reset();
  EXPECT_EQ(filesInFolder(), 0u);
}

TEST_P(AtomicFileTest, HasThePermissionsOfAnyNewFile) {
  auto file = create();
  ASSERT_TRUE(file->commit().ok());
  const mode_t mask = umask(0);
  umask(mask);
  struct stat info {};
  ASSERT_EQ(stat(path.c_str(), &info), 0);
  EXPECT_EQ(info.st_mode & 0777, 0666 & ~mask);
}

TEST_P(AtomicFileTest, WritesThroughLinksToWhatIsOrIsNotThere) {
  namespace fs = std::filesystem;
  const std::string target = path;
  fs::create_directory(folder + "/links");
  fs::create_symlink("../file", folder + "/links/relative");
  fs::create_symlink(folder + "/links/relative", folder + "/links/absolute");
  for (const std::string_view text : {"new", "again"}) { // the target is absent, then it is there
    path = folder + "/links/absolute";
    auto file = create();
    ASSERT_TRUE(file->writeAt(0, asBytes(text)).ok());
    ASSERT_TRUE(file->commit().ok());
    EXPECT_TRUE(fs::is_symlink(path) && fs::is_symlink(folder + "/links/relative"));
    EXPECT_TRUE(fs::is_regular_file(fs::symlink_status(target)));
    EXPECT_EQ(content(), text);
    EXPECT_EQ(filesInFolder(), 2u);
  }
}

TEST_P(AtomicFileTest, LinksThatLeadNowhereAreErrors) {
  std::filesystem::create_symlink("file", path);
  const auto circle = AtomicFile::create(path, {.unnamed = GetParam()});
  EXPECT_NE(circle.status().message().find("symbolic links"), std::string::npos) << circle.status().message();
  std::filesystem::remove(path);
  std::filesystem::create_symlink("no/folder", path);
  EXPECT_EQ(AtomicFile::create(path, {.unnamed = GetParam()}).status().code(), Code::kInvalidArgument);
  EXPECT_TRUE(std::filesystem::is_symlink(path));
}

TEST_P(AtomicFileTest, CommitFailsWhenTheFolderIsGone) {
  auto file = create();
  std::filesystem::remove_all(folder);
  EXPECT_FALSE(file->commit().ok());
  EXPECT_FALSE(std::filesystem::exists(folder));
}

} // namespace
} // namespace g4
