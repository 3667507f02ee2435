// Status, hashing, message text and mapped files.
#include "runtime/base/Guard.h"
#include "runtime/base/Hash.h"
#include "runtime/base/MappedFile.h"
#include "runtime/base/Status.h"
#include "runtime/base/Text.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cerrno>
#include <filesystem>
#include <fstream>
#include <vector>

namespace g4 {
namespace {

std::span<const std::byte> asBytes(std::string_view text) { return std::as_bytes(std::span(text)); }

TEST(Status, ContextGoesInFrontOfFailuresOnly) {
  EXPECT_EQ(dataLoss("short read").withContext("section 3").message(), "section 3: short read");
  EXPECT_EQ(dataLoss("short read").withContext("section 3").code(), Code::kDataLoss);
  EXPECT_TRUE(Status().withContext("section 3").ok());
}

TEST(Result, MadeFromAnOkStatusIsAnInternalError) {
  const Result<int> result{Status()};
  EXPECT_FALSE(result.ok());
  EXPECT_EQ(result.status().code(), Code::kInternal);
}

TEST(Result, AssignOrReturnPassesTheFailureOn) {
  const auto doubled = [](Result<int> input) -> Result<int> {
    G4_ASSIGN_OR_RETURN(const int value, std::move(input));
    return 2 * value;
  };
  EXPECT_EQ(*doubled(21), 42);
  EXPECT_EQ(doubled(resourceExhausted("full")).status().message(), "full");
}

TEST(Guard, ExceptionsBecomeStatuses) {
  EXPECT_EQ(guarded([]() -> Status { throw std::bad_alloc(); }).code(), Code::kResourceExhausted);
  EXPECT_EQ(
      guarded([]() -> Status { return std::vector<int>(size_t(-1)).empty() ? Status() : Status(); }).code(),
      Code::kResourceExhausted);
  EXPECT_EQ(guarded([]() -> Result<int> { throw 7; }).status().code(), Code::kInternal);
  EXPECT_EQ(*guarded([]() -> Result<int> { return 7; }), 7);
}

// Values from the XXH64 specification's test vectors, seed 0.
TEST(Hash, IsXxh64) {
  EXPECT_EQ(hash64({}), 0xef46db3751d8e999u);
  EXPECT_EQ(hash64(asBytes("a")), 0xd24ec4f1a98c6e5bu);
  EXPECT_EQ(hash64(asBytes("abc")), 0x44bc2cf5ad770999u);
}

TEST(Hash, PiecesHashLikeTheWhole) {
  std::string text(1000, 'x');
  for (size_t i = 0; i < text.size(); ++i)
    text[i] = static_cast<char>(i * i);
  for (size_t piece : {1u, 3u, 31u, 32u, 33u, 999u}) {
    Hasher hasher;
    for (size_t at = 0; at < text.size(); at += piece) {
      hasher.update(asBytes(std::string_view(text).substr(at, piece)));
      hasher.update({});
    }
    EXPECT_EQ(hasher.digest(), hash64(asBytes(text))) << piece;
  }
}

TEST(Text, QuotedNamesFitOneLine) {
  EXPECT_EQ(quotedName("blk.0.attn_q.weight"), "'blk.0.attn_q.weight'");
  EXPECT_EQ(quotedName("a\nb\x1b[0m"), "'a\\x0ab\\x1b[0m'");
  EXPECT_EQ(quotedName("\xc3\xa9"), "'\\xc3\\xa9'");
  EXPECT_EQ(quotedName(std::string(81, 'x')), "'" + std::string(80, 'x') + "...'");
  EXPECT_EQ(quotedPath("/\xc3\xa9/\xf0\x9f\x98\x80"), "'/\xc3\xa9/\xf0\x9f\x98\x80'");
  EXPECT_EQ(quotedPath("a\nb\x1b[0m\xc2\x9b\xff\xc3"), "'a\\x0ab\\x1b[0m\\xc2\\x9b\\xff\\xc3'");
  EXPECT_EQ(quotedPath("\xed\xa0\x80\xe0\x80\x80"), "'\\xed\\xa0\\x80\\xe0\\x80\\x80'"); // surrogate, overlong
  EXPECT_EQ(quotedPath(std::string(200, 'x')), "'" + std::string(200, 'x') + "'"); // never cut: its end tells files apart
}

TEST(Text, ErrnoTextSaysWhatItIs) { EXPECT_EQ(errnoText(ENOENT), "No such file or directory"); }

TEST(MappedFile, HoldsTheFileAndOutlivesItsName) {
  const auto path = std::filesystem::temp_directory_path() / ("g4-mapped-" + std::to_string(getpid()));
  std::ofstream(path) << "content";
  auto opened = MappedFile::open(path.string());
  std::filesystem::remove(path);
  ASSERT_TRUE(opened.ok()) << opened.status().message();
  MappedFile moved = *std::move(opened);
  EXPECT_TRUE(std::ranges::equal(moved.bytes(), asBytes("content")));
  moved.release(moved.bytes());
  EXPECT_TRUE(std::ranges::equal(moved.bytes(), asBytes("content")));
}

TEST(MappedFile, LoadSaysThatTheFileBecameShorter) {
  const auto path = std::filesystem::temp_directory_path() / ("g4-shortened-" + std::to_string(getpid()));
  std::ofstream(path) << std::string(1 << 20, 'x');
  auto file = MappedFile::open(path.string());
  ASSERT_TRUE(file.ok()) << file.status().message();
  EXPECT_TRUE(file->load(file->bytes()));
  std::filesystem::resize_file(path, 1 << 19);
  EXPECT_TRUE(file->load(file->bytes().first(1 << 19)));
  EXPECT_FALSE(file->load(file->bytes().last(1 << 18)));
  std::filesystem::remove(path);
  const std::vector<std::byte> own(65536);
  EXPECT_TRUE(file->load(own));
}

TEST(MappedFile, ReleaseLeavesOtherMemoryAlone) {
  const std::vector<std::byte> own(65536, std::byte(7));
  MappedFile().release(own);
  EXPECT_TRUE(std::ranges::all_of(own, [](std::byte b) { return b == std::byte(7); }));
}

} // namespace
} // namespace g4
