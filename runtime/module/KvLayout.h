/// How one layer's K/V pages lie in memory. Shared by the kernels' bodies, the header's writer and its verifier.
///
/// Page id p starts at p * pageBytes(). A page of f32, f16 or bf16 is
///
///   K        [heads][page_tokens / 16][dim][16]   one strip = 16 keys of one column of the head
///   V        [heads][dim / 16][page_tokens][16]    sixteen columns of all positions: read one after the other
///
/// A page of q8_0 or q4_0 holds codes, and scales for each position and block of 32 columns:
///
///   K codes  i8  [heads][page_tokens / 16][dim][16]         q4_0: dim / 2 bytes for the dim columns
///   V codes  i8  [heads][dim / 32][page_tokens][32]         q4_0: 16 bytes for the 32 columns
///   K scales f16 [heads][page_tokens / 16][dim / 32][16]
///   V scales f16 [heads][dim / 32][page_tokens]
///
/// A value is scale * code (q8_0) or scale * (code - 8) (q4_0). q4_0 has two columns in a byte: byte j of a block's
/// sixteen holds column j in its low half and column j + 16 in its high half. So no byte belongs to two positions:
/// threads write neighbouring positions at the same time.
///
/// What quantised pages hold is rotated: each block of rotationBlock() columns of a head is multiplied by the
/// orthonormal Walsh-Hadamard matrix, which spreads a large column over its block. Queries are rotated too, so that
/// scores stay what they were, and the result of attention is rotated back (the matrix is its own inverse).
///
/// Values in free or partly filled pages are never read into a result: they may be NaN.
#pragma once

#include "runtime/module/StepAbi.h"

#include <optional>
#include <string_view>

namespace g4::module {

/// Columns of a head that share a scale.
inline constexpr uint32_t kKvBlock = 32;

struct KvLayout {
  uint32_t bits; ///< of an element or a code
  uint32_t heads, dim;

  bool isQuantised() const { return bits <= 8; }
  /// Bytes of all keys or all values of a page, without scales.
  uint64_t planeBytes() const { return uint64_t(heads) * kPageTokens * dim * bits / 8; }
  /// Bytes of all scales of keys or of values of a page.
  uint64_t scaleBytes() const {
    return isQuantised() ? uint64_t(heads) * kPageTokens * (dim / kKvBlock) * 2 : 0;
  }
  uint64_t pageBytes() const { return 2 * (planeBytes() + scaleBytes()); }
  /// The largest power of two up to 64 that divides the head dim.
  uint32_t rotationBlock() const { return dim % 64 == 0 ? 64 : dim & (~dim + 1); }
};

/// Nothing when pages cannot be of this element, or not for heads of this dim.
constexpr std::optional<KvLayout> kvLayout(std::string_view element, uint32_t heads, uint32_t dim) {
  const uint32_t bits = element == "f32"                         ? 32
                        : element == "f16" || element == "bf16" ? 16
                        : element == "q8_0"                      ? 8
                        : element == "q4_0"                      ? 4
                                                                 : 0;
  if (bits == 0 || (bits <= 8 && dim % kKvBlock != 0))
    return std::nullopt;
  return KvLayout{bits, heads, dim};
}

} // namespace g4::module
