#include "test/conformance/cpu/Blocks.h"

#include "compiler/quants/Dequantize.h"

#include <bit>
#include <cmath>
#include <cstring>
#include <map>

namespace g4::conformance {

const std::vector<Format> kFormats = {
    {"f32", 1, 4, true},         {"f16", 1, 2, true},         {"bf16", 1, 2, true},        {"q4_0", 32, 18, false},
    {"q4_1", 32, 20, false},     {"q5_0", 32, 22, false},     {"q5_1", 32, 24, false},     {"q8_0", 32, 34, false},
    {"q4_k", 256, 144, false},   {"q5_k", 256, 176, false},   {"q6_k", 256, 210, false},   {"q2_k", 256, 84, false},
    {"q3_k", 256, 110, false},   {"iq4_nl", 32, 18, false},   {"iq4_xs", 256, 136, false}, {"mxfp4", 32, 17, false},
    {"nvfp4", 64, 36, false},    {"tq1_0", 256, 54, false},   {"tq2_0", 256, 66, false},   {"q1_0", 128, 18, false},
    {"q2_0", 64, 18, false},     {"iq3_s", 256, 110, false},  {"iq3_xxs", 256, 98, false}, {"iq2_xxs", 256, 66, false},
    {"iq2_xs", 256, 74, false},  {"iq2_s", 256, 82, false},   {"iq1_s", 256, 50, false},   {"iq1_m", 256, 56, false},
};

namespace {

double half(const uint8_t *p) {
  int bits = p[0] | p[1] << 8, exponent = bits >> 10 & 31, fraction = bits & 1023;
  double magnitude = exponent ? std::ldexp(1024 + fraction, exponent - 25) : std::ldexp(fraction, -24);
  return bits >> 15 ? -magnitude : magnitude;
}

/// Where a block's halves and codes are; everything else is sub-scales.
struct Places {
  std::vector<int> halves;
  int codes, codesEnd;
};

Places placesOf(const std::string &name) {
  static const std::map<std::string, Places> places = {
      {"q4_0", {{0}, 2, 18}},       {"q4_1", {{0, 2}, 4, 20}},   {"q5_0", {{0}, 2, 22}},    {"q5_1", {{0, 2}, 4, 24}},
      {"q8_0", {{0}, 2, 34}},       {"q4_k", {{0, 2}, 16, 144}}, {"q5_k", {{0, 2}, 16, 176}}, {"q6_k", {{208}, 0, 192}},
      {"q2_k", {{80, 82}, 16, 80}}, {"q3_k", {{108}, 0, 96}},    {"iq4_nl", {{0}, 2, 18}},  {"iq4_xs", {{0}, 8, 136}},
      {"mxfp4", {{}, 1, 17}},       {"nvfp4", {{}, 4, 36}},      {"tq1_0", {{52}, 0, 52}},  {"tq2_0", {{64}, 0, 64}},
      {"q1_0", {{0}, 2, 18}},       {"q2_0", {{0}, 2, 18}},      {"iq3_s", {{0}, 2, 106}},  {"iq3_xxs", {{0}, 2, 98}},
      {"iq2_xxs", {{0}, 2, 66}},    {"iq2_xs", {{0}, 2, 66}},    {"iq2_s", {{0}, 2, 74}},   {"iq1_s", {{0}, 2, 50}},
      {"iq1_m", {{}, 0, 48}},
  };
  return places.at(name);
}

void setBytes(uint8_t *p, int first, int end, uint8_t value) { std::memset(p + first, value, end - first); }

/// Scales that are not halves. Any bytes will do but for exponents with which sums of products leave the range of
/// floats, and for iq1_m's half, whose bits lie in four places.
void mendScales(const std::string &name, int64_t row, Scales scales, uint8_t *p) {
  bool moderate = scales == Scales::kModerate;
  if (name == "mxfp4") // row 3: subnormal scales
    p[0] = moderate ? 126 + p[0] % 4 : row == 3 ? p[0] % 4 : 87 + p[0] % 80;
  if (name == "iq1_m")
    p[55] = moderate ? (p[55] & 0x0f) | 0x30 : p[55] & ~0x40;
  if (!moderate)
    return;
  if (name == "nvfp4") {
    for (int i = 0; i < 4; ++i)
      p[i] = 0x38 + p[i] % 16;
  } else if (name == "iq1_m") {
    p[53] |= 0x80; // the exponent's last bits: 0.5 to 2
  } else if (name == "q4_k" || name == "q5_k") { // scales 1, minima 0
    setBytes(p, 4, 8, 1);
    setBytes(p, 8, 12, 0);
    setBytes(p, 12, 16, 1);
  } else if (name == "q6_k") {
    setBytes(p, 192, 208, 1);
  } else if (name == "q2_k") {
    setBytes(p, 0, 16, 1);
  } else if (name == "q3_k") { // low halves 1, high pairs 2: 33 - 32
    setBytes(p, 96, 104, 0x11);
    setBytes(p, 104, 108, 0xaa);
  } else if (name == "iq4_xs") {
    setBytes(p, 2, 4, 0xaa);
    setBytes(p, 4, 8, 0x11);
  }
}

void scaleAndMin(int j, const uint8_t *q, int &scale, int &min) {
  if (j < 4) {
    scale = q[j] & 63;
    min = q[j + 4] & 63;
  } else {
    scale = (q[j + 4] & 0xF) | ((q[j - 4] >> 6) << 4);
    min = (q[j + 4] >> 4) | ((q[j] >> 6) << 4);
  }
}

void decodeBlock(const std::string &name, const uint8_t *p, Weight *y) {
  if (name == "q8_0") {
    for (int j = 0; j < 32; ++j)
      y[j] = {half(p), static_cast<int8_t>(p[2 + j])};
  } else if (name == "q4_0" || name == "q4_1") {
    bool min = name == "q4_1";
    const uint8_t *qs = p + (min ? 4 : 2);
    for (int j = 0; j < 16; ++j) {
      y[j] = {half(p), (qs[j] & 0x0F) - (min ? 0 : 8), min ? half(p + 2) : 0};
      y[j + 16] = {half(p), (qs[j] >> 4) - (min ? 0 : 8), min ? half(p + 2) : 0};
    }
  } else if (name == "q5_0" || name == "q5_1") {
    bool min = name == "q5_1";
    const uint8_t *h = p + (min ? 4 : 2), *qs = h + 4;
    uint32_t qh = h[0] | h[1] << 8 | h[2] << 16 | uint32_t(h[3]) << 24;
    for (int j = 0; j < 16; ++j) {
      int low = int((qh >> j) << 4) & 0x10, high = int(qh >> (j + 12)) & 0x10;
      y[j] = {half(p), ((qs[j] & 0x0F) | low) - (min ? 0 : 16), min ? half(p + 2) : 0};
      y[j + 16] = {half(p), ((qs[j] >> 4) | high) - (min ? 0 : 16), min ? half(p + 2) : 0};
    }
  } else if (name == "q4_k" || name == "q5_k") {
    const uint8_t *scales = p + 4, *qh = name == "q5_k" ? p + 16 : nullptr, *ql = p + (qh ? 48 : 16);
    for (int pair = 0; pair < 4; ++pair, ql += 32)
      for (int top = 0; top < 2; ++top) {
        int scale, min;
        scaleAndMin(2 * pair + top, scales, scale, min);
        for (int l = 0; l < 32; ++l) {
          int code = top ? ql[l] >> 4 : ql[l] & 0xF;
          if (qh && (qh[l] & (1 << (2 * pair + top))))
            code += 16;
          y[64 * pair + 32 * top + l] = {half(p) * scale, code, -half(p + 2) * min};
        }
      }
  } else if (name == "q2_k") {
    double d = half(p + 80), dmin = half(p + 82);
    for (int sub = 0; sub < 16; ++sub)
      for (int l = 0; l < 16; ++l) {
        int code = p[16 + 32 * (sub / 8) + 16 * (sub % 2) + l] >> (sub % 8 / 2 * 2) & 3;
        y[16 * sub + l] = {d * (p[sub] & 0xF), code, -dmin * (p[sub] >> 4)};
      }
  } else if (name == "q6_k") {
    double d = half(p + 208);
    const uint8_t *ql = p, *qh = p + 128;
    const auto *scales = reinterpret_cast<const int8_t *>(p + 192);
    for (int n = 0; n < 256; n += 128, y += 128, ql += 64, qh += 32, scales += 8)
      for (int l = 0; l < 32; ++l) {
        int s = l / 16;
        y[l] = {d * scales[s], ((ql[l] & 0xF) | ((qh[l] >> 0 & 3) << 4)) - 32};
        y[l + 32] = {d * scales[s + 2], ((ql[l + 32] & 0xF) | ((qh[l] >> 2 & 3) << 4)) - 32};
        y[l + 64] = {d * scales[s + 4], ((ql[l] >> 4) | ((qh[l] >> 4 & 3) << 4)) - 32};
        y[l + 96] = {d * scales[s + 6], ((ql[l + 32] >> 4) | ((qh[l] >> 6 & 3) << 4)) - 32};
      }
  } else { // products of a scale and a code only, which are exact in f32
    const gguf::TypeInfo &type = *gguf::typeInfoByName(name);
    std::vector<float> values(type.blockElements);
    quants::dequantize(type.type, std::as_bytes(std::span(p, type.blockBytes)), values);
    for (float v : values)
      *y++ = {v, 1};
  }
}

} // namespace

std::vector<std::byte> randomRows(const Format &format, int64_t rows, int64_t columns, Scales scales,
                                  std::mt19937 &rng) {
  std::vector<std::byte> result(rows * columns / format.elements * format.bytes);
  auto *p = reinterpret_cast<uint8_t *>(result.data());
  std::normal_distribution<float> normal;
  if (format.isFloat) {
    for (size_t i = 0; i < result.size(); i += format.bytes, p += format.bytes) {
      float v = normal(rng);
      if (format.bytes == 4) {
        std::memcpy(p, &v, 4);
      } else if (std::string(format.name) == "bf16") {
        uint32_t bits = std::bit_cast<uint32_t>(v) >> 16;
        std::memcpy(p, &bits, 2);
      } else {
        uint32_t bits = rng(); // any half but the infinities and NaN
        if ((bits & 0x7c00) == 0x7c00)
          bits &= ~0x4000u;
        std::memcpy(p, &bits, 2);
      }
    }
    return result;
  }
  Places places = placesOf(format.name);
  int64_t perRow = columns / format.elements;
  for (int64_t block = 0; block < rows * perRow; ++block, p += format.bytes) {
    for (int i = 0; i < format.bytes; ++i)
      p[i] = rng();
    if (int64_t row = block / perRow; row < 3)
      std::memset(p + places.codes, row == 0 ? 0x00 : row == 1 ? 0xFF : 0x80, places.codesEnd - places.codes);
    mendScales(format.name, block / perRow, scales, p);
    for (int at : places.halves) {
      uint32_t bits = rng();
      if (scales == Scales::kModerate)
        bits = 0x3800 + (bits & 0x7ff); // 0.5 and 1 times 1.f
      else if ((bits & 0x7c00) == 0x7c00)
        bits &= ~0x4000u;
      p[at] = bits & 255;
      p[at + 1] = bits >> 8 & 255;
    }
  }
  return result;
}

std::vector<Weight> decodeRow(const Format &format, const std::byte *row, int64_t columns) {
  std::vector<Weight> result(columns);
  auto *p = reinterpret_cast<const uint8_t *>(row);
  for (int64_t c = 0; c < columns; c += format.elements, p += format.bytes) {
    if (!format.isFloat) {
      decodeBlock(format.name, p, &result[c]);
    } else if (format.bytes == 4) {
      float v;
      std::memcpy(&v, p, 4);
      result[c] = {v, 1};
    } else if (std::string(format.name) == "bf16") {
      result[c] = {std::bit_cast<float>(uint32_t(p[0] | p[1] << 8) << 16), 1};
    } else {
      result[c] = {half(p), 1};
    }
  }
  return result;
}

} // namespace g4::conformance
