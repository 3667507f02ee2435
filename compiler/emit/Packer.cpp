#include "compiler/emit/Packer.h"

#include <string_view>

namespace g4::emit {
namespace {

using module::PackedLayout;

/// One row's super-block, unpacked: what every quantised format here comes down to.
struct SuperBlock {
  uint8_t d[2] = {}, m[2] = {};
  uint8_t scales[16] = {}, minima[8] = {};
  uint8_t codes[256] = {};
};

void copyHalf(uint8_t (&to)[2], const uint8_t *from) {
  to[0] = from[0];
  to[1] = from[1];
}

/// 32 nibbles: column c < 16 in the low half of byte c, column 16 + c in its high half.
void nibbles(const uint8_t *from, uint8_t *codes) {
  for (int c = 0; c < 16; ++c) {
    codes[c] = from[c] & 15;
    codes[16 + c] = from[c] >> 4;
  }
}

/// One high bit per column, column c in bit c of 32.
void fifthBits(const uint8_t *from, uint8_t *codes) {
  for (int c = 0; c < 32; ++c)
    codes[c] |= (from[c / 8] >> (c % 8) & 1) << 4;
}

/// The 6-bit scales and minima of q4_k and q5_k: eight pairs in twelve bytes.
void scalesAndMinima(const uint8_t *from, SuperBlock &s) {
  for (int j = 0; j < 4; ++j) {
    s.scales[j] = from[j] & 63;
    s.minima[j] = from[4 + j] & 63;
    s.scales[4 + j] = (from[8 + j] & 15) | (from[j] >> 6) << 4;
    s.minima[4 + j] = from[8 + j] >> 4 | (from[4 + j] >> 6) << 4;
  }
}

void kNibbles(const uint8_t *from, SuperBlock &s) {
  for (int j = 0; j < 8; ++j)
    for (int c = 0; c < 32; ++c)
      s.codes[32 * j + c] = from[32 * (j / 2) + c] >> (j % 2 * 4) & 15;
}

struct Format {
  std::string_view name;
  uint32_t bytes; ///< of a GGUF block, which is a super-block
  void (*unpack)(const uint8_t *from, SuperBlock &s);
};

const Format kFormats[] = {
    {"q4_0", 18,
     [](const uint8_t *p, SuperBlock &s) {
       copyHalf(s.d, p);
       nibbles(p + 2, s.codes);
     }},
    {"q4_1", 20,
     [](const uint8_t *p, SuperBlock &s) {
       copyHalf(s.d, p);
       copyHalf(s.m, p + 2);
       nibbles(p + 4, s.codes);
     }},
    {"q5_0", 22,
     [](const uint8_t *p, SuperBlock &s) {
       copyHalf(s.d, p);
       nibbles(p + 6, s.codes);
       fifthBits(p + 2, s.codes);
     }},
    {"q5_1", 24,
     [](const uint8_t *p, SuperBlock &s) {
       copyHalf(s.d, p);
       copyHalf(s.m, p + 2);
       nibbles(p + 8, s.codes);
       fifthBits(p + 4, s.codes);
     }},
    {"q8_0", 34,
     [](const uint8_t *p, SuperBlock &s) {
       copyHalf(s.d, p);
       std::memcpy(s.codes, p + 2, 32);
     }},
    {"q4_k", 144,
     [](const uint8_t *p, SuperBlock &s) {
       copyHalf(s.d, p);
       copyHalf(s.m, p + 2);
       scalesAndMinima(p + 4, s);
       kNibbles(p + 16, s);
     }},
    {"q5_k", 176,
     [](const uint8_t *p, SuperBlock &s) {
       copyHalf(s.d, p);
       copyHalf(s.m, p + 2);
       scalesAndMinima(p + 4, s);
       kNibbles(p + 48, s);
       for (int j = 0; j < 8; ++j)
         for (int c = 0; c < 32; ++c)
           s.codes[32 * j + c] |= (p[16 + c] >> j & 1) << 4;
     }},
    {"q6_k", 210,
     [](const uint8_t *p, SuperBlock &s) {
       copyHalf(s.d, p + 208);
       std::memcpy(s.scales, p + 192, 16);
       for (int half = 0; half < 2; ++half)
         for (int run = 0; run < 4; ++run)
           for (int c = 0; c < 32; ++c) {
             uint8_t low = p[64 * half + 32 * (run % 2) + c] >> (run / 2 * 4) & 15;
             s.codes[128 * half + 32 * run + c] = low | (p[128 + 32 * half + c] >> (2 * run) & 3) << 4;
           }
     }},
};

const Format *formatOf(std::string_view name) {
  for (const Format &f : kFormats)
    if (f.name == name)
      return &f;
  return nullptr;
}

/// Writes row r's codes of one 32-column block.
void placeCodes(const PackedLayout &layout, const uint8_t *codes, int r, uint8_t *block) {
  if (layout.bits == 8) {
    for (int i = 0; i < 8; ++i)
      std::memcpy(block + 64 * i + 4 * r, codes + 4 * i, 4);
    return;
  }
  for (int j = 0; j < 4; ++j)
    for (int b = 0; b < 4; ++b)
      block[64 * j + 4 * r + b] = (codes[4 * j + b] & 15) | (codes[16 + 4 * j + b] & 15) << 4;
  if (layout.bits == 4)
    return;
  for (int h = 0; h < 2; ++h)
    for (int j = 0; j < 4; ++j)
      for (int b = 0; b < 4; ++b) {
        uint8_t high = codes[16 * h + 4 * j + b] >> 4;
        if (layout.bits == 5)
          block[256 + 4 * r + b] |= high << (4 * h + j);
        else
          block[256 + 64 * h + 4 * r + b] |= high << (2 * j);
      }
}

} // namespace

void packGroup(const PackedLayout &layout, uint64_t columns, const std::array<const std::byte *, 16> &rows,
               std::span<std::byte> out) {
  auto *to = reinterpret_cast<uint8_t *>(out.data());
  std::memset(to, 0, out.size());
  if (layout.isFloat) {
    uint64_t size = layout.bits / 8;
    for (int r = 0; r < 16; ++r)
      if (rows[r])
        for (uint64_t c = 0; c < columns; ++c)
          std::memcpy(to + (c * 16 + r) * size, rows[r] + c * size, size);
    return;
  }
  const Format *format = formatOf(layout.name);
  for (uint64_t super = 0; super < columns / layout.superColumns; ++super, to += layout.superBytes())
    for (int r = 0; r < 16; ++r) {
      if (!rows[r])
        continue;
      SuperBlock s;
      format->unpack(reinterpret_cast<const uint8_t *>(rows[r]) + super * format->bytes, s);
      uint8_t *header = to;
      std::memcpy(header + 2 * r, s.d, 2);
      header += 32;
      if (layout.hasMin) {
        std::memcpy(header + 2 * r, s.m, 2);
        header += 32;
      }
      for (uint32_t i = 0; i < layout.subBlocks; ++i)
        header[16 * i + r] = s.scales[i];
      if (layout.hasMin)
        for (uint32_t i = 0; i < layout.subBlocks; ++i)
          header[16 * (layout.subBlocks + i) + r] = s.minima[i];
      for (uint32_t block = 0; block < layout.superColumns / 32; ++block)
        placeCodes(layout, s.codes + 32 * block, r, to + layout.headerBytes() + block * layout.blockCodeBytes());
    }
}

void widenRow(const PackedLayout &layout, uint64_t columns, const std::byte *row, float factor, float *out) {
  bool f16 = std::string_view(layout.name) == "f16";
  for (uint64_t c = 0; c < columns; ++c) {
    float v;
    if (layout.bits == 32) {
      std::memcpy(&v, row + 4 * c, 4);
    } else {
      uint16_t half;
      std::memcpy(&half, row + 2 * c, 2);
      if (f16) {
        _Float16 h;
        std::memcpy(&h, &half, 2);
        v = h;
      } else {
        uint32_t bits = uint32_t(half) << 16;
        std::memcpy(&v, &bits, 4);
      }
    }
    out[c] = factor == 1.0f ? v : v * factor;
  }
}

} // namespace g4::emit
