// One fused dispatch: residual add and norm, int8 quantisation, q4_0 gate and up, GELU, quantised result. The
// same body runs on the CPU and on the Vulkan device; both must lie within the bound around the exact result.
#include "compiler/emit/Packer.h"
#include "test/unit/vulkan/Bounded.h"
#include "test/unit/vulkan/CompiledKernel.h"

#include <gtest/gtest.h>

#include <random>

namespace g4::test {
namespace {

// Outputs: six groups of sixteen, three tiles. Rows: a block of two row tiles, and one of a single row tile's
// rest.
constexpr int kHidden = 64, kOutputs = 96, kRows = 11, kRowsPerItem = 8, kTile = 32;
constexpr int64_t kItems = (kRows + kRowsPerItem - 1) / kRowsPerItem * (kOutputs / kTile);
constexpr double kEps = 1e-6;
constexpr const char *kSpec =
    "#exec.linear<columns = 64, int8 = true, parts = [<element = q4_0, rows = 96, columns = 64>, "
    "<element = q4_0, rows = 96, columns = 64>], epilogue = geglu, tile = 32, rows_per_item = 8, "
    "row = <hidden = 64, int8 = true, eps = 1.0e-06 : f32, source = buffer, add = normed, scaled = true, "
    "store = true, "
    "norms = [#exec.norm<normalize = true, gain = true, forms = <f32 = false, q8 = true>>]>, "
    "out = <f32 = true, q8 = true>>";

/// A matrix as GGUF stores it in q4_0, and what its codes and scales are.
struct Weights {
  std::vector<std::byte> rows;
  std::vector<double> scale; // [output][block]
  std::vector<int> code;     // [output][column], 0..15 less 8
  explicit Weights(std::mt19937 &random);
  std::vector<std::byte> packed() const;
};

Weights::Weights(std::mt19937 &random) : scale(kOutputs * 2), code(kOutputs * kHidden) {
  for (int block = 0; block < kOutputs * 2; ++block) {
    // 2^-6 to 2^-5 by f16's steps: gates of about 1, where GELU bends.
    uint16_t bits = uint16_t(0x2400 + random() % 0x400);
    scale[block] = std::ldexp(1.0 + (bits & 0x3ff) / 1024.0, -6);
    rows.push_back(std::byte(bits & 0xff));
    rows.push_back(std::byte(bits >> 8));
    for (int i = 0; i < 16; ++i) {
      auto byte = uint8_t(random());
      rows.push_back(std::byte(byte));
      code[block * 32 + i] = (byte & 15) - 8;
      code[block * 32 + 16 + i] = (byte >> 4) - 8;
    }
  }
}

std::vector<std::byte> Weights::packed() const {
  const module::PackedLayout &layout = *module::packedLayout("q4_0");
  const size_t rowBytes = rows.size() / kOutputs, groupBytes = layout.groupBytes(kHidden);
  std::vector<std::byte> out(layout.matrixBytes(kOutputs, kHidden));
  for (int group = 0; group < kOutputs / 16; ++group) {
    std::array<const std::byte *, 16> pointers;
    for (int r = 0; r < 16; ++r)
      pointers[r] = rows.data() + (group * 16 + r) * rowBytes;
    emit::packGroup(layout, kHidden, pointers, std::span(out).subspan(group * groupBytes, groupBytes));
  }
  return out;
}

class Linear : public ::testing::Test {
protected:
  static void SetUpTestSuite() { kernel = CompiledKernel::compile(kSpec, compileError); }
  static void TearDownTestSuite() { kernel.reset(); }
  void SetUp() override {
    ASSERT_TRUE(kernel) << compileError;
    std::mt19937 random(7);
    std::uniform_real_distribution<float> uniform(-2, 2), gain(0.5f, 1.5f);
    auto fill = [&](auto &distribution, size_t n) {
      std::vector<float> v(n);
      for (float &x : v)
        x = distribution(random);
      return v;
    };
    stream = fill(uniform, kRows * kHidden);
    y = fill(uniform, kRows * kHidden);
    postNorm = fill(gain, kHidden);
    gain0 = fill(gain, kHidden);
    gate = std::make_unique<Weights>(random);
    up = std::make_unique<Weights>(random);
    buffers.set("count", std::vector<int32_t>{kRows});
    buffers.set("stream", stream);
    buffers.set("y", y);
    buffers.set("post_norm", postNorm);
    buffers.set("scale", std::vector<float>{kScale});
    buffers.set("gain0", gain0);
    buffers.set("w0", gate->packed());
    buffers.set("w1", up->packed());
    buffers.zeros<float>("stream_out", kRows * kHidden);
    buffers.zeros<float>("out", kRows * kOutputs);
    buffers.zeros<int8_t>("out.q", kRows * kOutputs);
    buffers.zeros<float>("out.scale", kRows * kOutputs / 32);
    buffers.zeros<int32_t>("out.sums", kRows * kOutputs / 16);
  }

  /// What the kernel's stream_out and out must be.
  void expect(std::vector<Bounded> &streamOut, std::vector<Bounded> &out) const;
  /// Number of outputs outside their bounds; prints how much of its bound the worst one used.
  int wrong(const Buffers &result, const char *what) const;
  void checkQuantised(const Buffers &result) const;

