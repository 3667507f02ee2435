#include "tools/common/Npy.h"

#include <gtest/gtest.h>

#include <fcntl.h>
#include <filesystem>
#include <fstream>
#include <sys/stat.h>
#include <unistd.h>

namespace g4::tool {
namespace {

class NpyTest : public testing::Test {
protected:
  NpyTest() : path(std::filesystem::temp_directory_path() / ("g4-npy-test-" + std::to_string(getpid()))) {}
  ~NpyTest() override { std::filesystem::remove(path); }
  void overwrite(const std::string &bytes) { std::ofstream(path, std::ios::binary) << bytes; }
  std::string contents() {
    std::ifstream file(path, std::ios::binary);
    return {std::istreambuf_iterator<char>(file), std::istreambuf_iterator<char>()};
  }
  std::string path;
};

const std::vector<int32_t> kValues = {1, -2, 3, 4, 5, 6};

OutputFile open(const std::string &path) {
  FileUses uses;
  auto file = OutputFile::create(path, uses);
  EXPECT_TRUE(file.ok()) << file.status().message();
  return *std::move(file);
}

void write(const std::string &path) {
  auto file = NpyWriter::create(open(path), "<i4", 2, 3);
  ASSERT_TRUE(file.ok()) << file.status().message();
  ASSERT_TRUE(file->append(std::as_bytes(std::span(kValues).first(3))).ok());
  ASSERT_TRUE(file->append(std::as_bytes(std::span(kValues).last(3))).ok());
  ASSERT_TRUE(file->finish().ok());
}

TEST_F(NpyTest, WhatIsWrittenIsRead) {
  write(path);
  auto array = readNpyInts(path);
  ASSERT_TRUE(array.ok()) << array.status().message();
  EXPECT_EQ(array->shape, (std::vector<uint64_t>{2, 3}));
  EXPECT_EQ(array->values, kValues);
}

TEST_F(NpyTest, TheHeaderIsAMultipleOf64AsTheFormatWants) {
  write(path);
  EXPECT_EQ(contents().size() % 64, 24u); // six values behind it
}

TEST_F(NpyTest, AnUnfinishedFileIsRemoved) {
  {
    auto file = NpyWriter::create(open(path), "<f4", 2, 3);
    ASSERT_TRUE(file.ok());
    EXPECT_EQ(file->finish().code(), Code::kInternal);
  }
  EXPECT_FALSE(std::filesystem::exists(path));
}

TEST_F(NpyTest, AnOlderFileStaysUntilTheNewOneIsComplete) {
  overwrite("older");
  {
    auto file = NpyWriter::create(open(path), "<f4", 2, 3);
    ASSERT_TRUE(file.ok());
  }
  EXPECT_EQ(contents(), "older");
  write(path);
  EXPECT_TRUE(readNpyInts(path).ok());
}

TEST_F(NpyTest, APipeGetsTheBytesAndIsNeverRemoved) {
  ASSERT_EQ(mkfifo(path.c_str(), 0600), 0);
  const int reader = ::open(path.c_str(), O_RDONLY | O_NONBLOCK);
  ASSERT_GE(reader, 0);
  write(path);
  char bytes[1024];
  EXPECT_EQ(read(reader, bytes, sizeof bytes) % 64, 24);
  (void)NpyWriter::create(open(path), "<f4", 2, 3); // never finished
  EXPECT_TRUE(std::filesystem::is_fifo(path));
  close(reader);
}

TEST_F(NpyTest, MoreThanTheShapeIsRefused) {
  auto file = NpyWriter::create(open(path), "<i4", 1, 3);
  ASSERT_TRUE(file.ok());
  EXPECT_EQ(file->append(std::as_bytes(std::span(kValues))).code(), Code::kInternal);
}

TEST_F(NpyTest, OtherFilesAreRefused) {
  write(path);
  const std::string good = contents();
  const auto refused = [&](std::string bytes) {
    overwrite(bytes);
    auto array = readNpyInts(path);
    EXPECT_FALSE(array.ok());
  };
  refused("");
  refused("not an array");
  for (size_t size : {size_t(9), size_t(40), good.size() - 1})
    refused(good.substr(0, size));
  std::string other = good;
  other.replace(other.find("<i4"), 3, "<f4");
  refused(other);
  other = good;
  other.replace(other.find("(2, 3)"), 6, "(2, 0)");
  refused(other);
  other = good;
  other.replace(other.find("(2, 3), }   "), 12, "(9999999999)");
  refused(other);
  EXPECT_FALSE(readNpyInts(path + ".absent").ok());
}

} // namespace
} // namespace g4::tool
