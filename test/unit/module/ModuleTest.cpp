// A good artifact read back, and what the loader says of a damaged one.
#include "runtime/module/Module.h"

#include "runtime/module/Format.h"
#include "test/support/FailingNew.h"
#include "test/support/ModuleBuilder.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstddef>
#include <filesystem>
#include <fstream>
#include <sys/resource.h>

namespace g4::module {
namespace {
using test::AlignedBytes;

class TinyModule : public testing::Test {
protected:
  void SetUp() override {
    auto parsed = Module::parse(bytes.span());
    ASSERT_TRUE(parsed.ok()) << parsed.status().message();
    module = *std::move(parsed);
  }
  AlignedBytes bytes = test::tinyModule();
  std::unique_ptr<Module> module;
};

TEST_F(TinyModule, RootHoldsWhatWasWritten) {
  EXPECT_EQ(module->root().producer()->str(), "test");
  EXPECT_EQ(module->root().facts()->layers()->size(), 3u);
  EXPECT_FALSE(module->weightsMissing());
  EXPECT_EQ(module->fileSize(), bytes.size());
  EXPECT_EQ(module->root().kernels()->Get(1)->str(), "head");
}

TEST_F(TinyModule, SegmentsAreFoundByKindAndNameAndStartOnPages) {
  ASSERT_EQ(module->findSegment(fb::SegmentKind::code, "x86-64-v3"), 1u);
  EXPECT_EQ(module->findSegment(fb::SegmentKind::weights, "x86-64-v3"), std::nullopt);
  const auto code = module->segment(1);
  ASSERT_EQ(code.size(), 100u);
  EXPECT_EQ(code[3], std::byte(21));
  EXPECT_EQ(static_cast<size_t>(code.data() - bytes.span().data()) % kSegmentAlignment, 0u);
  EXPECT_EQ(module->tokenizer().size(), 50u);
}

TEST_F(TinyModule, AWeightIsItsPartOfTheSegment) {
  EXPECT_EQ(module->weight(1).data(), module->segment(0).data() + 576);
  EXPECT_EQ(module->weight(1).size(), 128u);
}

TEST_F(TinyModule, ProgramsAreFoundByName) {
  ASSERT_NE(module->findProgram("step"), nullptr);
  EXPECT_EQ(module->findProgram("step")->max_tail_rows(), 4u);
  EXPECT_EQ(module->findProgram("draft"), nullptr);
}

TEST_F(TinyModule, VerifyWeightsReportsProgressUpToTheEnd) {
  uint64_t last = 0, all = 0;
  EXPECT_TRUE(module->verifyWeights([&](uint64_t done, uint64_t total) { last = done, all = total; }).ok());
  EXPECT_EQ(last, 4096u);
  EXPECT_EQ(all, 4096u);
}

/// The loader does not read weights, which may be larger than memory; verifyWeights does.
TEST_F(TinyModule, ADamagedWeightIsFoundByVerifyWeightsOnly) {
  bytes[kSegmentAlignment + 1000] ^= std::byte(1);
  auto parsed = Module::parse(bytes.span());
  ASSERT_TRUE(parsed.ok());
  const Status status = (*parsed)->verifyWeights();
  EXPECT_EQ(status.code(), Code::kDataLoss);
  EXPECT_NE(status.message().find("segment 'cpu'"), std::string::npos) << status.message();
}

TEST_F(TinyModule, DamagedCodeAndTokenizerAreFoundAtLoad) {
  for (uint32_t index : {1u, 2u}) {
    AlignedBytes damaged(bytes.span());
    damaged[module->root().segments()->Get(index)->offset() + 10] ^= std::byte(0x80);
    const auto parsed = Module::parse(damaged.span());
    ASSERT_FALSE(parsed.ok());
    EXPECT_EQ(parsed.status().code(), Code::kDataLoss);
    EXPECT_NE(parsed.status().message().find("damaged: hash of segment"), std::string::npos);
  }
}

TEST_F(TinyModule, EveryDamagedByteOfTheHeaderIsFound) {
  Prelude prelude;
  std::memcpy(&prelude, bytes.span().data(), sizeof prelude);
  for (uint64_t at = prelude.headerOffset; at < bytes.size(); ++at) {
    AlignedBytes damaged(bytes.span());
    damaged[at] ^= std::byte(4);
    const auto parsed = Module::parse(damaged.span());
    ASSERT_FALSE(parsed.ok());
    ASSERT_EQ(parsed.status().message(), "damaged: hash of the header differs");
  }
}

TEST_F(TinyModule, EveryTruncationIsSaidToBeOne) {
  for (size_t length = 1; length < bytes.size(); ++length) {
    AlignedBytes part(bytes.span().first(length));
    const auto parsed = Module::parse(part.span());
    ASSERT_FALSE(parsed.ok()) << length;
    ASSERT_EQ(parsed.status().code(), Code::kDataLoss) << length;
    ASSERT_NE(parsed.status().message().find("truncated"), std::string::npos) << parsed.status().message();
  }
}

TEST_F(TinyModule, BytesAfterTheEndAreDamage) {
  AlignedBytes longer(bytes.size() + 1);
  std::ranges::copy(bytes.span(), longer.span().begin());
  EXPECT_EQ(Module::parse(longer.span()).status().code(), Code::kDataLoss);
}

TEST_F(TinyModule, AWeightlessModuleHasSizesAndNoBytes) {
  auto header = test::unpackHeader(bytes);
  header->weights_missing = true;
  header->segments[0]->offset = header->segments[0]->hash = 0;
  const AlignedBytes weightless = test::withHeader(bytes, *header);
  auto parsed = Module::parse(weightless.span());
  ASSERT_TRUE(parsed.ok()) << parsed.status().message();
  EXPECT_TRUE((*parsed)->weightsMissing());
  EXPECT_TRUE((*parsed)->segment(0).empty());
  EXPECT_TRUE((*parsed)->weight(1).empty());
  EXPECT_EQ((*parsed)->root().segments()->Get(0)->size(), 4096u);
  EXPECT_TRUE((*parsed)->verifyWeights().ok());
}

struct PreludeCase {
  const char *name;
  size_t offset;
  uint64_t value;
  size_t bytes;
  Code code;
  const char *message;
};
constexpr PreludeCase kPreludeCases[] = {
    {"Magic", offsetof(Prelude, magic), 'X', 1, Code::kInvalidArgument, "not a g4 artifact"},
    {"MagicAfterTextTransfer", offsetof(Prelude, magic) + 4, '\n', 1, Code::kInvalidArgument, "wrong magic"},
    {"FormatVersion", offsetof(Prelude, formatVersion), kFormatVersion + 1, 4, Code::kIncompatible,
     "compile the model again"},
    {"AbiVersion", offsetof(Prelude, abiVersion), kAbiVersion + 1, 4, Code::kIncompatible,
     "compile the model again"},
    {"FileSizeTooLarge", offsetof(Prelude, fileSize), uint64_t(1) << 60, 8, Code::kDataLoss, "truncated"},
    {"FileSizeTooSmall", offsetof(Prelude, fileSize), 4096, 8, Code::kDataLoss, "was written with 4096"},
    {"HeaderOffsetZero", offsetof(Prelude, headerOffset), 0, 8, Code::kDataLoss, "header offset 0"},
    {"HeaderOffsetUnaligned", offsetof(Prelude, headerOffset), 4097, 8, Code::kDataLoss,
     "header offset 4097"},
    {"HeaderOffsetElsewhere", offsetof(Prelude, headerOffset), 4096, 8, Code::kDataLoss,
     "does not end where"},
    {"HeaderOffsetHuge", offsetof(Prelude, headerOffset), uint64_t(1) << 63, 8, Code::kDataLoss,
     "does not end where"},
    {"HeaderSizeZero", offsetof(Prelude, headerSize), 0, 8, Code::kDataLoss, "header size 0"},
    {"HeaderSizeHuge", offsetof(Prelude, headerSize), ~uint64_t(0), 8, Code::kDataLoss, "header size"},
    {"HeaderSizeOther", offsetof(Prelude, headerSize), 100, 8, Code::kDataLoss, "does not end where"},
    {"HeaderHash", offsetof(Prelude, headerHash), 1, 8, Code::kDataLoss, "hash of the header"},
    {"Reserved", offsetof(Prelude, reserved), 1, 8, Code::kDataLoss, "reserved"},
};

class MalformedPrelude : public testing::TestWithParam<PreludeCase> {};
TEST_P(MalformedPrelude, IsRefusedInOneLine) {
  AlignedBytes bytes = test::tinyModule();
  for (size_t i = 0; i < GetParam().bytes; ++i)
    bytes[GetParam().offset + i] = static_cast<std::byte>(GetParam().value >> (8 * i));
  const auto parsed = Module::parse(bytes.span());
  ASSERT_FALSE(parsed.ok());
  EXPECT_EQ(parsed.status().code(), GetParam().code) << parsed.status().message();
  EXPECT_NE(parsed.status().message().find(GetParam().message), std::string::npos)
      << parsed.status().message();
}
INSTANTIATE_TEST_SUITE_P(Fields, MalformedPrelude, testing::ValuesIn(kPreludeCases),
                         [](const auto &info) { return std::string(info.param.name); });

class ModuleFile : public testing::Test {
protected:
  void SetUp() override { test::writeTinyModule(path); }
  void TearDown() override { std::filesystem::remove(path); }
  const std::string path =
      (std::filesystem::temp_directory_path() / ("g4-module-" + std::to_string(getpid()) + ".g4m")).string();
};

TEST_F(ModuleFile, LoadsFromDisk) {
  auto loaded = Module::load(path);
  ASSERT_TRUE(loaded.ok()) << loaded.status().message();
  EXPECT_EQ((*loaded)->path(), path);
  EXPECT_TRUE((*loaded)->verifyWeights().ok());
  EXPECT_EQ((*loaded)->weight(1)[0], std::byte(576 * 7 & 255)); // after verifyWeights dropped the pages
}

TEST_F(ModuleFile, ErrorsNameThePath) {
  std::filesystem::resize_file(path, 5000);
  const auto loaded = Module::load(path);
  ASSERT_FALSE(loaded.ok());
  EXPECT_NE(loaded.status().message().find(path + "': truncated"), std::string::npos)
      << loaded.status().message();
}

TEST_F(ModuleFile, EachFailedAllocationIsResourceExhausted) {
  uint64_t n = 0;
  for (bool failed = true; failed;) {
    ++n;
    ASSERT_LT(n, 100000u);
    test::FailingNew failing(n);
    auto loaded = Module::load(path);
    failed = failing.failed();
    ASSERT_EQ(loaded.ok(), !failed) << "allocation " << n;
    if (failed) {
      ASSERT_EQ(loaded.status().code(), Code::kResourceExhausted) << "allocation " << n;
    }
  }
  EXPECT_GT(n, 5u); // the hook is in place
}

TEST_F(ModuleFile, NoAddressSpaceIsResourceExhausted) {
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
  GTEST_SKIP() << "the sanitizer itself needs address space";
#elif defined(__has_feature)
#if __has_feature(address_sanitizer) || __has_feature(thread_sanitizer)
  GTEST_SKIP() << "the sanitizer itself needs address space";
#endif
#endif
  std::filesystem::resize_file(path, uint64_t(1) << 40); // sparse
  rlimit before{};
  ASSERT_EQ(getrlimit(RLIMIT_AS, &before), 0);
  const rlimit small{uint64_t(1) << 36, before.rlim_max};
  ASSERT_EQ(setrlimit(RLIMIT_AS, &small), 0);
  const auto loaded = Module::load(path);
  setrlimit(RLIMIT_AS, &before);
  ASSERT_FALSE(loaded.ok());
  EXPECT_EQ(loaded.status().code(), Code::kResourceExhausted) << loaded.status().message();
}

} // namespace
} // namespace g4::module