  static constexpr float kScale = 0.75f;
  static std::unique_ptr<CompiledKernel> kernel;
  static std::string compileError;
  std::vector<float> stream, y, postNorm, gain0;
  std::unique_ptr<Weights> gate, up;
  Buffers buffers;
};

std::unique_ptr<CompiledKernel> Linear::kernel;
std::string Linear::compileError;

/// Scale and codes of 32 values from `x` on.
void quantise(const Bounded *x, Bounded &scale, Bounded *codes) {
  Bounded largest;
  for (int i = 0; i < 32; ++i)
    if (std::abs(x[i].value) > largest.value)
      largest = {std::abs(x[i].value), std::max(largest.error, x[i].error)};
  scale = largest / Bounded(127);
  for (int i = 0; i < 32; ++i)
    codes[i] = nearest(x[i] * (Bounded(127) / largest));
}

void Linear::expect(std::vector<Bounded> &streamOut, std::vector<Bounded> &out) const {
  for (int row = 0; row < kRows; ++row) {
    const float *s = &stream[row * kHidden], *add = &y[row * kHidden];
    Bounded f = rmsFactor(kHidden, kEps, [&](int i) { return Bounded(add[i]); });
    std::vector<Bounded> h(kHidden), x(kHidden), codes(kHidden);
    for (int i = 0; i < kHidden; ++i)
      h[i] = (Bounded(s[i]) + Bounded(add[i]) * f * Bounded(postNorm[i])) * Bounded(kScale);
    f = rmsFactor(kHidden, kEps, [&](int i) { return h[i]; });
    for (int i = 0; i < kHidden; ++i)
      x[i] = h[i] * f * Bounded(gain0[i]);
    streamOut.insert(streamOut.end(), h.begin(), h.end());
    Bounded scales[2];
    for (int block = 0; block < 2; ++block)
      quantise(&x[32 * block], scales[block], &codes[32 * block]);
    auto product = [&](const Weights &w, int output) {
      Sum sum;
      for (int block = 0; block < 2; ++block) {
        Bounded exact; // integers
        for (int c = 32 * block; c < 32 * (block + 1); ++c) {
          int code = w.code[output * kHidden + c];
          exact = {exact.value + code * codes[c].value, exact.error + std::abs(code) * codes[c].error};
        }
        sum.add(exact * Bounded(w.scale[output * 2 + block]) * scales[block]);
      }
      return sum.get();
    };
    for (int output = 0; output < kOutputs; ++output)
      out.push_back(gelu(product(*gate, output)) * product(*up, output));
  }
}

int Linear::wrong(const Buffers &result, const char *what) const {
  std::vector<Bounded> streamOut, out;
  expect(streamOut, out);
  auto haveStream = result.get<float>("stream_out"), have = result.get<float>("out");
  int count = 0;
  double worst = 0;
  for (size_t i = 0; i < streamOut.size(); ++i)
    count += !streamOut[i].holds(haveStream[i]);
  for (size_t i = 0; i < out.size(); ++i) {
    count += !out[i].holds(have[i]);
    worst = std::max(worst, std::abs(have[i] - out[i].value) / out[i].error);
  }
  std::printf("%s: %d results outside of the bound, the worst used %.3f of its bound\n", what, count, worst);
  return count;
}

/// The int8 form is that of the f32 form, whatever that is.
void Linear::checkQuantised(const Buffers &result) const {
  auto out = result.get<float>("out"), scale = result.get<float>("out.scale");
  auto q = result.get<int8_t>("out.q");
  auto sums = result.get<int32_t>("out.sums");
  for (size_t block = 0; block < scale.size(); ++block) {
    std::vector<Bounded> x(out.begin() + 32 * block, out.begin() + 32 * (block + 1)), codes(32);
    Bounded expected;
    quantise(x.data(), expected, codes.data());
    EXPECT_TRUE(expected.holds(scale[block])) << "scale of block " << block;
    for (int half = 0; half < 2; ++half) {
      int32_t sum = 0;
      for (int i = 16 * half; i < 16 * (half + 1); ++i) {
        EXPECT_TRUE(codes[i].holds(q[32 * block + i])) << "code " << i << " of block " << block;
        sum += q[32 * block + i];
      }
      EXPECT_EQ(sums[2 * block + half], sum) << "block " << block;
    }
  }
}

TEST_F(Linear, CpuAndVulkanComputeTheSameWithinTheBound) {
  Buffers cpu = buffers, gpu = buffers;
  ASSERT_EQ(kernel->runOnCpu(cpu, kItems), "");
  ASSERT_EQ(kernel->runOnVulkan(gpu, kItems), "");
  EXPECT_EQ(wrong(cpu, "CPU"), 0);
  EXPECT_EQ(wrong(gpu, "Vulkan"), 0);
  checkQuantised(cpu);
  checkQuantised(gpu);
}

TEST_F(Linear, AWrongRowOfWeightsIsSeen) {
  // Two lanes exchanged: what a decoder that takes the wrong lane would compute.
  std::swap_ranges(gate->rows.begin(), gate->rows.begin() + gate->rows.size() / kOutputs,
                   gate->rows.begin() + gate->rows.size() / kOutputs);
  buffers.set("w0", gate->packed());
  ASSERT_EQ(kernel->runOnVulkan(buffers, kItems), "");
  EXPECT_GE(wrong(buffers, "Vulkan with two rows exchanged"), kRows);
}

TEST_F(Linear, ASmallErrorIsSeen) {
  ASSERT_EQ(kernel->runOnVulkan(buffers, kItems), "");
  std::vector<Bounded> streamOut, out;
  expect(streamOut, out);
  auto have = buffers.get<float>("out");
  have[17] += float(3 * out[17].error);
  buffers.set("out", have);
  EXPECT_EQ(wrong(buffers, "Vulkan with one result changed"), 1);
  // The bound itself would see a code that is off by one in most results.
  double errors = 0, values = 0;
  for (const Bounded &b : out) {
    errors += b.error;
    values += std::abs(b.value);
  }
  EXPECT_LT(errors, 1e-3 * values);
}

} // namespace
} // namespace g4::test
