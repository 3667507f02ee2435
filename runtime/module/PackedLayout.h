/// How a packed weight lies in memory. Shared by the packer, the code generator's tests and `--weights=seed:N`.
///
/// Rows are packed in groups of kLanes = 16 and padded with zero rows to a whole group. A group is
///
///   row scales  f32 [16]    with kUe4m3 only: multiply all of a row
///   then one *super-block* after the other, of `superColumns` columns each:
///     d       f16 [16]             scale of each row; absent with kE8m0 and kUe4m3
///     m       f16 [16]             if hasMin: minimum (q4_1, q5_1) or scale of the minima (K formats)
///     scales  u8 [subBlocks][16]   as `scales` says
///     minima  u8 [subBlocks][16]   with kU8, if hasMin
///     then for each *block* of 32 columns its codes (kTernary: the codes of all blocks at once)
///
/// A code becomes a byte in a register, whatever its type: vector i of a block, i < 8, is [16 rows][4 columns], columns
/// 4 i .. 4 i + 3, so that one dword lane holds four neighbouring columns of one row, as the byte dot products of
/// every machine want them. A weight is `scale * (code - zero)`, plus its minimum. How vector i is stored:
///
///   kPlanes   `bits` bits in planes, whose widths are the powers of two that make up `bits`, the widest first with
///             the lowest bits. A plane of width w is w vectors. Its part of vector i lies
///                 w = 8: in vector i                  w = 4: in vector i % 4, at bit 4 (i / 4) of each byte
///                 w = 2: in vector i / 4, at bit 2 (i % 4)     w = 1: in the one vector, at bit i
///             8 bits are signed; `step` multiplies fewer (q1_0: codes 0 and 2).
///   kTable    4 bits as above: numbers of the values of a table (compiler/quants/Grids.h), plus `zero`
///   kTernary  13 vectors for 256 columns. Vector v of the super-block, counted from 0 to 63, is digit v % 5 of each byte
///             of vector v / 5. A byte with digits t0 .. t4 is ceil(256 / 243 * (81 t0 + 27 t1 + 9 t2 + 3 t3 + t4)), so
///             that digit n is (byte * 3^n mod 256) * 3 / 256.
///   kGrid     32 / columns entries of a grid (compiler/quants/Grids.h), each four or eight values. A block is
///                 index  u8 [32 / columns / 4][16][4]   low byte of each entry's number
///                 side   `sideBytes` bytes a row: planes u32 [16], u16 [16], u8 [16] as their number needs them.
///                        Bits are numbered through all planes; `Grid` says which fields are where.
///
/// Float matrices are [columns][16] elements. `vector` weights (gains, scales) are plain f32, `table` weights are the
/// GGUF rows as stored (nvfp4: each followed by its f32 row scale).
#pragma once

#include <cstdint>
#include <cstring>
#include <string_view>

namespace g4::module {

/// What the scales of sub-blocks are, and what multiplies them.
enum class Scales : uint8_t {
  kNone,  ///< d is the scale
  kI8,    ///< d * signed byte
  kU8,    ///< d * byte; the minimum is -m * another byte
  kU4,    ///< d * low half of a byte; the minimum is -m * its high half
  kE8m0,  ///< 2^(byte - 128), subnormals below 2
  kUe4m3, ///< row scale * the byte as an unsigned 8-bit float of four exponent bits (bias 7), times 1/2; 0x7f is 0
  kGrid,  ///< d * Grid::unit * (2 * field + 1)
};

enum class Codes : uint8_t { kPlanes, kTable, kTernary, kGrid };

/// Field `n` has `bits` bits from `first` + n * `stride` on. No field: no bits.
struct SideField {
  uint8_t first = 0, stride = 0, bits = 0;
};

struct Grid {
  uint8_t columns = 0;   ///< of an entry
  uint8_t sideBytes = 0; ///< of a row in a block
  SideField high = {};       ///< of entry n: bits 8.. of its number
  SideField signs = {};      ///< of columns 8 n .. 8 n + 7, set: negative. 7 bits: the eighth makes their number even
  SideField delta = {};      ///< of columns 8 n .. 8 n + 7: 1 is added to a code, or -1 if set
  SideField scale = {};      ///< of the block's sub-block n
  float unit = 0;        ///< of a scale
};

struct PackedLayout {
  const char *name;
  uint32_t superColumns;       ///< a multiple of 32; 1 for floats
  uint32_t bits;               ///< of a code in planes; of an element for floats
  bool hasMin = false;
  uint32_t subBlocks = 0;      ///< scales per super-block; 0: d is the scale
  int32_t zero = 0;            ///< subtracted from a code
  bool isFloat = false;
  Scales scales = Scales::kNone;
  Codes codes = Codes::kPlanes;
  uint32_t step = 1;           ///< between the codes of a plane
  int32_t largest = 0;         ///< magnitude of a code
  Grid grid = {};

