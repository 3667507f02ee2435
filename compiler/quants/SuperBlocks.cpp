#include "compiler/quants/Blocks.h"

namespace g4::quants {
namespace {

struct ScaleMin {
  int scale, min;
};

/// The j-th of eight 6-bit (scale, minimum) pairs in 12 bytes: the first four lie in the low six bits, the
/// last four are split between bytes 8 to 11 and the top two bits of the first eight.
ScaleMin scaleMin(Bytes p, int j) {
  if (j < 4)
    return {p[j] & 63, p[j + 4] & 63};
  return {(p[j + 4] & 15) | (p[j - 4] >> 6) << 4, (p[j + 4] >> 4) | (p[j] >> 6) << 4};
}

/// The j-th of sixteen 6-bit scales in 12 bytes, centred at 32: the low four bits in the nibbles of bytes 0
/// to 7, low nibbles first, the top two in pairs of bits of bytes 8 to 11, pair by pair.
int scale6(Bytes p, int j) {
  int low = j < 8 ? p[j] & 15 : p[j - 8] >> 4;
  return (low | (p[8 + j % 4] >> (2 * (j / 4)) & 3) << 4) - 32;
}

/// The digit that 3^place has in a byte of five, stored as a fraction of 256 that multiplying brings to the
/// top.
int ternaryDigit(uint8_t byte, int place) {
  constexpr uint8_t kPowers[] = {1, 3, 9, 27, 81};
  return (static_cast<uint8_t>(byte * kPowers[place]) * 3 >> 8) - 1;
}

} // namespace

void q2_k(Bytes b, float *y) { // 16 nibble pairs (scale, minimum), 64 bytes, f16 scale, f16 scale of minimums
  float d = half(b + 80), dmin = half(b + 82);
  for (int group = 0; group < 16; ++group) { // of 16; eight groups share 32 bytes, two to a pair of bits
    float scale = d * static_cast<float>(b[group] & 15), min = dmin * static_cast<float>(b[group] >> 4);
    Bytes q = b + 16 + group / 8 * 32 + group % 2 * 16;
    for (int l = 0; l < 16; ++l)
      *y++ = scale * static_cast<float>(q[l] >> (group % 8 / 2 * 2) & 3) - min;
  }
}

void q3_k(Bytes b, float *y) { // 32 bytes of third bits, 64 bytes, 12 bytes of scales, f16 scale
  float d = half(b + 108);
  for (int group = 0; group < 16;
       ++group) { // the places of q2_k; the third bit of 32-element group g is bit g
    float scale = d * static_cast<float>(scale6(b + 96, group));
    Bytes q = b + 32 + group / 8 * 32 + group % 2 * 16, third = b + group % 2 * 16;
    for (int l = 0; l < 16; ++l) {
      int low = q[l] >> (group % 8 / 2 * 2) & 3;
      *y++ = scale * static_cast<float>(third[l] >> (group / 2) & 1 ? low : low - 4);
    }
  }
}

void q4_k(Bytes b, float *y) { // f16 scale of scales, f16 scale of minimums, 12 bytes of pairs, 128 bytes
  float d = half(b), dmin = half(b + 2);
  for (int group = 0; group < 8; ++group) { // of 32; two groups share 32 bytes
    ScaleMin pair = scaleMin(b + 4, group);
    float scale = d * static_cast<float>(pair.scale), min = dmin * static_cast<float>(pair.min);
    Bytes q = b + 16 + group / 2 * 32;
    for (int l = 0; l < 32; ++l)
      *y++ = scale * static_cast<float>(group % 2 ? q[l] >> 4 : q[l] & 15) - min;
  }
}

void q5_k(Bytes b, float *y) { // as q4_k, with 32 bytes of fifth bits before the 128 bytes
  float d = half(b), dmin = half(b + 2);
  Bytes high = b + 16;
  for (int group = 0; group < 8; ++group) {
    ScaleMin pair = scaleMin(b + 4, group);
    float scale = d * static_cast<float>(pair.scale), min = dmin * static_cast<float>(pair.min);
    Bytes q = b + 48 + group / 2 * 32;
    for (int l = 0; l < 32; ++l) {
      int value = (group % 2 ? q[l] >> 4 : q[l] & 15) + ((high[l] >> group & 1) << 4);
      *y++ = scale * static_cast<float>(value) - min;
    }
  }
}

void q6_k(Bytes b, float *y) { // 128 bytes low nibbles, 64 bytes high pairs, 16 signed scales, f16 scale
  float d = half(b + 208);
  for (int side = 0; side < 2; ++side, y += 128) {
    Bytes low = b + side * 64, high = b + 128 + side * 32, scales = b + 192 + side * 8;
    for (int quarter = 0; quarter < 4; ++quarter) {
      for (int l = 0; l < 32; ++l) {
        uint8_t byte = low[l + 32 * (quarter % 2)];
        int value = (quarter < 2 ? byte & 15 : byte >> 4) | (high[l] >> (2 * quarter) & 3) << 4;
        float scale = d * static_cast<float>(static_cast<int8_t>(scales[2 * quarter + l / 16]));
        y[32 * quarter + l] = scale * static_cast<float>(value - 32);
      }
    }
  }
}

void tq1_0(Bytes b, float *y) { // 48 bytes of five digits, 4 bytes of four, f16 scale
  float d = half(b + 52);
  struct Run {
    int first, bytes, digits;
  };
  for (Run run : {Run{0, 32, 5}, {32, 16, 5}, {48, 4, 4}})
    for (int place = 0; place < run.digits; ++place)
      for (int j = 0; j < run.bytes; ++j)
        *y++ = static_cast<float>(ternaryDigit(b[run.first + j], place)) * d;
}

void tq2_0(Bytes b, float *y) { // 64 bytes of pairs of bits, f16 scale
  float d = half(b + 64);
  for (int side = 0; side < 2; ++side)
    for (int pair = 0; pair < 4; ++pair)
      for (int j = 0; j < 32; ++j)
        *y++ = static_cast<float>((b[32 * side + j] >> (2 * pair) & 3) - 1) * d;
}

} // namespace g4::quants
