/// Arrays as numpy's .npy files.
#pragma once

#include "tools/common/Files.h"

#include <cstdint>
#include <span>
#include <string>
#include <vector>

namespace g4::tool {

/// Writes one array [rows, columns] of a four-byte type, row by row, as OutputFile does: the file
/// appears in finish().
class NpyWriter {
public:
  /// `type`: "<f4" or "<i4". Errors: kInvalidArgument when the file cannot be made.
  static Result<NpyWriter> create(const std::string &path, const char *type, uint64_t rows, uint64_t columns);

  Status append(std::span<const std::byte> bytes);
  /// Errors: kResourceExhausted (disk full), kInternal (not as many bytes as the shape says).
  Status finish();

private:
  NpyWriter(std::string path, OutputFile file) : path_(std::move(path)), file_(std::move(file)) {}
  std::string path_;
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
