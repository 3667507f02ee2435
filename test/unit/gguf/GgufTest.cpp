// What the GGUF reader makes of good files, and of a machine that has run out of something.
#include "compiler/import/gguf/Gguf.h"
#include "test/support/FailingNew.h"
#include "test/support/GgufBuilder.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstdio>
#include <filesystem>
#include <fstream>
#include <sys/resource.h>
#include <unistd.h>

namespace g4::gguf {
namespace {
using test::bytesOf;
using test::GgufBuilder;

std::span<const std::byte> asBytes(const std::string &text) { return std::as_bytes(std::span(text)); }

/// A file of its own in the temporary folder, removed at the end.
class TemporaryFile {
public:
  explicit TemporaryFile(const std::string &content) {
    int fd = mkstemp(path_.data());
    EXPECT_GE(fd, 0);
    close(fd);
    std::ofstream(path_, std::ios::binary) << content;
  }
  ~TemporaryFile() { std::filesystem::remove(path_); }
  const std::string &path() const { return path_; }

private:
  std::string path_ = (std::filesystem::temp_directory_path() / "g4-gguf-XXXXXX").string();
};

class SmallGguf : public testing::Test {
protected:
  void SetUp() override {
    auto parsed = File::parse(asBytes(bytes), {});
    ASSERT_TRUE(parsed.ok()) << parsed.status().message();
    file = *std::move(parsed);
  }
  std::string bytes = test::smallGguf().build();
  std::unique_ptr<File> file;
};

TEST_F(SmallGguf, ScalarsAreWidenedByKind) {
  EXPECT_EQ(file->getUint("u8"), 8u);
  EXPECT_EQ(file->getUint("u16"), 16u);
  EXPECT_EQ(file->getUint("u64"), uint64_t(1) << 40);
  EXPECT_EQ(std::get<int64_t>(*file->find("i8")), -8);
  EXPECT_EQ(std::get<int64_t>(*file->find("i16")), -16);
  EXPECT_EQ(std::get<int64_t>(*file->find("i64")), -1);
  EXPECT_EQ(file->getFloat("f32"), 0.5);
  EXPECT_EQ(file->getFloat("f64"), 0.25);
  EXPECT_EQ(file->getBool("yes"), true);
  ASSERT_NE(file->getString("general.architecture"), nullptr);
  EXPECT_EQ(*file->getString("general.architecture"), "gemma4");
}

TEST_F(SmallGguf, SignedIntegersReadAsUnsignedUnlessNegative) {
  EXPECT_EQ(file->getUint("i32"), 64u);
  EXPECT_EQ(file->getUint("i64"), std::nullopt);
  EXPECT_EQ(file->getUints("i32s"), (std::vector<uint64_t>{7, 9}));
  EXPECT_EQ(file->getUints("negative"), std::nullopt);
}

TEST_F(SmallGguf, AnIntegerReadsAsAnArrayOfOne) {
  EXPECT_EQ(file->getUints("u8"), std::vector<uint64_t>{8});
  EXPECT_EQ(file->getUints("u32s"), (std::vector<uint64_t>{1, 2, 3}));
  EXPECT_EQ(file->getUints("empty"), std::vector<uint64_t>{});
}

TEST_F(SmallGguf, ArraysKeepTheirKind) {
  ASSERT_NE(file->getStrings("strings"), nullptr);
  EXPECT_EQ(*file->getStrings("strings"), (std::vector<std::string>{"a", ""}));
  EXPECT_EQ(file->getBools("bools"), (std::vector<bool>{true, false}));
  EXPECT_EQ(std::get<std::vector<double>>(*file->find("f32s")), std::vector<double>{1.5});
}

TEST_F(SmallGguf, ALookUpOfAnotherTypeOrAnAbsentKeyFindsNothing) {
  EXPECT_EQ(file->getUint("f32"), std::nullopt);
  EXPECT_EQ(file->getUint("yes"), std::nullopt);
  EXPECT_EQ(file->getFloat("u8"), std::nullopt);
  EXPECT_EQ(file->getBool("u8"), std::nullopt);
  EXPECT_EQ(file->getString("u8"), nullptr);
  EXPECT_EQ(file->getStrings("u32s"), nullptr);
  EXPECT_EQ(file->getUints("bools"), std::nullopt);
  EXPECT_EQ(file->getBools("u32s"), std::nullopt);
  EXPECT_EQ(file->find("absent"), nullptr);
  EXPECT_EQ(file->findTensor("absent"), nullptr);
}

TEST_F(SmallGguf, MetadataAndTensorsKeepTheOrderOfTheFile) {
  EXPECT_EQ(file->metadata().front().first, "general.architecture");
  EXPECT_EQ(file->metadata().back().first, "empty");
  // Entries written one after the other, as stored, are the metadata section again.
  std::string again;
  for (size_t i = 0; i < file->metadata().size(); ++i)
    again.append(reinterpret_cast<const char *>(file->metadataBytes(i).data()), file->metadataBytes(i).size());
  EXPECT_EQ(bytes.substr(4 + 4 + 8 + 8, again.size()), again);
  EXPECT_TRUE(again.starts_with(test::ggufString("general.architecture"))) << again;
  ASSERT_EQ(file->tensors().size(), 4u);
  EXPECT_EQ(file->tensors()[0].name, "norm");
  EXPECT_EQ(file->tensors()[2].name, "experts");
}

TEST_F(SmallGguf, TensorsHaveTheirShapeSizeAndBytes) {
  const Tensor *experts = file->findTensor("experts");
  ASSERT_NE(experts, nullptr);
  EXPECT_EQ(experts->columns(), 256u);
  EXPECT_EQ(experts->rows(), 4u);
  EXPECT_EQ(experts->size, 4u * 144);
  const auto data = file->data(*experts);
  ASSERT_EQ(data.size(), experts->size);
  EXPECT_EQ(data.data(), asBytes(bytes).data() + experts->offset);
  EXPECT_EQ(data[7], std::byte(7));
  EXPECT_EQ(file->findTensor("matrix")->size, 2u * 34 * 3);
}

TEST_F(SmallGguf, ATensorOfUnknownTypeIsKeptWithoutSize) {
  const Tensor *unknown = file->findTensor("unknown");
  ASSERT_NE(unknown, nullptr);
  EXPECT_EQ(unknown->ggmlType, 999u);
  EXPECT_EQ(typeInfo(unknown->ggmlType), nullptr);
  EXPECT_EQ(unknown->size, 0u);
  EXPECT_TRUE(file->data(*unknown).empty());
}

TEST_F(SmallGguf, OpenReadsTheSameAsParse) {
  TemporaryFile stored(bytes);
  auto opened = File::open(stored.path(), {});
  ASSERT_TRUE(opened.ok()) << opened.status().message();
  EXPECT_EQ((*opened)->path(), stored.path());
  EXPECT_EQ((*opened)->fileSize(), bytes.size());
  EXPECT_EQ((*opened)->metadata(), file->metadata());
  const Tensor &matrix = *(*opened)->findTensor("matrix");
  (*opened)->releasePages(matrix); // the bytes come back when touched
  const auto expected = file->data(*file->findTensor("matrix"));
  EXPECT_TRUE(std::ranges::equal((*opened)->data(matrix), expected));
}

TEST(Gguf, Version2IsReadLikeVersion3) {
  auto builder = test::smallGguf();
  builder.version = 2;
  const std::string bytes = builder.build();
  auto parsed = File::parse(asBytes(bytes), {});
  ASSERT_TRUE(parsed.ok()) << parsed.status().message();
  EXPECT_EQ((*parsed)->version(), 2u);
}

TEST(Gguf, AlignmentFromTheFilePlacesTheData) {
  GgufBuilder builder;
  builder.alignment = 4096;
  builder.add("general.alignment", GgufBuilder::kU32, bytesOf(4096u));
  builder.addTensor("a", {4}, 0, 16).addTensor("b", {4}, 0, 16);
  const std::string bytes = builder.build();
  auto parsed = File::parse(asBytes(bytes), {});
  ASSERT_TRUE(parsed.ok()) << parsed.status().message();
  EXPECT_EQ((*parsed)->findTensor("a")->offset, 4096u);
  EXPECT_EQ((*parsed)->findTensor("b")->offset, 8192u);
}

TEST(Gguf, TensorsMayStandInAnyOrderOfOffsets) {
  auto builder = test::smallGguf();
  std::swap(builder.tensors[0], builder.tensors[2]);
  const std::string bytes = builder.build();
  EXPECT_TRUE(File::parse(asBytes(bytes), {}).ok());
}

TEST(Gguf, AHeaderWithoutDataNeedsAllowMissingData) {
  const std::string header = test::smallGguf().header();
  EXPECT_FALSE(File::parse(asBytes(header), {}).ok());
  auto parsed = File::parse(asBytes(header), {.allowMissingData = true});
  ASSERT_TRUE(parsed.ok()) << parsed.status().message();
  const Tensor *matrix = (*parsed)->findTensor("matrix");
  EXPECT_EQ(matrix->size, 2u * 34 * 3);
  EXPECT_TRUE((*parsed)->data(*matrix).empty());
}

TEST(Gguf, EveryTypeHasBlocksAndAnUnambiguousName) {
  unsigned known = 0;
  for (uint32_t type = 0; type < 64; ++type)
    if (const TypeInfo *info = typeInfo(type)) {
      ++known;
      EXPECT_EQ(typeInfoByName(info->name), info);
      EXPECT_GT(info->blockElements, 0u);
      EXPECT_GT(info->blockBytes, 0u);
    }
  EXPECT_EQ(known, 33u);
  EXPECT_EQ(typeInfoByName("Q4_K"), nullptr);
}

/// A wrong block size in the table would leave gaps or overlaps between neighbours.
TEST(Gguf, TensorsOfRealFilesFillTheDataSection) {
  unsigned files = 0;
  for (const char *folder : {G4_TEST_DATA, G4_MODELS})
    for (const auto &entry : std::filesystem::recursive_directory_iterator(folder)) {
      if (entry.path().extension() != ".gguf")
        continue;
      auto opened = File::open(entry.path().string(), {});
      ASSERT_TRUE(opened.ok()) << opened.status().message();
      ++files;
      std::vector<Tensor> tensors = (*opened)->tensors();
      std::ranges::sort(tensors, {}, &Tensor::offset);
      for (size_t i = 1; i < tensors.size(); ++i)
        ASSERT_EQ((tensors[i - 1].offset + tensors[i - 1].size + 31) / 32 * 32, tensors[i].offset)
            << entry.path() << ": " << tensors[i].name;
    }
  EXPECT_GE(files, 2u) << "the test data is missing";
}

TEST(GgufFaults, AnUnreadablePathIsOneClearError) {
  for (const char *path : {"/nonexistent/model.gguf", "/", "/dev/null"}) {
    auto opened = File::open(path, {});
    ASSERT_FALSE(opened.ok());
    EXPECT_EQ(opened.status().code(), Code::kInvalidArgument);
    EXPECT_NE(opened.status().message().find(path), std::string::npos) << opened.status().message();
  }
  TemporaryFile empty("");
  EXPECT_NE(File::open(empty.path(), {}).status().message().find("empty"), std::string::npos);
}

TEST(GgufFaults, NoFileDescriptorIsResourceExhausted) {
  TemporaryFile stored(test::smallGguf().build());
  rlimit before{};
  ASSERT_EQ(getrlimit(RLIMIT_NOFILE, &before), 0);
  const rlimit none{0, before.rlim_max};
  ASSERT_EQ(setrlimit(RLIMIT_NOFILE, &none), 0);
  auto opened = File::open(stored.path(), {});
  setrlimit(RLIMIT_NOFILE, &before);
  ASSERT_FALSE(opened.ok());
  EXPECT_EQ(opened.status().code(), Code::kResourceExhausted) << opened.status().message();
}

TEST(GgufFaults, EachFailedAllocationIsResourceExhausted) {
  TemporaryFile stored(test::smallGguf().build());
  uint64_t n = 0;
  for (bool failed = true; failed;) {
    ++n;
    ASSERT_LT(n, 100000u);
    test::FailingNew failing(n);
    auto opened = File::open(stored.path(), {});
    failed = failing.failed();
    ASSERT_EQ(opened.ok(), !failed) << "allocation " << n;
    if (failed) {
      ASSERT_EQ(opened.status().code(), Code::kResourceExhausted) << "allocation " << n;
    }
  }
  EXPECT_GT(n, 20u); // the hook is in place
}

} // namespace
} // namespace g4::gguf