  /// Whether codes are signed bytes; the others are below 128 and have a `zero`.
  constexpr bool hasSignedCodes() const {
    return bits == 8 || codes == Codes::kGrid || (codes == Codes::kTable && zero == 0);
  }
  /// Scales of a row in a block.
  constexpr uint32_t scalesPerBlock() const { return subBlocks * 32 > superColumns ? 2 : 1; }
  /// How many vectors of sums of two products of a code and an activation, which is within +-127, can be added in int16.
  constexpr uint32_t sumsInInt16() const {
    const int32_t most = 32767 / (2 * 127 * largest);
    return most > 1 ? uint32_t(most) : 1;
  }
  constexpr bool hasD() const { return scales != Scales::kE8m0 && scales != Scales::kUe4m3; }
  /// Bytes before a group's first super-block.
  constexpr uint32_t groupHeaderBytes() const { return scales == Scales::kUe4m3 ? 64 : 0; }
  /// Offsets from the start of a super-block: of the scales, of kU8's minima, of the codes.
  constexpr uint32_t scalesOffset() const { return (hasD() ? 32 : 0) + (hasMin ? 32 : 0); }
  constexpr uint32_t minimaOffset() const { return scalesOffset() + 16 * subBlocks; }
  constexpr uint32_t headerBytes() const {
    if (isFloat)
      return 0;
    uint32_t planes = scales == Scales::kNone || scales == Scales::kGrid ? 0 : scales == Scales::kU8 && hasMin ? 2 : 1;
    return scalesOffset() + 16 * subBlocks * planes;
  }
  /// Bytes of a grid's index in a block; its side information follows.
  constexpr uint32_t indexBytes() const { return 16 * 32 / grid.columns; }
  constexpr uint32_t blockCodeBytes() const {
    return codes == Codes::kGrid ? indexBytes() + 16 * grid.sideBytes : 2 * 32 * bits; // 16 rows * 32 columns * bits / 8
  }
  constexpr uint64_t superBytes() const {
    if (isFloat)
      return 16 * bits / 8;
    return headerBytes() + (codes == Codes::kTernary ? 13 * 64 : superColumns / 32 * blockCodeBytes());
  }
  constexpr uint64_t groupBytes(uint64_t columns) const {
    return groupHeaderBytes() + columns / superColumns * superBytes();
  }
  constexpr uint64_t matrixBytes(uint64_t rows, uint64_t columns) const {
    return (rows + 15) / 16 * groupBytes(columns);
  }
};

inline constexpr PackedLayout kPackedLayouts[] = {
    {.name = "f32", .superColumns = 1, .bits = 32, .isFloat = true},
    {.name = "f16", .superColumns = 1, .bits = 16, .isFloat = true},
    {.name = "bf16", .superColumns = 1, .bits = 16, .isFloat = true},
    {.name = "q4_0", .superColumns = 32, .bits = 4, .zero = 8, .largest = 15},
    {.name = "q4_1", .superColumns = 32, .bits = 4, .hasMin = true, .largest = 15},
    {.name = "q5_0", .superColumns = 32, .bits = 5, .zero = 16, .largest = 31},
    {.name = "q5_1", .superColumns = 32, .bits = 5, .hasMin = true, .largest = 31},
    {.name = "q8_0", .superColumns = 32, .bits = 8, .largest = 128},
    {.name = "q2_k", .superColumns = 256, .bits = 2, .hasMin = true, .subBlocks = 16, .scales = Scales::kU4, .largest = 3},
    {.name = "q3_k", .superColumns = 256, .bits = 3, .subBlocks = 16, .zero = 4, .scales = Scales::kI8, .largest = 7},
    {.name = "q4_k", .superColumns = 256, .bits = 4, .hasMin = true, .subBlocks = 8, .scales = Scales::kU8, .largest = 15},
    {.name = "q5_k", .superColumns = 256, .bits = 5, .hasMin = true, .subBlocks = 8, .scales = Scales::kU8, .largest = 31},
    {.name = "q6_k", .superColumns = 256, .bits = 6, .subBlocks = 16, .zero = 32, .scales = Scales::kI8, .largest = 63},
    {.name = "iq4_nl", .superColumns = 32, .bits = 4, .codes = Codes::kTable, .largest = 127},
    {.name = "iq4_xs", .superColumns = 256, .bits = 4, .subBlocks = 8, .scales = Scales::kI8, .codes = Codes::kTable, .largest = 127},
    {.name = "mxfp4", .superColumns = 32, .bits = 4, .subBlocks = 1, .zero = 12, .scales = Scales::kE8m0, .codes = Codes::kTable, .largest = 24},
    {.name = "nvfp4", .superColumns = 64, .bits = 4, .subBlocks = 4, .zero = 12, .scales = Scales::kUe4m3, .codes = Codes::kTable, .largest = 24},
    {.name = "tq1_0", .superColumns = 256, .bits = 0, .zero = 1, .codes = Codes::kTernary, .largest = 2},
    {.name = "tq2_0", .superColumns = 256, .bits = 2, .zero = 1, .largest = 3},
    {.name = "q1_0", .superColumns = 128, .bits = 1, .zero = 1, .step = 2, .largest = 2},
    {.name = "q2_0", .superColumns = 64, .bits = 2, .zero = 1, .largest = 3},
    {.name = "iq2_xxs", .superColumns = 256, .bits = 0, .subBlocks = 8, .scales = Scales::kGrid, .codes = Codes::kGrid, .largest = 43,
     .grid = {.columns = 8, .sideBytes = 4, .signs = {0, 7, 7}, .scale = {28, 0, 4}, .unit = 0.125f}},
    {.name = "iq2_xs", .superColumns = 256, .bits = 0, .subBlocks = 16, .scales = Scales::kGrid, .codes = Codes::kGrid, .largest = 43,
     .grid = {.columns = 8, .sideBytes = 5, .high = {28, 1, 1}, .signs = {0, 7, 7}, .scale = {32, 4, 4}, .unit = 0.125f}},
    {.name = "iq2_s", .superColumns = 256, .bits = 0, .subBlocks = 16, .scales = Scales::kGrid, .codes = Codes::kGrid, .largest = 43,
     .grid = {.columns = 8, .sideBytes = 6, .high = {32, 2, 2}, .signs = {0, 8, 8}, .scale = {40, 4, 4}, .unit = 0.125f}},
    {.name = "iq3_xxs", .superColumns = 256, .bits = 0, .subBlocks = 8, .scales = Scales::kGrid, .codes = Codes::kGrid, .largest = 62,
     .grid = {.columns = 4, .sideBytes = 4, .signs = {0, 7, 7}, .scale = {28, 0, 4}, .unit = 0.25f}},
    {.name = "iq3_s", .superColumns = 256, .bits = 0, .subBlocks = 8, .scales = Scales::kGrid, .codes = Codes::kGrid, .largest = 15,
     .grid = {.columns = 4, .sideBytes = 6, .high = {32, 1, 1}, .signs = {0, 8, 8}, .scale = {40, 0, 4}, .unit = 1}},
    {.name = "iq1_s", .superColumns = 256, .bits = 0, .subBlocks = 8, .scales = Scales::kGrid, .codes = Codes::kGrid, .largest = 9,
     .grid = {.columns = 8, .sideBytes = 2, .high = {0, 3, 3}, .delta = {15, 0, 1}, .scale = {12, 0, 3}, .unit = 0.125f}},
    {.name = "iq1_m", .superColumns = 256, .bits = 0, .subBlocks = 16, .scales = Scales::kGrid, .codes = Codes::kGrid, .largest = 9,
     .grid = {.columns = 8, .sideBytes = 3, .high = {0, 4, 3}, .delta = {3, 4, 1}, .scale = {16, 4, 3}, .unit = 0.125f}},
};

/// Null when the name is none of the packed layouts.
constexpr const PackedLayout *packedLayout(std::string_view name) {
  for (const PackedLayout &l : kPackedLayouts)
    if (name == l.name)
      return &l;
  return nullptr;
}

} // namespace g4::module
