/// Builds small GGUF files, correct or wrong on purpose, byte by byte from the specification.
#pragma once

#include <cstdint>
#include <cstring>
#include <optional>
#include <string>
#include <string_view>
#include <type_traits>
#include <vector>

namespace g4::test {

/// Little-endian bytes of a number.
template <class T> std::string bytesOf(T value) {
  static_assert(std::is_arithmetic_v<T>);
  std::string bytes(sizeof value, '\0');
  std::memcpy(bytes.data(), &value, sizeof value);
  return bytes;
}

/// A GGUF string: u64 length, then the bytes.
inline std::string ggufString(std::string_view text) {
  return bytesOf<uint64_t>(text.size()) + std::string(text);
}

/// Fields are public so that a test can set one wrong; `build` writes them as they are.
struct GgufBuilder {
  // Value type numbers of the specification.
  enum : uint32_t { kU8, kI8, kU16, kI16, kU32, kI32, kF32, kBool, kString, kArray, kU64, kI64, kF64 };

  struct TensorInfo {
    std::string name;
    std::vector<uint64_t> dims;
    uint32_t type;
    uint64_t offset;
    std::optional<uint32_t> rank; ///< instead of dims.size()
  };

  std::string magic = "GGUF";
  uint32_t version = 3;
  std::optional<uint64_t> tensorCount, metadataCount; ///< instead of the true ones
  std::vector<std::string> metadata;                  ///< encoded entries
  std::vector<TensorInfo> tensors;
  uint64_t alignment = 32; ///< of the data section; the key is separate
  std::string data;        ///< the data section

  GgufBuilder &add(std::string_view key, uint32_t type, const std::string &value) {
    metadata.push_back(ggufString(key) + bytesOf(type) + value);
    return *this;
  }
  GgufBuilder &addString(std::string_view key, std::string_view value) {
    return add(key, kString, ggufString(value));
  }
  GgufBuilder &addArray(std::string_view key, uint32_t type, uint64_t count, const std::string &values) {
    return add(key, kArray, bytesOf(type) + bytesOf(count) + values);
  }
  /// A tensor at the next aligned place of the data section, filled with `bytes` bytes 0, 1, 2, ...
  GgufBuilder &addTensor(std::string name, std::vector<uint64_t> dims, uint32_t type, uint64_t bytes) {
    data.resize((data.size() + alignment - 1) / alignment * alignment);
    tensors.push_back({std::move(name), std::move(dims), type, data.size(), {}});
    for (uint64_t i = 0; i < bytes; ++i)
      data.push_back(static_cast<char>(i));
    return *this;
  }

  /// The file without its data section and the padding before it.
  std::string header() const {
    std::string file = magic + bytesOf(version) + bytesOf<uint64_t>(tensorCount.value_or(tensors.size())) +
                       bytesOf<uint64_t>(metadataCount.value_or(metadata.size()));
    for (const std::string &entry : metadata)
      file += entry;
    for (const TensorInfo &tensor : tensors) {
      file += ggufString(tensor.name) + bytesOf<uint32_t>(tensor.rank.value_or(tensor.dims.size()));
      for (uint64_t dim : tensor.dims)
        file += bytesOf(dim);
      file += bytesOf(tensor.type) + bytesOf(tensor.offset);
    }
    return file;
  }
  std::string build() const {
    std::string file = header();
    file.resize((file.size() + alignment - 1) / alignment * alignment);
    return file + data;
  }
};

/// One entry of each value kind, and tensors of several types: the file that mutation starts from.
inline GgufBuilder smallGguf() {
  using B = GgufBuilder;
  B b;
  b.addString("general.architecture", "gemma4")
      .add("general.alignment", B::kU32, bytesOf<uint32_t>(32))
      .add("u8", B::kU8, bytesOf<uint8_t>(8))
      .add("i8", B::kI8, bytesOf<int8_t>(-8))
      .add("u16", B::kU16, bytesOf<uint16_t>(16))
      .add("i16", B::kI16, bytesOf<int16_t>(-16))
      .add("i32", B::kI32, bytesOf<int32_t>(64))
      .add("u64", B::kU64, bytesOf<uint64_t>(uint64_t(1) << 40))
      .add("i64", B::kI64, bytesOf<int64_t>(-1))
      .add("f32", B::kF32, bytesOf(0.5f))
      .add("f64", B::kF64, bytesOf(0.25))
      .add("yes", B::kBool, bytesOf<uint8_t>(1))
      .addArray("strings", B::kString, 2, ggufString("a") + ggufString(""))
      .addArray("u32s", B::kU32, 3, bytesOf(1u) + bytesOf(2u) + bytesOf(3u))
      .addArray("i32s", B::kI32, 2, bytesOf(7) + bytesOf(9))
      .addArray("negative", B::kI32, 1, bytesOf(-1))
      .addArray("f32s", B::kF32, 1, bytesOf(1.5f))
      .addArray("bools", B::kBool, 2, std::string("\1\0", 2))
      .addArray("empty", B::kU32, 0, "")
      .addTensor("norm", {4}, /*f32*/ 0, 16)
      .addTensor("matrix", {64, 3}, /*q8_0*/ 8, 64 / 32 * 34 * 3)
      .addTensor("experts", {256, 2, 2}, /*q4_k*/ 12, 144 * 4)
      .addTensor("unknown", {5}, /*no such type*/ 999, 0);
  return b;
}

} // namespace g4::test
