/// K/V pages as tests write and read them, in double and from the layout's description (runtime/module/KvLayout.h),
/// not from the code that computes with it.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

namespace g4::conformance {

/// Keys or values of one layer.
enum class Kind { kKey, kValue };

struct KvOracle {
  std::string type; ///< f32, f16, bf16, q8_0, q4_0
  int64_t heads, dim;

  bool isQuantised() const { return type[0] == 'q'; }
  int64_t bits() const { return type == "f32" ? 32 : type == "q8_0" ? 8 : type == "q4_0" ? 4 : 16; }
  size_t pageBytes() const;
  /// Pages of which every value is NaN.
  void fillNan(std::span<std::byte> pages) const;
  /// Writes one position's key or value of a head, `dim` columns as the page holds them (rotated, if quantised), and
  /// replaces `x` by what it holds now.
  void store(std::span<std::byte> page, Kind kind, int64_t head, int64_t slot, std::span<float> x) const;
  std::vector<double> load(std::span<const std::byte> page, Kind kind, int64_t head, int64_t slot) const;
  /// Scale of a column of a position: one step of its code.
  double scale(std::span<const std::byte> page, Kind kind, int64_t head, int64_t slot, int64_t column) const;
  /// Its code as stored; 15 of q4_0 may stand for a value one step beyond.
  int code(std::span<const std::byte> page, Kind kind, int64_t head, int64_t slot, int64_t column) const;

  /// Columns of a head that are rotated together; 1 without rotation.
  int64_t rotationBlock() const { return !isQuantised() ? 1 : dim % 64 ? 32 : 64; }
  /// Multiplies each block of columns by the orthonormal Walsh-Hadamard matrix: its own inverse.
  std::vector<double> rotate(std::span<const double> x) const;
  /// Bound of what `x`, each off by `bound`, is off by after a rotation in float32: six sums and a product.
  std::vector<double> rotatedBound(std::span<const double> x, std::span<const double> bound) const;

private:
  size_t scaleAt(Kind kind, int64_t head, int64_t slot, int64_t column) const;
  size_t codeAt(Kind kind, int64_t head, int64_t slot, int64_t column) const;
};

} // namespace g4::conformance
