/// How a packed weight lies in memory. Shared by the packer, the code generator's tests and `--weights=seed:N`.
///
/// Rows are packed in groups of kLanes = 16 and padded with zero rows to a whole group. A group is a sequence of
/// *super-blocks* of `superColumns` columns; the bytes of a super-block, in order:
///
///   d       f16 [16]                       scale of each row
///   m       f16 [16]      if hasMin        minimum (q4_1, q5_1) or scale of the minima (q4_k, q5_k)
///   scales  i8|u8 [subBlocks][16]          if subBlocks > 0
///   minima  u8 [subBlocks][16]             if subBlocks > 0 and hasMin
///   then for each block of 32 columns the codes:
///     4..6 bits: low  [4][16 rows][4]      vector j, row r, byte b: low nibble column 4j+b, high nibble 16+4j+b
///        5 bits: high [16][4]              byte b, bit 4h+j: bit 4 of column 16h+4j+b
///        6 bits: high [2][16][4]           vector h, byte b, bits 2j..2j+1: bits 4..5 of column 16h+4j+b
///     8 bits: codes [8][16][4]             vector i, row r, byte b: column 4i+b, signed
///
/// so that one dword lane of a vector holds four neighbouring columns of one row, as the byte dot products of
/// every x86 level want them. Float matrices are [columns][16] elements. `vector` weights (gains, scales) are
/// plain f32, `table` weights are the GGUF rows as stored.
#pragma once

#include <cstdint>
#include <cstring>
#include <string_view>

namespace g4::module {

struct PackedLayout {
  const char *name;
  uint32_t superColumns; ///< 32 or 256; 1 for floats
  uint32_t bits;         ///< of a code; of an element for floats
  bool hasMin;
  uint32_t subBlocks;    ///< scales per super-block; 0: d is the scale
  int32_t zero;          ///< subtracted from a code
  bool isFloat;

  /// Offset of the codes from the start of a super-block.
  constexpr uint32_t headerBytes() const {
    return isFloat ? 0 : 32 + (hasMin ? 32 : 0) + subBlocks * 16 * (hasMin ? 2 : 1);
  }
  constexpr uint32_t blockCodeBytes() const { return 2 * 32 * bits; } // 16 rows * 32 columns * bits / 8
  constexpr uint64_t superBytes() const {
    return isFloat ? 16 * bits / 8 : headerBytes() + uint64_t(superColumns / 32) * blockCodeBytes();
  }
  constexpr uint64_t groupBytes(uint64_t columns) const { return columns / superColumns * superBytes(); }
  constexpr uint64_t matrixBytes(uint64_t rows, uint64_t columns) const {
    return (rows + 15) / 16 * groupBytes(columns);
  }
};

inline constexpr PackedLayout kPackedLayouts[] = {
    {"f32", 1, 32, false, 0, 0, true},    {"f16", 1, 16, false, 0, 0, true},
    {"bf16", 1, 16, false, 0, 0, true},   {"q4_0", 32, 4, false, 0, 8, false},
    {"q4_1", 32, 4, true, 0, 0, false},   {"q5_0", 32, 5, false, 0, 16, false},
    {"q5_1", 32, 5, true, 0, 0, false},   {"q8_0", 32, 8, false, 0, 0, false},
    {"q4_k", 256, 4, true, 8, 0, false},  {"q5_k", 256, 5, true, 8, 0, false},
    {"q6_k", 256, 6, false, 16, 32, false},
};

/// Null when the name is none of the packed layouts.
constexpr const PackedLayout *packedLayout(std::string_view name) {
  for (const PackedLayout &l : kPackedLayouts)
    if (name == l.name)
      return &l;
  return nullptr;
}

} // namespace g4::module
