#include "runtime/kv/SavedSequence.h"
#include "runtime/base/Hash.h"
#include "test/unit/kv/WrittenCache.h"

#include <filesystem>
#include <fstream>
#include <functional>
#include <iterator>
#include <numeric>
#include <random>
#include <unistd.h>

namespace g4::kv {
namespace {

constexpr uint64_t kModel = 0x1234567890abcdef;
constexpr size_t kHeader = 40, kLayer = 16;

struct SavedSequenceTest : testing::Test, WrittenCache {
  SavedSequenceTest() : WrittenCache(8, {16, 16, true}) {
    folder = std::filesystem::temp_directory_path() / ("g4-saved-test-" + std::to_string(getpid()));
    std::filesystem::create_directories(folder);
    path = folder / "seq.g4kv";
  }
  ~SavedSequenceTest() override { std::filesystem::remove_all(folder); }

  Key save(uint32_t length) {
    Key key(length);
    std::iota(key.begin(), key.end(), 100);
    const SeqId seq = cache->open();
    EXPECT_TRUE(extend(seq, key, length).ok());
    const Status saved = saveSequence(*cache, seq, key, kModel, path);
    EXPECT_TRUE(saved.ok()) << saved.message();
    EXPECT_TRUE(cache->close(seq).ok());
    return key;
  }
  std::string read() const {
    std::ifstream in(path, std::ios::binary);
    return {std::istreambuf_iterator<char>(in), {}};
  }
  void write(const std::string &bytes) const {
    std::filesystem::remove(path); // some file systems wait for the disk when a file is overwritten
    std::ofstream(path, std::ios::binary) << bytes;
  }
  /// Puts the hash right again, as somebody would who wants to fool the reader.
  static std::string rehashed(std::string bytes) {
    const uint64_t hash = hash64(std::as_bytes(std::span(bytes).first(bytes.size() - 8)));
    std::memcpy(bytes.data() + bytes.size() - 8, &hash, 8);
    return bytes;
  }
  Result<SavedSequence> open() const { return SavedSequence::open(path, cache->geometry(), kModel); }
  Status error() const {
    auto saved = open();
    return saved.ok() ? Status() : saved.status();
  }
  bool nothingTaken() const { return used(PageClass::kGlobal) + used(PageClass::kSliding) == 0; }

