/// GGUF blocks for kernel tests: random valid bytes, and what they stand for in double. Types with minima and those
/// the stored models use are decoded here, from ggml's block definitions and from nothing that the compiler uses; the
/// others by compiler/quants, which test/unit/quants compares with gguf-py.
#pragma once

#include <cstddef>
#include <cstdint>
#include <random>
#include <string>
#include <vector>

namespace g4::conformance {

struct Format {
  const char *name;
  int elements, bytes; ///< of a block
  bool isFloat;
};
/// Every format that a packed weight may have.
extern const std::vector<Format> kFormats;

/// One weight: scale * code + min. Floats, and types without minima that are not decoded here, are code 1 times
/// themselves.
struct Weight {
  double scale;
  int code;
  double min = 0;
  double value() const { return scale * code + min; }
};

enum class Scales {
  kAny,      ///< every finite half, subnormals too
  kModerate, ///< halves in [0.5, 2), sub-scales near 1, no minima of super-blocks: every code matters to a sum
};

/// Rows of random blocks, one after the other. All sub-scales and codes occur; the first row has all code
/// bits clear, the second all of them set, the third the most negative bytes: what overflows if anything
/// does.
std::vector<std::byte> randomRows(const Format &format, int64_t rows, int64_t columns, Scales scales,
                                  std::mt19937 &rng);

/// The weights of one row.
std::vector<Weight> decodeRow(const Format &format, const std::byte *row, int64_t columns);

} // namespace g4::conformance
