#include "runtime/device/cpu/ContractionPeak.h"

#include <algorithm>
#include <array>
#include <chrono>
#include <numeric>
#include <utility>
#include <vector>

#if defined(__x86_64__)
#include <immintrin.h>
#elif defined(__aarch64__)
#include <arm_neon.h>
#endif

namespace g4::device {
namespace {

using Clock = std::chrono::steady_clock;
using module::PackedLayout, module::kPackedLayouts;

/// What a block needs of 32 columns of 16 rows of weights, with one row of activations: 8 vectors [16 rows][4
/// columns] of products, and per scale a conversion, a zero point, a product with the scale, and in the end
/// an fma with the activations' scale.
struct Mix {
  bool isSigned;   ///< AVX2: the codes' signs go to the activations before each product
  bool hasZero;    ///< a zero point is subtracted from each sum
  bool hasMin;     ///< one more fma for each scale
  int scales;      ///< of a row in the block: 1 or 2
  int sumsInInt16; ///< AVX2: vectors of products that are added before they are widened
};

/// `offsetsSigns`: signed codes are multiplied with 128 added, which a zero point takes out again.
constexpr Mix mixOf(const PackedLayout &l, bool offsetsSigns) {
  const int scales = int(l.scalesPerBlock());
  const int fit = l.isFloat ? 1 : std::min(int(l.sumsInInt16()), 8 / scales);
  return {l.hasSignedCodes(), l.zero != 0 || (offsetsSigns && l.hasSignedCodes()), l.hasMin, scales, fit};
}

/// Computes the mix of some blocks and returns how many. Takes some tens of microseconds: seldom interrupted.
using Loop = uint64_t (*)();
constexpr int kRounds = 2000;
constexpr uint64_t kMacsPerBlock = 16 * 32;

// OPAQUE(v) is no instruction, but the compiler takes v for changed: what is computed from it is computed
// again, and equal sums stay apart. Each loop has several of these, as kernels have for several rows.
#if defined(__x86_64__)
#define OPAQUE(v) __asm__ volatile("" : "+v"(v))

/// Two blocks at a time, each two vectors of eight rows.
template <Mix mix> [[gnu::target("avx2,fma")]] uint64_t avx2Loop() {
  constexpr int kSums = 4;
  __m256i codes = _mm256_set1_epi8(1), x = codes, zero = codes, ones = _mm256_set1_epi16(1);
  __m256 scale = _mm256_set1_ps(1e-9f), acc[kSums] = {};
  OPAQUE(codes);
  OPAQUE(zero);
  OPAQUE(ones);
  OPAQUE(scale);
  for (int round = 0; round < kRounds; ++round) {
    __m256 scaled[kSums];
    for (int s = 0; s < mix.scales; ++s) {
      __m256i sums[kSums] = {};
      for (int i = 0; i < 8 / mix.scales; i += mix.sumsInInt16) {
        __m256i pairs[kSums] = {};
        for (int n = i; n < std::min(i + mix.sumsInInt16, 8 / mix.scales); ++n)
          for (__m256i &pair : pairs) {
            OPAQUE(x);
            const __m256i signedX = mix.isSigned ? _mm256_sign_epi8(x, codes) : x;
            pair = _mm256_add_epi16(pair, _mm256_maddubs_epi16(codes, signedX));
          }
        for (int j = 0; j < kSums; ++j)
          sums[j] = _mm256_add_epi32(sums[j], _mm256_madd_epi16(pairs[j], ones));
      }
      for (int j = 0; j < kSums; ++j) {
        const __m256 sum = _mm256_cvtepi32_ps(mix.hasZero ? _mm256_sub_epi32(sums[j], zero) : sums[j]);
        scaled[j] = s == 0 ? _mm256_mul_ps(sum, scale) : _mm256_fmadd_ps(sum, scale, scaled[j]);
      }
    }
    for (__m256 &a : acc) {
      a = _mm256_fmadd_ps(scaled[&a - acc], scale, a);
      for (int s = 0; mix.hasMin && s < mix.scales; ++s)
        a = _mm256_fmadd_ps(scale, scale, a);
    }
  }
  for (__m256 &a : acc)
    OPAQUE(a);
  return 2 * kRounds;
}

[[gnu::target("avx2,fma")]] uint64_t avx2Floats() {
  constexpr int kSums = 12; // an fma takes four or five cycles, and there are two at a time
  __m256 weight = _mm256_set1_ps(1e-9f), x = weight, acc[kSums] = {};
  OPAQUE(weight);
  OPAQUE(x);
  for (__m256 &a : acc)
    OPAQUE(a);
  for (int round = 0; round < kRounds; ++round)
    for (int i = 0; i < 16; ++i) // 16 * 12 fmas are three blocks
      for (__m256 &a : acc)
        a = _mm256_fmadd_ps(weight, x, a);
  for (__m256 &a : acc)
    OPAQUE(a);
  return 3 * kRounds;
}

/// Four blocks at a time, each two vectors of eight rows.
template <Mix mix> [[gnu::target("avxvnni,avx2,fma")]] uint64_t avxVnniLoop() {
  constexpr int kSums = 8;
  __m256i codes = _mm256_set1_epi8(1), x = codes, zero = codes;
  __m256 scale = _mm256_set1_ps(1e-9f), acc[kSums] = {};
  OPAQUE(codes);
  OPAQUE(zero);
  OPAQUE(scale);
  for (int round = 0; round < kRounds; ++round) {
    __m256 scaled[kSums];
    for (int s = 0; s < mix.scales; ++s) {
      __m256i sums[kSums] = {};
      for (int i = 0; i < 8 / mix.scales; ++i)
        for (__m256i &sum : sums) {
          OPAQUE(x);
          sum = _mm256_dpbusd_avx_epi32(sum, codes, x);
        }
      for (int j = 0; j < kSums; ++j) {
        const __m256 sum = _mm256_cvtepi32_ps(mix.hasZero ? _mm256_sub_epi32(sums[j], zero) : sums[j]);
        scaled[j] = s == 0 ? _mm256_mul_ps(sum, scale) : _mm256_fmadd_ps(sum, scale, scaled[j]);
      }
    }
    for (__m256 &a : acc) {
      a = _mm256_fmadd_ps(scaled[&a - acc], scale, a);
      for (int s = 0; mix.hasMin && s < mix.scales; ++s)
        a = _mm256_fmadd_ps(scale, scale, a);
    }
  }
  for (__m256 &a : acc)
    OPAQUE(a);
  return 4 * kRounds;
}

/// Eight blocks at a time, each one vector of sixteen rows.
template <Mix mix> [[gnu::target("avx512f,avx512vnni")]] uint64_t avx512Loop() {
  constexpr int kSums = 8;
  __m512i codes = _mm512_set1_epi32(1), x = codes, zero = codes;
  __m512 scale = _mm512_set1_ps(1e-9f), acc[kSums] = {};
  OPAQUE(codes);
  OPAQUE(zero);
  OPAQUE(scale);
  for (int round = 0; round < kRounds; ++round) {
    __m512 scaled[kSums];
    for (int s = 0; s < mix.scales; ++s) {
      __m512i sums[kSums] = {};
      for (int i = 0; i < 8 / mix.scales; ++i)
        for (__m512i &sum : sums) {
          OPAQUE(x);
          sum = _mm512_dpbusd_epi32(sum, codes, x);
        }
      for (int j = 0; j < kSums; ++j) {
        // Not _mm512_cvtepi32_ps: GCC 12 warns of its own header.
        const __m512i exact = mix.hasZero ? _mm512_sub_epi32(sums[j], zero) : sums[j];
        const __m512 sum = __builtin_convertvector((__v16si)exact, __m512);
        scaled[j] = s == 0 ? _mm512_mul_ps(sum, scale) : _mm512_fmadd_ps(sum, scale, scaled[j]);
      }
    }
    for (__m512 &a : acc) {
      a = _mm512_fmadd_ps(scaled[&a - acc], scale, a);
      for (int s = 0; mix.hasMin && s < mix.scales; ++s)
        a = _mm512_fmadd_ps(scale, scale, a);
    }
  }
  for (__m512 &a : acc)
    OPAQUE(a);
  return 8 * kRounds;
}

[[gnu::target("avx512f")]] uint64_t avx512Floats() {
  constexpr int kSums = 16;
  __m512 weight = _mm512_set1_ps(1e-9f), x = weight, acc[kSums] = {};
  OPAQUE(weight);
  OPAQUE(x);
  for (__m512 &a : acc)
    OPAQUE(a);
  for (int round = 0; round < kRounds; ++round)
    for (int i = 0; i < 8; ++i) // 8 * 16 fmas are four blocks
      for (__m512 &a : acc)
        a = _mm512_fmadd_ps(weight, x, a);
  for (__m512 &a : acc)
    OPAQUE(a);
  return 4 * kRounds;
}

#elif defined(__aarch64__)
#define OPAQUE(v) __asm__ volatile("" : "+w"(v))

/// Two blocks at a time, each four vectors of four rows.
template <Mix mix> [[gnu::target("arch=armv8.2-a+dotprod")]] uint64_t dotprodLoop() {
  constexpr int kSums = 8;
  int8x16_t codes = vdupq_n_s8(1), x = codes;
  int32x4_t zero = vdupq_n_s32(1);
  float32x4_t scale = vdupq_n_f32(1e-9f), acc[kSums] = {};
  OPAQUE(codes);
  OPAQUE(zero);
  OPAQUE(scale);
  for (int round = 0; round < kRounds; ++round) {
    float32x4_t scaled[kSums];
    for (int s = 0; s < mix.scales; ++s) {
      int32x4_t sums[kSums] = {};
      for (int i = 0; i < 8 / mix.scales; ++i)
        for (int32x4_t &sum : sums) {
          OPAQUE(x);
          sum = vdotq_s32(sum, codes, x);
        }
      for (int j = 0; j < kSums; ++j) {
        const float32x4_t sum = vcvtq_f32_s32(mix.hasZero ? vsubq_s32(sums[j], zero) : sums[j]);
        scaled[j] = s == 0 ? vmulq_f32(sum, scale) : vfmaq_f32(scaled[j], sum, scale);
      }
    }
    for (float32x4_t &a : acc) {
      a = vfmaq_f32(a, scaled[&a - acc], scale);
      for (int s = 0; mix.hasMin && s < mix.scales; ++s)
        a = vfmaq_f32(a, scale, scale);
    }
  }
  for (float32x4_t &a : acc)
    OPAQUE(a);
  return 2 * kRounds;
}

uint64_t neonFloats() {
  constexpr int kSums = 16;
  float32x4_t weight = vdupq_n_f32(1e-9f), x = weight, acc[kSums] = {};
  OPAQUE(weight);
  OPAQUE(x);
  for (float32x4_t &a : acc)
    OPAQUE(a);
  for (int round = 0; round < kRounds; ++round)
    for (int i = 0; i < 8; ++i) // 8 * 16 fmas are one block
      for (float32x4_t &a : acc)
        a = vfmaq_f32(a, weight, x);
  for (float32x4_t &a : acc)
    OPAQUE(a);
  return kRounds;
}
#endif

/// The loops of a processor's level: for floats, and for each packed layout.
struct Level {
  const char *feature;
  Loop floats;
  std::array<Loop, std::size(kPackedLayouts)> integers;
};

constexpr auto kLayouts = std::make_index_sequence<std::size(kPackedLayouts)>();

const Level *levelOf(std::span<const std::string> features) {
  const auto levels = []<size_t... i>(std::index_sequence<i...>) {
#if defined(__x86_64__)
    return std::array{
        Level{"avx512vnni", avx512Floats, {avx512Loop<mixOf(kPackedLayouts[i], true)>...}},
        Level{"avxvnni", avx2Floats, {avxVnniLoop<mixOf(kPackedLayouts[i], true)>...}},
        Level{"avx2", avx2Floats, {avx2Loop<mixOf(kPackedLayouts[i], false)>...}},
    };
#elif defined(__aarch64__)
    // `smmla` multiplies more at once, but what puts its operands together costs as much: docs/targets.md.
    return std::array{Level{"dotprod", neonFloats, {dotprodLoop<mixOf(kPackedLayouts[i], false)>...}}};
#else
    return std::array<Level, 0>();
#endif
  };
  static constexpr auto all = levels(kLayouts);
  for (const Level &level : all)
    if (std::find(features.begin(), features.end(), level.feature) != features.end())
      return &level;
  return nullptr;
}

struct Run {
  Loop loop;
  Clock::time_point end;
  std::vector<double> rates; ///< of each thread that came: multiplications per second, median of its calls
};

void runUntilEnd(void *context, unsigned thread) {
  Run &run = *static_cast<Run *>(context);
  std::vector<double> rates;
  for (Clock::time_point begin = Clock::now(), end; begin < run.end; begin = end) {
    const uint64_t blocks = run.loop();
    end = Clock::now();
    rates.push_back(double(blocks * kMacsPerBlock) / std::chrono::duration<double>(end - begin).count());
  }
  if (rates.empty())
    return;
  std::nth_element(rates.begin(), rates.begin() + ptrdiff_t(rates.size() / 2), rates.end());
  run.rates[thread] = rates[rates.size() / 2];
}

} // namespace

double contractionPeak(ThreadTeam &team, std::span<const std::string> features, const PackedLayout *layout) {
  const Level *level = levelOf(features);
  if (!level)
    return 0;
  Run run{!layout || layout->isFloat ? level->floats : level->integers[size_t(layout - kPackedLayouts)],
          Clock::now() + std::chrono::milliseconds(10), std::vector<double>(team.size())};
  team.run(runUntilEnd, &run);
  // One that came too late for a call is no slower than the others.
  const auto came =
      double(std::count_if(run.rates.begin(), run.rates.end(), [](double rate) { return rate > 0; }));
  return std::accumulate(run.rates.begin(), run.rates.end(), 0.0) / came * double(team.size());
}

} // namespace g4::device
