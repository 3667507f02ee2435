#include "compiler/quants/Blocks.h"
#include "compiler/quants/Grids.h"

namespace g4::quants {
namespace {

// The fifth bit of element j is bit j of a 32-bit word.
int fifthBit(uint32_t word, int j) { return static_cast<int>((word >> j) & 1) << 4; }

} // namespace

void q1_0(Bytes b, float *y) { // f16 scale, 16 bytes: 128 signs, set for plus
  float d = half(b);
  for (int j = 0; j < 128; ++j)
    y[j] = b[2 + j / 8] >> (j % 8) & 1 ? d : -d;
}

void q2_0(Bytes b, float *y) { // f16 scale, 16 bytes: 64 pairs of bits for -1 to 2
  float d = half(b);
  for (int j = 0; j < 64; ++j)
    y[j] = static_cast<float>((b[2 + j / 4] >> (2 * (j % 4)) & 3) - 1) * d;
}

// Blocks of 32: byte j holds elements j (low nibble) and j + 16 (high nibble).

void q4_0(Bytes b, float *y) { // f16 scale, 16 bytes
  float d = half(b);
  for (int j = 0; j < 16; ++j) {
    y[j] = static_cast<float>((b[2 + j] & 15) - 8) * d;
    y[j + 16] = static_cast<float>((b[2 + j] >> 4) - 8) * d;
  }
}

void q4_1(Bytes b, float *y) { // f16 scale, f16 minimum, 16 bytes
  float d = half(b), m = half(b + 2);
  for (int j = 0; j < 16; ++j) {
    y[j] = static_cast<float>(b[4 + j] & 15) * d + m;
    y[j + 16] = static_cast<float>(b[4 + j] >> 4) * d + m;
  }
}

void q5_0(Bytes b, float *y) { // f16 scale, u32 fifth bits, 16 bytes
  float d = half(b);
  uint32_t high = read32(b + 2);
  for (int j = 0; j < 16; ++j) {
    y[j] = static_cast<float>(((b[6 + j] & 15) | fifthBit(high, j)) - 16) * d;
    y[j + 16] = static_cast<float>(((b[6 + j] >> 4) | fifthBit(high, j + 16)) - 16) * d;
  }
}

void q5_1(Bytes b, float *y) { // f16 scale, f16 minimum, u32 fifth bits, 16 bytes
  float d = half(b), m = half(b + 2);
  uint32_t high = read32(b + 4);
  for (int j = 0; j < 16; ++j) {
    y[j] = static_cast<float>((b[8 + j] & 15) | fifthBit(high, j)) * d + m;
    y[j + 16] = static_cast<float>((b[8 + j] >> 4) | fifthBit(high, j + 16)) * d + m;
  }
}

void q8_0(Bytes b, float *y) { // f16 scale, 32 signed bytes
  float d = half(b);
  for (int j = 0; j < 32; ++j)
    y[j] = static_cast<float>(static_cast<int8_t>(b[2 + j])) * d;
}

void iq4_nl(Bytes b, float *y) { // f16 scale, 16 bytes
  float d = half(b);
  for (int j = 0; j < 16; ++j) {
    y[j] = d * kIq4Values[b[2 + j] & 15];
    y[j + 16] = d * kIq4Values[b[2 + j] >> 4];
  }
}

void mxfp4(Bytes b, float *y) { // E8M0 scale, 16 bytes
  float d = mxfp4Scale(b[0]);
  for (int j = 0; j < 16; ++j) {
    y[j] = d * kFp4Values[b[1 + j] & 15];
    y[j + 16] = d * kFp4Values[b[1 + j] >> 4];
  }
}

void nvfp4(Bytes b, float *y) { // four E4M3 scales of 16 elements each, 8 bytes for each 16
  for (int group = 0; group < 4; ++group, y += 16) {
    float d = nvfp4Scale(b[group]);
    Bytes q = b + 4 + group * 8;
    for (int j = 0; j < 8; ++j) {
      y[j] = d * kFp4Values[q[j] & 15];
      y[j + 8] = d * kFp4Values[q[j] >> 4];
    }
  }
}

} // namespace g4::quants
