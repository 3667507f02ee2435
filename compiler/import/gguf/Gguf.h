/// Reads GGUF files (versions 2 and 3, little-endian). Untrusted input: every count, offset, length, dimension
/// and alignment is checked before use. No MLIR, so that it builds and fuzzes in seconds.
/// Source: the GGUF specification (ggml, docs/gguf.md).
#pragma once

#include "runtime/base/Status.h"

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

namespace g4::gguf {

/// ggml type numbers. Only those this build can compute with have an entry in `typeInfo`'s supported set.
enum class Type : uint32_t {
  kF32 = 0, kF16 = 1, kQ4_0 = 2, kQ4_1 = 3, kQ5_0 = 6, kQ5_1 = 7, kQ8_0 = 8, kQ2_K = 10, kQ3_K = 11,
  kQ4_K = 12, kQ5_K = 13, kQ6_K = 14, kIQ2_XXS = 16, kIQ2_XS = 17, kIQ3_XXS = 18, kIQ1_S = 19, kIQ4_NL = 20,
  kIQ3_S = 21, kIQ2_S = 22, kIQ4_XS = 23, kI8 = 24, kI16 = 25, kI32 = 26, kI64 = 27, kF64 = 28, kIQ1_M = 29,
  kBF16 = 30, kTQ1_0 = 34, kTQ2_0 = 35, kMXFP4 = 39, kNVFP4 = 40, kQ1_0 = 41, kQ2_0 = 42,
};

/// Facts of a ggml type; null for a number we do not know.
struct TypeInfo {
  Type type;
  const char *name;      ///< lower case: "q4_k"
  uint32_t blockElements;
  uint32_t blockBytes;
};
const TypeInfo *typeInfo(uint32_t ggmlType);
const TypeInfo *typeInfoByName(std::string_view name);

/// A metadata value. Integers are widened; arrays of strings, integers, floats and bools have their own vector.
using Value = std::variant<uint64_t, int64_t, double, bool, std::string, std::vector<uint64_t>,
                           std::vector<int64_t>, std::vector<double>, std::vector<bool>,
                           std::vector<std::string>>;

struct Tensor {
  std::string name;
  uint32_t ggmlType;          ///< may be unknown to typeInfo; then size is 0
  std::vector<uint64_t> dims; ///< ggml order: dims[0] is the row length (columns), then rows, then matrices
  uint64_t offset;            ///< of the bytes, from the start of the file
  uint64_t size;              ///< in bytes
  uint64_t columns() const { return dims.empty() ? 1 : dims[0]; }
  /// Product of all dims but the first.
  uint64_t rows() const {
    uint64_t n = 1;
    for (size_t i = 1; i < dims.size(); ++i)
      n *= dims[i];
    return n;
  }
};

/// An opened file. Immutable; share freely between threads. Owns its mapping; spans live as long as it does.
class File {
public:
  struct Options {
    /// Accept a file that ends before its tensor data (`--weights=none`): header-only and sparse files.
    bool allowMissingData = false;
  };
  static Result<std::unique_ptr<File>> open(const std::string &path, Options options);
  /// Parses bytes that the caller keeps alive (tests, fuzzing).
  static Result<std::unique_ptr<File>> parse(std::span<const std::byte> bytes, Options options);

  ~File();
  const std::string &path() const;
  uint32_t version() const;
  uint64_t fileSize() const;
  const std::vector<Tensor> &tensors() const;
  const Tensor *findTensor(std::string_view name) const;
  /// The tensor's bytes; empty when data is missing.
  std::span<const std::byte> data(const Tensor &tensor) const;
  /// Tells the kernel that a range that was read is no longer wanted, to keep resident memory small.
  void releasePages(const Tensor &tensor) const;

  const std::vector<std::pair<std::string, Value>> &metadata() const;
  /// Entry `index` of `metadata()` as the file stores it: key, value type, value. For writing it again.
  std::span<const std::byte> metadataBytes(size_t index) const;
  const Value *find(std::string_view key) const;
  // Typed look-ups with widening between integer kinds; nullopt when absent **or of another type**.
  std::optional<uint64_t> getUint(std::string_view key) const;
  std::optional<double> getFloat(std::string_view key) const;
  std::optional<bool> getBool(std::string_view key) const;
  const std::string *getString(std::string_view key) const;
  const std::vector<std::string> *getStrings(std::string_view key) const;
  /// An integer array, or a single integer as an array of one.
  std::optional<std::vector<uint64_t>> getUints(std::string_view key) const;
  std::optional<std::vector<bool>> getBools(std::string_view key) const;

private:
  struct Impl;
  explicit File(std::unique_ptr<Impl> impl);
  std::unique_ptr<Impl> impl_;
};

} // namespace g4::gguf