  std::filesystem::path folder;
  std::string path;
};

TEST_F(SavedSequenceTest, ARestoredSequenceIsEqualBitForBit) {
  for (const uint32_t length : {0u, 1u, 4u, 5u, 8u, 23u, 24u, 25u, 60u}) {
    const Key key = save(length);
    // In other pages than before.
    const SeqId other = cache->open();
    ASSERT_TRUE(cache->reserve(other, 1).ok());
    const auto saved = open();
    ASSERT_TRUE(saved.ok()) << saved.status().message();
    EXPECT_EQ(saved->length(), length);
    EXPECT_EQ(saved->key(), key);
    const PageCounts before{used(PageClass::kSliding), used(PageClass::kGlobal)};
    const auto seq = saved->restore(*cache);
    ASSERT_TRUE(seq.ok()) << seq.status().message();
    EXPECT_EQ(used(PageClass::kSliding) - before.sliding, saved->pages().sliding);
    EXPECT_EQ(used(PageClass::kGlobal) - before.global, saved->pages().global);
    EXPECT_EQ(*cache->length(*seq), length);
    EXPECT_EQ(checkSequence(*seq, key), "");
    if (length > 4) { // what its last boundaries need came with it
      EXPECT_TRUE(cache->truncate(*seq, (length - 1) / 4 * 4 - 4).ok());
    }
    ASSERT_TRUE(cache->close(*seq).ok());
    ASSERT_TRUE(cache->close(other).ok());
    EXPECT_TRUE(nothingTaken());
  }
}

TEST_F(SavedSequenceTest, WithoutRoomNothingIsTaken) {
  save(40);
  const SeqId other = cache->open();
  ASSERT_TRUE(cache->reserve(other, 28).ok()); // 9 pages are left of each class; 10 global are wanted
  const auto seq = open()->restore(*cache);
  EXPECT_EQ(seq.status().code(), Code::kResourceExhausted);
  EXPECT_EQ(used(PageClass::kGlobal), 7u);
  EXPECT_EQ(used(PageClass::kSliding), 7u);
}

TEST_F(SavedSequenceTest, EveryTruncationIsAnError) {
  save(9);
  const std::string whole = read();
  for (size_t size = 0; size < whole.size(); ++size) {
    write(whole.substr(0, size));
    const Status status = error();
    EXPECT_EQ(status.code(), size ? Code::kDataLoss : Code::kInvalidArgument) << size;
    EXPECT_EQ(status.message().find('\n'), std::string::npos);
    EXPECT_NE(status.message().find("seq.g4kv"), std::string::npos) << status.message();
  }
  write(whole + 'x');
  EXPECT_EQ(error().code(), Code::kDataLoss);
}

TEST_F(SavedSequenceTest, EveryFlippedByteIsAnError) {
  save(9);
  const std::string whole = read();
  for (size_t at = 0; at < whole.size(); ++at) {
    std::string flipped = whole;
    flipped[at] ^= 0x40;
    write(flipped);
    const bool version = at >= 8 && at < 12;
    EXPECT_EQ(error().code(), version ? Code::kIncompatible : Code::kDataLoss) << at;
  }
}

TEST_F(SavedSequenceTest, EveryHeaderFieldIsCheckedBeyondTheHash) {
  save(25);
  const std::string whole = read();
  const std::function<Status(size_t, uint32_t)> with = [&](size_t at, uint32_t value) {
    std::string changed = whole;
    std::memcpy(changed.data() + at, &value, 4);
    write(rehashed(changed));
    return error();
  };
  const auto field = [&](size_t at) {
    uint32_t value;
    std::memcpy(&value, whole.data() + at, 4);
    return value;
  };
  ASSERT_EQ(field(32), 25u);
  ASSERT_TRUE(with(32, 25).ok()) << "the test itself";
  const auto end = [](const Status &status) {
    return status.message().substr(status.message().rfind('\'') + 2);
  };
  for (const uint32_t value : {0u, 1u, 3u, 5u, 0xffffffffu}) {
    EXPECT_EQ(end(with(8, value == 1 ? 2 : value)), "is of another version");           // version
    EXPECT_EQ(end(with(12, value == 5 ? 8 : value)), "was saved with other K/V pages"); // page tokens
    EXPECT_EQ(end(with(16, value)), "was saved with other K/V pages");                  // window
    EXPECT_EQ(end(with(20, value == 3 ? 4 : value)), "was saved with other K/V pages"); // layers
    EXPECT_EQ(end(with(24, value)), "was saved with another model");
    EXPECT_EQ(with(32, value).code(), Code::kDataLoss) << value;                     // length
    EXPECT_EQ(with(36, field(36) + 1 + value % 7).code(), Code::kDataLoss) << value; // first sliding page
  }
  EXPECT_EQ(end(with(36, 0)), "is too short for its pages");
  for (size_t layer = 0; layer < 3; ++layer)
    for (size_t at = 0; at < kLayer; at += 4)
      EXPECT_EQ(with(kHeader + layer * kLayer + at, field(kHeader + layer * kLayer + at) + 1).code(),
                Code::kIncompatible);
  write(rehashed(whole + std::string(8, '\0')));
  EXPECT_EQ(end(error()), "has bytes that belong to nothing");
  write(rehashed(whole.substr(0, kHeader) + std::string(8, '\0')));
  EXPECT_EQ(end(error()), "is too short for its layers");
}

TEST_F(SavedSequenceTest, AFileWithoutThePagesOfItsWindowIsNoSequence) {
  save(25); // sliding pages 3 to 6; those of the window are 4 to 6
  const std::string whole = read();
  const size_t page = kPage * 8, layer0 = kHeader + 3 * kLayer + 25 * 8, layer2 = layer0 + (4 + 7) * page;
  for (const uint32_t first : {4u, 5u, 7u}) {
    std::string fewer = whole;
    std::memcpy(fewer.data() + 36, &first, 4);
    fewer.erase(layer2, (first - 3) * page); // consistent otherwise
    fewer.erase(layer0, (first - 3) * page);
    write(rehashed(fewer));
    const Status status = error();
    EXPECT_EQ(status.ok(), first == 4) << status.message();
    EXPECT_EQ(status.message().find("lacks the window") == std::string::npos, first == 4) << status.message();
  }
}

TEST_F(SavedSequenceTest, RandomFilesAreRestoredRightOrNotAtAll) {
  std::mt19937_64 random(7);
  save(25);
  const std::string whole = read();
  uint32_t accepted = 0, refused = 0;
  for (int i = 0; i < 3000; ++i) {
    std::string bytes = whole.substr(0, random() % 4 ? whole.size() : 8 + random() % whole.size());
    for (uint64_t changes = random() % 4; changes > 0; --changes)
      bytes[random() % std::min<size_t>(bytes.size(), random() % 2 ? 120 : SIZE_MAX)] = char(random());
    write(random() % 8 ? rehashed(bytes) : bytes);
    if (const auto saved = open(); saved.ok()) {
      ++accepted;
      const auto seq = saved->restore(*cache);
      ASSERT_TRUE(seq.ok());
      EXPECT_EQ(*cache->length(*seq), saved->key().size());
      ASSERT_TRUE(cache->close(*seq).ok());
    } else {
      ++refused;
    }
    ASSERT_TRUE(nothingTaken());
  }
  EXPECT_GT(accepted, 100u);
  EXPECT_GT(refused, 1000u);
}

TEST_F(SavedSequenceTest, OtherModelsAndPagesAreToldApart) {
  save(25);
  EXPECT_EQ(SavedSequence::open(path, cache->geometry(), kModel + 1).status().code(), Code::kIncompatible);
  Geometry other = cache->geometry();
  other.layers[1].element = Element::kF16;
  EXPECT_EQ(SavedSequence::open(path, other, kModel).status().code(), Code::kIncompatible);
  auto otherCache = KvCache::create(*device, other, {16, 16});
  ASSERT_TRUE(otherCache.ok());
  EXPECT_EQ(open()->restore(**otherCache).status().code(), Code::kIncompatible);
}

TEST_F(SavedSequenceTest, CallsThatCannotBeAreErrorsAndLeaveNoFile) {
  const SeqId seq = cache->open();
  ASSERT_TRUE(extend(seq, Key(5, 1), 5).ok());
  EXPECT_EQ(saveSequence(*cache, seq, Key(4), kModel, path).code(), Code::kInvalidArgument);
  EXPECT_EQ(saveSequence(*cache, SeqId(99), Key(5), kModel, path).code(), Code::kInvalidArgument);
  EXPECT_EQ(saveSequence(*cache, seq, Key(5), kModel, folder / "none" / "seq").code(),
            Code::kInvalidArgument);
  EXPECT_TRUE(std::filesystem::is_empty(folder));
  EXPECT_EQ(error().code(), Code::kInvalidArgument); // there is no file
}

} // namespace
} // namespace g4::kv
