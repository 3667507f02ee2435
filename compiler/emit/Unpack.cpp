#include "compiler/emit/Unpack.h"

#include <cstring>

namespace g4::emit {
namespace {

using Bytes = const uint8_t *;

void copyHalf(uint8_t (&to)[2], Bytes from) { std::memcpy(to, from, 2); }

/// 2 n nibbles: column c < n in the low half of byte c, column n + c in its high half.
void nibbles(Bytes from, uint8_t *codes, int n = 16) {
  for (int c = 0; c < n; ++c) {
    codes[c] = from[c] & 15;
    codes[n + c] = from[c] >> 4;
  }
}

/// Column c's high bit is bit c of 32.
void fifthBits(Bytes from, uint8_t *codes) {
  for (int c = 0; c < 32; ++c)
    codes[c] |= (from[c / 8] >> (c % 8) & 1) << 4;
}

/// The 6-bit scales and minima of q4_k and q5_k: eight pairs in twelve bytes.
void scalesAndMinima(Bytes from, SuperBlock &s) {
  for (int j = 0; j < 4; ++j) {
    s.scales[j] = from[j] & 63;
    s.minima[j] = from[4 + j] & 63;
    s.scales[4 + j] = (from[8 + j] & 15) | (from[j] >> 6) << 4;
    s.minima[4 + j] = from[8 + j] >> 4 | (from[4 + j] >> 6) << 4;
  }
}

void kNibbles(Bytes from, SuperBlock &s) {
  for (int j = 0; j < 4; ++j)
    nibbles(from + 32 * j, s.codes + 64 * j, 32);
}

/// 256 2-bit codes: 128 columns in 32 bytes, columns 32 j + c in bits 2 j of byte c.
void kPairs(Bytes from, SuperBlock &s) {
  for (int half = 0; half < 2; ++half)
    for (int j = 0; j < 4; ++j)
      for (int c = 0; c < 32; ++c)
        s.codes[128 * half + 32 * j + c] = from[32 * half + c] >> (2 * j) & 3;
}

void q4_0(Bytes p, SuperBlock &s) {
  copyHalf(s.d, p);
  nibbles(p + 2, s.codes);
}

void q4_1(Bytes p, SuperBlock &s) {
  copyHalf(s.d, p);
  copyHalf(s.m, p + 2);
  nibbles(p + 4, s.codes);
}

void q5_0(Bytes p, SuperBlock &s) {
  copyHalf(s.d, p);
  nibbles(p + 6, s.codes);
  fifthBits(p + 2, s.codes);
}

void q5_1(Bytes p, SuperBlock &s) {
  copyHalf(s.d, p);
  copyHalf(s.m, p + 2);
  nibbles(p + 8, s.codes);
  fifthBits(p + 4, s.codes);
}

void q8_0(Bytes p, SuperBlock &s) {
  copyHalf(s.d, p);
  std::memcpy(s.codes, p + 2, 32);
}

void q2_k(Bytes p, SuperBlock &s) {
  std::memcpy(s.scales, p, 16); // a scale and a minimum each, as packed
  kPairs(p + 16, s);
  copyHalf(s.d, p + 80);
  copyHalf(s.m, p + 82);
}

void q3_k(Bytes p, SuperBlock &s) {
  kPairs(p + 32, s);
  for (int c = 0; c < 256; ++c)
    s.codes[c] |= (p[c % 32] >> (c / 32) & 1) << 2;
  // Sixteen 6-bit scales: low halves in nibbles of eight bytes, high pairs in four.
  Bytes scales = p + 96;
  for (int j = 0; j < 16; ++j) {
    int low = scales[j % 8] >> (j / 8 * 4) & 15, high = scales[8 + j % 4] >> (j / 4 * 2) & 3;
    s.scales[j] = static_cast<uint8_t>((low | high << 4) - 32);
  }
  copyHalf(s.d, p + 108);
}

void q4_k(Bytes p, SuperBlock &s) {
  copyHalf(s.d, p);
  copyHalf(s.m, p + 2);
  scalesAndMinima(p + 4, s);
  kNibbles(p + 16, s);
}

void q5_k(Bytes p, SuperBlock &s) {
  copyHalf(s.d, p);
  copyHalf(s.m, p + 2);
  scalesAndMinima(p + 4, s);
  kNibbles(p + 48, s);
  for (int j = 0; j < 8; ++j)
    for (int c = 0; c < 32; ++c)
      s.codes[32 * j + c] |= (p[16 + c] >> j & 1) << 4;
}

void q6_k(Bytes p, SuperBlock &s) {
  copyHalf(s.d, p + 208);
  std::memcpy(s.scales, p + 192, 16);
  for (int half = 0; half < 2; ++half)
    for (int run = 0; run < 4; ++run)
      for (int c = 0; c < 32; ++c) {
        uint8_t low = p[64 * half + 32 * (run % 2) + c] >> (run / 2 * 4) & 15;
        s.codes[128 * half + 32 * run + c] = low | (p[128 + 32 * half + c] >> (2 * run) & 3) << 4;
      }
}

void iq4_xs(Bytes p, SuperBlock &s) {
  copyHalf(s.d, p);
  for (int j = 0; j < 8; ++j) {
    int low = p[4 + j / 2] >> (j % 2 * 4) & 15, high = p[2 + j / 4] >> (j % 4 * 2) & 3;
    s.scales[j] = static_cast<uint8_t>((low | high << 4) - 32);
    nibbles(p + 8 + 16 * j, s.codes + 32 * j);
  }
}

void mxfp4(Bytes p, SuperBlock &s) {
  s.scales[0] = p[0];
  nibbles(p + 1, s.codes);
}

void nvfp4(Bytes p, SuperBlock &s) {
  std::memcpy(s.scales, p, 4);
  for (int j = 0; j < 4; ++j)
    nibbles(p + 4 + 8 * j, s.codes + 16 * j, 8);
}

/// Five base-3 digits to a byte, each 1/3 of the range: columns 160, 80 and 16 from 32, 16 and 4 bytes, the last with
/// four digits.
void tq1_0(Bytes p, SuperBlock &s) {
  auto run = [&](int first, int bytes, int digits, uint8_t *codes) {
    for (int c = 0; c < bytes; ++c) {
      uint8_t rest = p[first + c];
      for (int n = 0; n < digits; ++n, rest *= 3)
        codes[bytes * n + c] = rest * 3 >> 8;
    }
  };
  run(0, 32, 5, s.codes);
  run(32, 16, 5, s.codes + 160);
  run(48, 4, 4, s.codes + 240);
  copyHalf(s.d, p + 52);
}

void tq2_0(Bytes p, SuperBlock &s) {
  kPairs(p, s);
  copyHalf(s.d, p + 64);
}

void q1_0(Bytes p, SuperBlock &s) {
  copyHalf(s.d, p);
  for (int c = 0; c < 128; ++c)
    s.codes[c] = p[2 + c / 8] >> (c % 8) & 1;
}

void q2_0(Bytes p, SuperBlock &s) {
  copyHalf(s.d, p);
  for (int c = 0; c < 64; ++c)
    s.codes[c] = p[2 + c / 4] >> (c % 4 * 2) & 3;
}

// Grids: entries' low bytes, then what module::kPackedLayouts says of the side information.

uint64_t little(Bytes p, int bytes) {
  uint64_t v = 0;
  for (int i = 0; i < bytes; ++i)
    v |= uint64_t(p[i]) << (8 * i);
  return v;
}

void iq2_xxs(Bytes p, SuperBlock &s) {
  copyHalf(s.d, p);
  for (int j = 0; j < 8; ++j) {
    std::memcpy(s.codes + 4 * j, p + 2 + 8 * j, 4);
    s.side[j] = little(p + 6 + 8 * j, 4);
  }
}

void iq2_xs(Bytes p, SuperBlock &s) {
  copyHalf(s.d, p);
  for (int j = 0; j < 8; ++j) {
    s.side[j] = little(p + 66 + j, 1) << 32;
    for (int n = 0; n < 4; ++n) {
      uint64_t word = little(p + 2 + 8 * j + 2 * n, 2); // 9 bits of the number, 7 signs
      s.codes[4 * j + n] = static_cast<uint8_t>(word);
      s.side[j] |= (word >> 9) << (7 * n) | (word >> 8 & 1) << (28 + n);
    }
  }
}

void iq2_s(Bytes p, SuperBlock &s) {
  copyHalf(s.d, p);
  std::memcpy(s.codes, p + 2, 32);
  for (int j = 0; j < 8; ++j)
    s.side[j] = little(p + 34 + 4 * j, 4) | little(p + 66 + j, 1) << 32 | little(p + 74 + j, 1) << 40;
}

void iq3_xxs(Bytes p, SuperBlock &s) {
  copyHalf(s.d, p);
  std::memcpy(s.codes, p + 2, 64);
  for (int j = 0; j < 8; ++j)
    s.side[j] = little(p + 66 + 4 * j, 4);
}

void iq3_s(Bytes p, SuperBlock &s) {
  copyHalf(s.d, p);
  std::memcpy(s.codes, p + 2, 64);
  for (int j = 0; j < 8; ++j)
    s.side[j] = little(p + 74 + 4 * j, 4) | little(p + 66 + j, 1) << 32 | uint64_t(p[106 + j / 2] >> (j % 2 * 4) & 15) << 40;
}

void iq1_s(Bytes p, SuperBlock &s) {
  copyHalf(s.d, p);
  std::memcpy(s.codes, p + 2, 32);
  for (int j = 0; j < 8; ++j)
    s.side[j] = little(p + 34 + 2 * j, 2);
}

void iq1_m(Bytes p, SuperBlock &s) {
  std::memcpy(s.codes, p, 32);
  uint64_t d = 0; // in the top four bits of the words of scales
  for (int j = 0; j < 8; ++j) {
    uint64_t word = little(p + 48 + j / 2 * 2, 2), pair = word >> (j % 2 * 6);
    s.side[j] = little(p + 32 + 2 * j, 2) | (pair & 7) << 16 | (pair >> 3 & 7) << 20;
    d |= word >> 12 << (j / 2 * 4);
  }
  s.d[0] = static_cast<uint8_t>(d);
  s.d[1] = static_cast<uint8_t>(d >> 8);
}

constexpr BlockFormat kFormats[] = {
    {"q4_0", 18, q4_0},     {"q4_1", 20, q4_1},     {"q5_0", 22, q5_0},     {"q5_1", 24, q5_1},
    {"q8_0", 34, q8_0},     {"q2_k", 84, q2_k},     {"q3_k", 110, q3_k},    {"q4_k", 144, q4_k},
    {"q5_k", 176, q5_k},    {"q6_k", 210, q6_k},    {"iq4_nl", 18, q4_0},   {"iq4_xs", 136, iq4_xs},
    {"mxfp4", 17, mxfp4},   {"nvfp4", 36, nvfp4},   {"tq1_0", 54, tq1_0},   {"tq2_0", 66, tq2_0},
    {"q1_0", 18, q1_0},     {"q2_0", 18, q2_0},     {"iq2_xxs", 66, iq2_xxs}, {"iq2_xs", 74, iq2_xs},
    {"iq2_s", 82, iq2_s},   {"iq3_xxs", 98, iq3_xxs}, {"iq3_s", 110, iq3_s}, {"iq1_s", 50, iq1_s},
    {"iq1_m", 56, iq1_m},
};

} // namespace

const BlockFormat *blockFormat(std::string_view name) {
  for (const BlockFormat &f : kFormats)
    if (f.name == name)
      return &f;
  return nullptr;
}

} // namespace g4::emit
