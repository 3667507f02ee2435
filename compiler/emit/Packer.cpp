#include "compiler/emit/Packer.h"
#include "compiler/emit/Unpack.h"

#include <cstring>
#include <string_view>

namespace g4::emit {
namespace {

using module::PackedLayout;

/// Writes `kWidth` bits, from bit `first` on, of row r's 32 codes to a plane; returns what follows the plane.
template <uint32_t kWidth> uint8_t *placePlane(const uint8_t *codes, uint32_t first, int r, uint8_t *plane) {
  constexpr uint32_t kPerByte = 8 / kWidth, kMask = ((1u << kWidth) - 1) * 0x01010101;
  for (uint32_t i = 0; i < 8; ++i) { // four columns at a time
    uint32_t vector = kWidth == 4 ? i % 4 : i / kPerByte, place = kWidth == 4 ? i / 4 : i % kPerByte;
    uint32_t four, stored;
    std::memcpy(&four, codes + 4 * i, 4);
    std::memcpy(&stored, plane + 64 * vector + 4 * r, 4);
    stored |= (four >> first & kMask) << (place * kWidth);
    std::memcpy(plane + 64 * vector + 4 * r, &stored, 4);
  }
  return plane + 64 * kWidth;
}

/// Writes row r's codes of one 32-column block.
void placeCodes(const PackedLayout &layout, const uint8_t *codes, int r, uint8_t *block) {
  if (layout.bits & 8)
    block = placePlane<8>(codes, 0, r, block);
  if (layout.bits & 4)
    block = placePlane<4>(codes, 0, r, block);
  if (layout.bits & 2)
    block = placePlane<2>(codes, layout.bits & 4, r, block);
  if (layout.bits & 1)
    placePlane<1>(codes, layout.bits & 6, r, block);
}

/// Writes row r's digits of a super-block.
void placeDigits(const uint8_t *codes, int r, uint8_t *to) {
  constexpr uint32_t kPower[] = {81, 27, 9, 3, 1};
  for (uint32_t byte = 0; byte < 4 * 13; ++byte) {
    uint32_t value = 0;
    for (uint32_t n = 0; n < 5; ++n)
      if (uint32_t v = byte / 4 * 5 + n; v < 64)
        value += kPower[n] * codes[4 * v + byte % 4];
    to[byte / 4 * 64 + 4 * r + byte % 4] = static_cast<uint8_t>((value * 256 + 242) / 243);
  }
}

/// Writes row r's part of a block of grid entries.
void placeEntries(const PackedLayout &layout, const uint8_t *entries, uint64_t side, int r, uint8_t *block) {
  for (uint32_t n = 0; n < 32u / layout.grid.columns; ++n)
    block[n / 4 * 64 + 4 * r + n % 4] = entries[n];
  block += layout.indexBytes();
  for (uint32_t width : {4, 2, 1}) {
    if (!(layout.grid.sideBytes & width))
      continue;
    for (uint32_t b = 0; b < width; ++b, side >>= 8)
      block[width * r + b] = static_cast<uint8_t>(side);
    block += 16 * width;
  }
}

void placeSuperBlock(const PackedLayout &layout, const SuperBlock &s, int r, uint8_t *to) {
  if (layout.hasD())
    std::memcpy(to + 2 * r, s.d, 2);
  if (layout.hasMin)
    std::memcpy(to + 32 + 2 * r, s.m, 2);
  if (layout.scales != module::Scales::kGrid)
    for (uint32_t i = 0; i < layout.subBlocks; ++i) {
      to[layout.scalesOffset() + 16 * i + r] = s.scales[i];
      if (layout.hasMin && layout.scales == module::Scales::kU8)
        to[layout.minimaOffset() + 16 * i + r] = s.minima[i];
    }
  uint8_t *codes = to + layout.headerBytes();
  if (layout.codes == module::Codes::kTernary)
    return placeDigits(s.codes, r, codes);
  for (uint32_t block = 0; block < layout.superColumns / 32; ++block, codes += layout.blockCodeBytes())
    if (layout.codes == module::Codes::kGrid)
      placeEntries(layout, s.codes + block * 32 / layout.grid.columns, s.side[block], r, codes);
    else
      placeCodes(layout, s.codes + 32 * block, r, codes);
}

} // namespace

void packGroup(const PackedLayout &layout, uint64_t columns, const std::array<const std::byte *, 16> &rows,
               std::span<std::byte> out, const std::array<float, 16> &rowScales) {
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
  if (layout.groupHeaderBytes()) {
    std::memcpy(to, rowScales.data(), 64);
    to += layout.groupHeaderBytes();
  }
  const BlockFormat *format = blockFormat(layout.name);
  SuperBlock s = {};
  for (uint64_t super = 0; super < columns / layout.superColumns; ++super, to += layout.superBytes())
    for (int r = 0; r < 16; ++r)
      if (rows[r]) {
        format->unpack(reinterpret_cast<const uint8_t *>(rows[r]) + super * format->bytes, s);
        placeSuperBlock(layout, s, r, to);
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
