// A named case per malformed field of a GGUF file, then every truncation and many mutations.
#include "compiler/import/gguf/Gguf.h"
#include "test/support/FailingNew.h"
#include "test/support/GgufBuilder.h"

#include <gtest/gtest.h>

#include <random>

namespace g4::gguf {
namespace {
using test::bytesOf;
using test::ggufString;
using B = test::GgufBuilder;

struct Case {
  const char *name;
  const char *message; ///< part of it
  void (*breakFile)(B &);
  Code code = Code::kInvalidArgument;
  bool allowMissingData = false;
};

constexpr uint64_t kHuge = uint64_t(1) << 60;

const Case kCases[] = {
    {"Magic", "not a GGUF file", [](B &b) { b.magic = "GGML"; }},
    {"Version0", "GGUF version 0", [](B &b) { b.version = 0; }},
    {"Version1", "GGUF version 1", [](B &b) { b.version = 1; }},
    {"Version4", "GGUF version 4", [](B &b) { b.version = 4; }},
    {"BigEndian", "big-endian", [](B &b) { b.version = 0x03000000; }},

    {"MetadataCountHuge", "metadata count 1152921504606846976", [](B &b) { b.metadataCount = kHuge; },
     Code::kDataLoss},
    {"MetadataCountTooLarge", "", [](B &b) { b.metadataCount = b.metadata.size() + 1; }},
    {"MetadataCountTooSmall", "", [](B &b) { b.metadataCount = b.metadata.size() - 1; }},
    {"TensorCountHuge", "tensor count 1152921504606846976", [](B &b) { b.tensorCount = kHuge; },
     Code::kDataLoss},

    {"KeyLengthHuge", "key at offset", [](B &b) { b.metadata[0] = bytesOf(kHuge); }},
    {"KeyTooLong", "has 65536 bytes, more than 65535",
     [](B &b) { b.addString(std::string(65536, 'k'), ""); }},
    {"KeyEmpty", "is empty", [](B &b) { b.addString("", "value"); }},
    {"KeyTwice", "key 'u8' occurs twice", [](B &b) { b.addString("u8", ""); }},
    {"ValueTypeUnknown", "key 'x': unknown value type 13", [](B &b) { b.add("x", 13, "12345678"); }},
    {"BoolNeitherZeroNorOne", "key 'x': bool has value 2", [](B &b) { b.add("x", B::kBool, "\2"); }},
    {"StringLengthHuge", "key 'x': the string at offset",
     [](B &b) { b.add("x", B::kString, bytesOf(kHuge)); }},
    {"StringLengthPastEnd", "key 'x': truncated: the string needs",
     [](B &b) { b.add("x", B::kString, bytesOf<uint64_t>(1 << 20)); }, Code::kDataLoss},
    {"ArrayCountHuge", "key 'x': array length 1152921504606846976",
     [](B &b) { b.addArray("x", B::kU8, kHuge, ""); }, Code::kDataLoss},
    {"ArrayCountOverflowsBytes", "key 'x': array length",
     [](B &b) { b.addArray("x", B::kU64, kHuge * 2, ""); }, Code::kDataLoss},
    {"StringArrayCountHuge", "key 'x': array length", [](B &b) { b.addArray("x", B::kString, kHuge, ""); },
     Code::kDataLoss},
    {"ArrayStringLengthHuge", "key 'x': the string in the array",
     [](B &b) { b.addArray("x", B::kString, 1, bytesOf(kHuge)); }},
    {"ArrayElementTypeUnknown", "key 'x': unknown array element type 77",
     [](B &b) { b.addArray("x", 77, 1, "12345678"); }},
    {"ArrayOfArrays", "key 'x': arrays of arrays",
     [](B &b) { b.addArray("x", B::kArray, 1, bytesOf(B::kU8 + 0u) + bytesOf<uint64_t>(0)); }},
    {"ArrayBoolNeitherZeroNorOne", "key 'x': bool has value 255",
     [](B &b) { b.addArray("x", B::kBool, 2, "\1\xff"); }},

    {"AlignmentZero", "'general.alignment' is 0",
     [](B &b) { b.metadata[1] = B().add("general.alignment", B::kU32, bytesOf(0u)).metadata[0]; }},
    {"AlignmentNoPowerOfTwo", "'general.alignment' is 48",
     [](B &b) { b.metadata[1] = B().add("general.alignment", B::kU32, bytesOf(48u)).metadata[0]; }},
    {"AlignmentHuge", "'general.alignment' is 4611686018427387904",
     [](B &b) {
       b.metadata[1] = B().add("general.alignment", B::kU64, bytesOf(uint64_t(1) << 62)).metadata[0];
     }},
    {"AlignmentOfAnotherType", "'general.alignment' is no unsigned integer",
     [](B &b) { b.metadata[1] = B().addString("general.alignment", "32").metadata[0]; }},

    {"TensorNameTooLong", "has 65 bytes, more than 64",
     [](B &b) { b.tensors[0].name = std::string(65, 'n'); }},
    {"TensorNameEmpty", "tensor name that ends at offset", [](B &b) { b.tensors[0].name = ""; }},
    {"TensorNameTwice", "tensor 'norm' occurs twice", [](B &b) { b.tensors[1].name = "norm"; }},
    {"TensorRank0", "tensor 'norm': has 0 dimensions", [](B &b) { b.tensors[0].rank = 0; }},
    {"TensorRank5", "tensor 'norm': has 5 dimensions", [](B &b) { b.tensors[0].rank = 5; }},
    {"TensorDimension0", "tensor 'norm': a dimension is 0",
     [](B &b) {
       b.tensors[0].dims = {4, 0};
     }},
    {"TensorDimensionsOverflow", "tensor 'norm': its dimensions overflow",
     [](B &b) {
       b.tensors[0].dims = {kHuge, 4, 4};
     }},
    {"TensorDimensionNegative", "tensor 'norm': its dimensions overflow",
     [](B &b) { b.tensors[0].dims = {~uint64_t(0)}; }},
    {"TensorBytesOverflow", "tensor 'norm': its size overflows",
     [](B &b) {
       b.tensors[0].dims = {kHuge, 4};
     }},
    {"TensorRowNoMultipleOfBlock", "tensor 'matrix': rows of 48 elements",
     [](B &b) {
       b.tensors[1].dims = {48, 3};
     }},
    {"TensorRowSmallerThanBlock", "tensor 'experts': rows of 32 elements",
     [](B &b) {
       b.tensors[2].dims = {32, 8};
     }},
    {"TensorOffsetUnaligned", "tensor 'matrix': offset 33 is no multiple",
     [](B &b) { b.tensors[1].offset = 33; }},
    {"TensorOffsetOverflows", "tensor 'matrix': offset 18446744073709551584 overflows",
     [](B &b) { b.tensors[1].offset = ~uint64_t(31); }},
    {"TensorOffsetOverflowsWithoutData", "tensor 'matrix': offset 9223372036854775776 overflows",
     [](B &b) { b.tensors[1].offset = (uint64_t(1) << 63) - 32; }, Code::kInvalidArgument, true},
    {"TensorPastEnd", "tensor 'norm': truncated", [](B &b) { b.tensors[0].offset = 1 << 20; },
     Code::kDataLoss},
    {"TensorLongerThanFile", "tensor 'experts': truncated",
     [](B &b) {
       b.tensors[2].dims = {256, 1000};
     },
     Code::kDataLoss},
    {"TensorsOverlap", "tensor 'matrix' overlaps tensor 'norm'", [](B &b) { b.tensors[0].dims = {16}; }},
    {"TensorsAtTheSameOffset", "overlaps tensor", [](B &b) { b.tensors[1].offset = 0; }},
    {"TensorsOverlapWithoutData", "overlaps tensor", [](B &b) { b.tensors[1].offset = 0; },
     Code::kInvalidArgument, true},
};

class MalformedGguf : public testing::TestWithParam<Case> {};

TEST_P(MalformedGguf, IsRefusedInOneLine) {
  B builder = test::smallGguf();
  GetParam().breakFile(builder);
  const std::string file = builder.build();
  auto parsed =
      File::parse(std::as_bytes(std::span(file)), {.allowMissingData = GetParam().allowMissingData});
  ASSERT_FALSE(parsed.ok());
  const std::string &message = parsed.status().message();
  EXPECT_NE(message.find(GetParam().message), std::string::npos) << message;
  EXPECT_EQ(message.find('\n'), std::string::npos) << message;
  if (*GetParam().message) {
    EXPECT_EQ(parsed.status().code(), GetParam().code) << message;
  }
}
INSTANTIATE_TEST_SUITE_P(Fields, MalformedGguf, testing::ValuesIn(kCases),
                         [](const auto &info) { return std::string(info.param.name); });

TEST(MalformedGgufName, ControlBytesAndLengthDoNotReachTheMessage) {
  B builder;
  builder.add("two\nlines\x1b[31m" + std::string(1000, 'x'), 13, "");
  const std::string file = builder.build();
  const auto parsed = File::parse(std::as_bytes(std::span(file)), {});
  const std::string message = parsed.status().message();
  EXPECT_NE(message.find("two\\x0alines\\x1b["), std::string::npos) << message;
  EXPECT_LT(message.size(), 200u);
}

TEST(MalformedGgufSweep, EveryTruncationIsSaidToBeOne) {
  const std::string whole = test::smallGguf().build();
  for (size_t length = 0; length < whole.size(); ++length) {
    const std::string part = whole.substr(0, length); // a copy: a sanitizer sees reads behind its end
    const auto parsed = File::parse(std::as_bytes(std::span(part)), {});
    ASSERT_FALSE(parsed.ok()) << length;
    ASSERT_EQ(parsed.status().code(), Code::kDataLoss) << length << ": " << parsed.status().message();
    ASSERT_NE(parsed.status().message().find("truncated"), std::string::npos) << parsed.status().message();
  }
}

TEST(MalformedGgufSweep, EveryTruncatedHeaderIsRefusedWithoutData) {
  const std::string whole = test::smallGguf().header();
  for (size_t length = 0; length < whole.size(); ++length) {
    const std::string part = whole.substr(0, length);
    ASSERT_FALSE(File::parse(std::as_bytes(std::span(part)), {.allowMissingData = true}).ok()) << length;
  }
}

/// What holds of every file that the reader accepts.
void checkInvariants(const File &file) {
  for (const Tensor &tensor : file.tensors()) {
    ASSERT_EQ(file.findTensor(tensor.name), &tensor);
    const auto data = file.data(tensor);
    if (!data.empty()) {
      ASSERT_EQ(data.size(), tensor.size);
      volatile auto touched = data.back();
      (void)touched;
    }
  }
  for (const auto &[key, value] : file.metadata())
    ASSERT_EQ(file.find(key), &value);
}

TEST(MalformedGgufSweep, MutatedBytesNeverCrashNorAllocateMuch) {
  const std::string whole = test::smallGguf().build();
  const size_t headerSize = test::smallGguf().header().size();
  constexpr unsigned char kValues[] = {0x00, 0x01, 0x7f, 0x80, 0xff};
  unsigned accepted = 0, refused = 0;
  test::takeLargestAllocation();
  const auto tryFile = [&](const std::string &file, bool allowMissingData) {
    const auto parsed = File::parse(std::as_bytes(std::span(file)), {.allowMissingData = allowMissingData});
    ++(parsed.ok() ? accepted : refused);
    if (parsed.ok())
      checkInvariants(**parsed);
    else
      ASSERT_EQ(parsed.status().message().find('\n'), std::string::npos);
  };
  for (size_t at = 0; at < headerSize; ++at)
    for (unsigned char value : kValues) {
      std::string file = whole;
      file[at] = static_cast<char>(value);
      tryFile(file, value & 1);
    }
  std::mt19937 random(20240229); // fixed: the same files in every run
  for (int i = 0; i < 20000; ++i) {
    std::string file = whole;
    for (unsigned edits = 1 + random() % 4; edits > 0; --edits)
      file[random() % headerSize] = static_cast<char>(random());
    tryFile(file, i % 2);
  }
  EXPECT_GT(accepted, 100u); // such as a changed number
  EXPECT_GT(refused, 1000u);
  EXPECT_LT(test::takeLargestAllocation(), whole.size() * 16);
}

} // namespace
} // namespace g4::gguf
