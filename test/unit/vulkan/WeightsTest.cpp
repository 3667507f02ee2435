// Every packed layout that the Vulkan target takes, decoded by sixteen lanes and by SIMD vectors. Scales and minima are powers of two and
// codes and activations small integers, so that every operation is exact: both must agree bit for bit, and no
// bound is needed.
#include "compiler/targets/vulkan/LaneBlock.h"
#include "runtime/module/PackedLayout.h"
#include "test/unit/vulkan/CompiledKernel.h"

#include <gtest/gtest.h>

#include <cmath>
#include <random>
#include <string_view>

namespace g4::test {
namespace {

constexpr int kColumns = 512, kOutputs = 32, kRows = 5; // a row tile and a rest

uint16_t powerAsHalf(int exponent) { return uint16_t((exponent + 15) << 10); }

class PackedWeights : public ::testing::TestWithParam<module::PackedLayout> {
protected:
  std::mt19937 random{3};

  std::vector<std::byte> bytes(const module::PackedLayout &layout) {
    std::vector<std::byte> out(layout.matrixBytes(kOutputs, kColumns));
    if (layout.isFloat) {
      auto *elements = reinterpret_cast<uint16_t *>(out.data());
      const size_t step = layout.bits / 16;
      for (size_t i = 0; i < out.size() / 2 / step; ++i) {
        // A sign and one of 1, 1.5, 2, 3: the high bits of all three types.
        const unsigned sign = random() % 2, exponent = random() % 2, mantissa = random() % 2;
        elements[i * step + step - 1] = std::string_view(layout.name) == "f16"
                                            ? uint16_t(sign << 15 | (15 + exponent) << 10 | mantissa << 9)
                                            : uint16_t(sign << 15 | (127 + exponent) << 7 | mantissa << 6);
      }
      return out;
    }
    for (std::byte &b : out)
      b = std::byte(random());
    // Scales below 8 keep the sums of 512 products below 2^24.
    const size_t header = layout.hasMin ? 64 : 32, scales = 16 * layout.subBlocks * (layout.hasMin ? 2 : 1);
    for (size_t super = 0; super < out.size(); super += layout.superBytes()) {
      for (size_t at = 0; at < header; at += 2) {
        const uint16_t half = powerAsHalf(int(random() % 3) - 1);
        std::memcpy(&out[super + at], &half, 2);
      }
      for (size_t at = header; at < header + scales; ++at)
        out[super + at] = std::byte(int8_t(int(random() % 8) - (layout.hasMin ? 0 : 4)));
    }
    return out;
  }

  void compare(bool int8) {
    const module::PackedLayout &layout = GetParam();
    std::string error, spec = "#exec.linear<columns = " + std::to_string(kColumns) +
                              ", int8 = " + (int8 ? "true" : "false") +
                              ", parts = [<element = " + layout.name +
                              ", rows = 32, columns = 512>], epilogue = store, tile = 16, rows_per_item = 8>";
    auto kernel = CompiledKernel::compile(spec, error);
    ASSERT_TRUE(kernel) << error;
    Buffers buffers;
    std::vector<int8_t> q(kRows * kColumns);
    std::vector<float> x(q.size()), scale(q.size() / 32);
    std::vector<int32_t> sums(q.size() / 16);
    for (size_t i = 0; i < q.size(); ++i) {
      q[i] = int8_t(int(random() % 15) - 7);
      x[i] = q[i];
      sums[i / 16] += q[i];
    }
    for (float &s : scale)
      s = std::ldexp(1.0f, int(random() % 3) - 1);
    buffers.set("count", std::vector<int32_t>{kRows});
    buffers.set("x", x);
    buffers.set("x.q", q);
    buffers.set("x.scale", scale);
    buffers.set("x.sums", sums);
    buffers.set("w0", bytes(layout));
    buffers.zeros<float>("out", kRows * kOutputs);
    Buffers cpu = buffers, gpu = buffers;
    ASSERT_EQ(kernel->runOnCpu(cpu, kOutputs / 16), "");
    ASSERT_EQ(kernel->runOnVulkan(gpu, kOutputs / 16), "");
    auto onCpu = cpu.get<float>("out"), onGpu = gpu.get<float>("out");
    size_t zeros = 0;
    for (size_t i = 0; i < onCpu.size(); ++i) {
      EXPECT_EQ(onCpu[i], onGpu[i]) << "row " << i / kOutputs << " output " << i % kOutputs;
      zeros += onCpu[i] == 0;
    }
    EXPECT_LT(zeros, onCpu.size() / 8) << "hardly anything was computed";
  }
};

TEST_P(PackedWeights, DotsWithInt8ActivationsAreExact) {
  if (GetParam().isFloat)
    return; // floats are multiplied with f32 activations only
  compare(true);
}
TEST_P(PackedWeights, DotsWithF32ActivationsAreExact) { compare(false); }

std::vector<module::PackedLayout> layouts(bool decodable) {
  std::vector<module::PackedLayout> found;
  for (const module::PackedLayout &layout : module::kPackedLayouts)
    if (vulkan::LaneBlock::canDecode(layout) == decodable)
      found.push_back(layout);
  return found;
}

std::string nameOf(const ::testing::TestParamInfo<module::PackedLayout> &info) { return info.param.name; }

INSTANTIATE_TEST_SUITE_P(All, PackedWeights, ::testing::ValuesIn(layouts(true)), nameOf);

class OtherWeights : public ::testing::TestWithParam<module::PackedLayout> {};

TEST_P(OtherWeights, AreRefusedByName) {
  std::string error, name = GetParam().name;
  EXPECT_FALSE(CompiledKernel::compile("#exec.linear<columns = 512, int8 = true, parts = [<element = " + name +
                                           ", rows = 32, columns = 512>], epilogue = store, tile = 16, rows_per_item = 8>",
                                       error));
  EXPECT_NE(error.find(name), std::string::npos) << error;
}

INSTANTIATE_TEST_SUITE_P(All, OtherWeights, ::testing::ValuesIn(layouts(false)), nameOf);

} // namespace
} // namespace g4::test
