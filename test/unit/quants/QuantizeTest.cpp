// The quantisers against llama.cpp's figures on the shipped model's weights, and on blocks that are special.
#include "compiler/quants/Quantize.h"

#include "compiler/quants/Dequantize.h"

#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <random>
#include <vector>

namespace g4::quants {
namespace {

using gguf::Type;

const gguf::TypeInfo &infoOf(Type type) { return *gguf::typeInfo(static_cast<uint32_t>(type)); }

std::vector<std::byte> encode(Type type, const std::vector<float> &values, const std::vector<float> &weights = {}) {
  std::vector<std::byte> out(values.size() / infoOf(type).blockElements * infoOf(type).blockBytes);
  EXPECT_TRUE(quantize(type, values, weights, out)) << infoOf(type).name;
  return out;
}

std::vector<float> decode(Type type, const std::vector<std::byte> &blocks) {
  std::vector<float> values(blocks.size() / infoOf(type).blockBytes * infoOf(type).blockElements);
  EXPECT_TRUE(dequantize(type, blocks, values)) << infoOf(type).name;
  return values;
}

std::vector<float> roundTrip(Type type, const std::vector<float> &values, const std::vector<float> &weights = {}) {
  return decode(type, encode(type, values, weights));
}

/// Root of the weighted squared error over the weighted squared values.
double relativeError(const std::vector<float> &want, const std::vector<float> &got, const std::vector<float> &weights = {}) {
  double error = 0, size = 0;
  for (size_t i = 0; i < want.size(); ++i) {
    double w = weights.empty() ? 1 : weights[i], e = double(want[i]) - got[i];
    error += w * e * e;
    size += w * want[i] * want[i];
  }
  return std::sqrt(error / size);
}

std::vector<float> bell(size_t count, unsigned seed, float scale = 1) {
  std::mt19937 random(seed);
  std::normal_distribution<float> normal(0, scale);
  std::vector<float> values(count);
  for (float &v : values)
    v = normal(random);
  return values;
}

std::vector<Type> blockTypes() {
  std::vector<Type> types;
  for (Type type : quantizableTypes())
    if (infoOf(type).blockElements > 1)
      types.push_back(type);
  return types;
}

/// A tensor of the shipped model, whose weights are bf16.
std::vector<float> trained(const char *name) {
  auto file = gguf::File::open(G4_MODELS "/gemma4-nano/gemma4-nano-BF16.gguf", {});
  EXPECT_TRUE(file.ok()) << file.status().message();
  const gguf::Tensor *tensor = (*file)->findTensor(name);
  EXPECT_NE(tensor, nullptr);
  std::vector<float> values(tensor->rows() * tensor->columns());
  EXPECT_TRUE(dequantize(Type::kBF16, (*file)->data(*tensor), values));
  return values;
}

// bench/compare_quantisers.py prints these: the relative error of llama.cpp's quantisers without importance matrix.
struct Reference {
  Type type;
  double ffnDown, attnQ; ///< blk.5.ffn_down.weight, blk.0.attn_q.weight
};
constexpr Reference kLlamaCpp[] = {
    {Type::kMXFP4, 0.116597, 0.113447},  {Type::kQ4_0, 0.087900, 0.085589}, {Type::kIQ4_NL, 0.077497, 0.076028},
    {Type::kQ4_K, 0.072549, 0.071112},   {Type::kQ4_1, 0.079594, 0.078112}, {Type::kQ5_0, 0.043691, 0.042618},
    {Type::kQ5_K, 0.036724, 0.036099},   {Type::kQ5_1, 0.038580, 0.037740}, {Type::kQ6_K, 0.018086, 0.017638},
    {Type::kQ8_0, 0.005501, 0.005312},
};

TEST(QuantizeTest, ErrorsAreBelowLlamaCpps) {
  std::vector<float> ffnDown = trained("blk.5.ffn_down.weight"), attnQ = trained("blk.0.attn_q.weight");
  EXPECT_EQ(std::size(kLlamaCpp), blockTypes().size());
  for (const Reference &r : kLlamaCpp) {
    EXPECT_LE(relativeError(ffnDown, roundTrip(r.type, ffnDown)), r.ffnDown) << infoOf(r.type).name;
    EXPECT_LE(relativeError(attnQ, roundTrip(r.type, attnQ)), r.attnQ) << infoOf(r.type).name;
  }
}

TEST(QuantizeTest, TheComparisonRejectsPlainRounding) {
  // What the bounds above must tell apart: scales from the extremes, no search.
  std::vector<float> x = trained("blk.0.attn_q.weight"), plain(x.size());
  for (size_t i = 0; i < x.size(); i += 32) {
    float top = 0;
    for (size_t j = i; j < i + 32; ++j)
      top = std::max(top, std::fabs(x[j]));
    for (size_t j = i; j < i + 32; ++j)
      plain[j] = std::round(x[j] / (top / 7)) * (top / 7);
  }
  EXPECT_GT(relativeError(x, plain), kLlamaCpp[1].attnQ);
}

TEST(QuantizeTest, WhatABlockHoldsIsKept) {
  std::mt19937 random(7);
  for (Type type : {Type::kQ4_0, Type::kQ5_0, Type::kQ8_0, Type::kIQ4_NL, Type::kMXFP4, Type::kQ4_1, Type::kQ5_1}) {
    const gguf::TypeInfo &info = infoOf(type);
    std::vector<std::byte> blocks(64 * info.blockBytes);
    for (std::byte &b : blocks)
      b = static_cast<std::byte>(random());
    for (size_t i = 0; i < 64; ++i) { // scales (and minima) that are ordinary numbers
      std::byte *block = blocks.data() + i * info.blockBytes;
      if (type == Type::kMXFP4) {
        block[0] = static_cast<std::byte>(100 + i);
        continue;
      }
      block[1] = static_cast<std::byte>(0x20 + random() % 4 + (i % 2 ? 0x80 : 0));
      if (type == Type::kQ4_1 || type == Type::kQ5_1) {
        block[1] &= std::byte(0x7f); // a range has no sign
        block[3] = static_cast<std::byte>(0x34 + random() % 4 + (i % 2 ? 0x80 : 0));
        block[2] = block[0] = std::byte(0); // few bits, so that scale * code + minimum is exact
      }
      if (type == Type::kQ8_0)
        for (size_t j = 2; j < info.blockBytes; ++j)
          if (block[j] == std::byte(0x80))
            block[j] = std::byte(0x7f); // a code that is never written
    }
    std::vector<float> values = decode(type, blocks);
    EXPECT_EQ(roundTrip(type, values), values) << info.name;
  }
  // From few bits to more: every value of a 4-bit block is a value of a q8_0 block.
  std::vector<float> four = roundTrip(Type::kQ4_0, bell(4096, 1));
  EXPECT_EQ(roundTrip(Type::kQ8_0, four), four);
  EXPECT_EQ(roundTrip(Type::kQ5_0, four), four);
}

TEST(QuantizeTest, ZerosStayZero) {
  for (Type type : quantizableTypes()) {
    std::vector<float> zeros(512);
    EXPECT_EQ(roundTrip(type, zeros), zeros) << infoOf(type).name;
  }
}

TEST(QuantizeTest, ConstantAndLonelyValuesSurvive) {
  for (Type type : blockTypes()) {
    std::vector<float> lonely(256);
    lonely[77] = -3;
    // iq4_nl has no code for 0: what stands for it is 1 where the largest value is 113 or -127.
    EXPECT_LT(relativeError(lonely, roundTrip(type, lonely)), type == Type::kIQ4_NL ? 0.05 : 0.01) << infoOf(type).name;
    for (float value : {0.75f, -0.75f}) {
      std::vector<float> constant(256, value);
      EXPECT_LT(relativeError(constant, roundTrip(type, constant)), 0.01) << infoOf(type).name << " of " << value;
    }
  }
}

TEST(QuantizeTest, AnyFiniteInputGivesFiniteValues) {
  for (Type type : blockTypes())
    for (float scale : {1e-44f, 1e-30f, 1e-8f, 1e-4f, 1.0f, 1e5f, 1e30f, 3e38f}) {
      std::vector<float> values = bell(1024, 3);
      for (float &v : values)
        v = std::clamp(v / 5, -1.0f, 1.0f) * scale;
      for (float v : roundTrip(type, values))
        ASSERT_TRUE(std::isfinite(v)) << infoOf(type).name << " at " << scale;
    }
}

TEST(QuantizeTest, NoValueIsNanOrInfinite) {
  for (Type type : quantizableTypes())
    for (float bad : {NAN, INFINITY, -INFINITY}) {
      std::vector<float> values = bell(512, 5);
      values[300] = bad;
      std::vector<std::byte> out(512 / infoOf(type).blockElements * infoOf(type).blockBytes);
      EXPECT_FALSE(quantize(type, values, {}, out)) << infoOf(type).name << " took " << bad;
    }
}

TEST(QuantizeTest, SizesMustFit) {
  std::vector<float> values(256), weights(255);
  std::vector<std::byte> out(144);
  EXPECT_TRUE(quantize(Type::kQ4_K, values, {}, out));
  EXPECT_FALSE(quantize(Type::kQ4_K, values, weights, out));
  EXPECT_FALSE(quantize(Type::kQ4_K, std::span(values).first(255), {}, out));
  EXPECT_FALSE(quantize(Type::kQ4_K, values, {}, std::span(out).first(143)));
  EXPECT_FALSE(quantize(Type::kQ2_K, values, {}, std::span(out).first(84))) << "not written";
  EXPECT_FALSE(canQuantize(Type::kQ2_K));
}

TEST(QuantizeTest, ImportanceLowersTheErrorItCounts) {
  std::vector<float> x = bell(8192, 11), w(x.size());
  std::mt19937 random(12);
  std::lognormal_distribution<float> importance(0, 1.5f);
  std::vector<float> row(256);
  for (float &v : row)
    v = importance(random);
  for (size_t i = 0; i < w.size(); ++i)
    w[i] = row[i % row.size()];
  for (Type type : blockTypes()) {
    double with = relativeError(x, roundTrip(type, x, w), w), without = relativeError(x, roundTrip(type, x), w);
    // mxfp4 has a power of two for each block and little to choose.
    EXPECT_LT(with, (type == Type::kMXFP4 ? 1.0 : 0.97) * without) << infoOf(type).name;
  }
}

TEST(QuantizeTest, FloatsRoundToTheNearest) {
  // A tie goes to the even neighbour, in both directions.
  EXPECT_EQ(roundTrip(Type::kF16, {1 + 0x1p-11f, 1 + 3 * 0x1p-11f, 65504, 0x1p-25f, -0.1f}),
            (std::vector<float>{1, 1 + 0x1p-9f, 65504, 0, -0.0999755859375f}));
  EXPECT_EQ(roundTrip(Type::kBF16, {1 + 0x1p-8f, 1 + 3 * 0x1p-8f, 3e38f, -0.1f}),
            (std::vector<float>{1, 1 + 0x1p-6f, 0x1.c4p127f, -0.10009765625f}));
  EXPECT_EQ(roundTrip(Type::kF32, {0.1f, -3e38f, 1e-45f}), (std::vector<float>{0.1f, -3e38f, 1e-45f}));
  std::byte out[2];
  EXPECT_FALSE(quantize(Type::kF16, std::vector<float>{65520}, {}, out)) << "rounds to infinity";
}

TEST(QuantizeTest, BytesAreNeverMinus128) {
  std::vector<float> values = bell(32 * 256, 21);
  std::vector<std::byte> blocks = encode(Type::kQ8_0, values);
  for (size_t i = 0; i < blocks.size(); ++i)
    if (i % 34 >= 2)
      EXPECT_NE(blocks[i], std::byte(0x80));
}

TEST(QuantizeTest, BlocksDoNotDependOnTheirNeighbours) {
  for (Type type : quantizableTypes()) {
    std::vector<float> both = bell(512, 31), second(both.begin() + 256, both.end());
    std::vector<std::byte> one = encode(type, both), two = encode(type, second);
    EXPECT_EQ(std::memcmp(one.data() + one.size() / 2, two.data(), two.size()), 0) << infoOf(type).name;
  }
}

} // namespace
} // namespace g4::quants
