/// Arrays as numpy's .npy files.
#pragma once

#include "tools/common/Files.h"

#include <cstdint>
#include <span>
#include <string>
#include <vector>

namespace g4::tool {

/// Writes one array [rows, columns] of a four-byte type, row by row. The file appears in finish().
class NpyWriter {
public:
  /// `type`: "<f4" or "<i4". Errors, here and below: those of OutputFile.
  static Result<NpyWriter> create(OutputFile file, const char *type, uint64_t rows, uint64_t columns);

  Status append(std::span<const std::byte> bytes);
  /// Errors: kInternal, too, where it was not as many bytes as the shape says.
  Status finish();

private:
  explicit NpyWriter(OutputFile file) : file_(std::move(file)) {}
  OutputFile file_;
  uint64_t left_ = 0; // bytes
};

struct IntArray {
  std::vector<uint64_t> shape;
  std::vector<int32_t> values;
};

/// Reads a C-ordered array of little-endian int32.
/// Errors: kInvalidArgument (no such file, or another kind of array), kDataLoss (truncated).
Result<IntArray> readNpyInts(const std::string &path);

} // namespace g4::tool
