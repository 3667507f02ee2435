/// A tiny valid .g4m artifact, and the means to spoil it.
#pragma once

#include "runtime/module/module_generated.h"

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

namespace g4::test {

/// Bytes at a multiple of 64, as the loader wants them; exactly `size` of them, so that a sanitizer sees any
/// read behind the end.
class AlignedBytes {
public:
  explicit AlignedBytes(size_t size);
  explicit AlignedBytes(std::span<const std::byte> content);
  std::span<std::byte> span() { return {data_.get(), size_}; }
  std::span<const std::byte> span() const { return {data_.get(), size_}; }
  size_t size() const { return size_; }
  std::byte &operator[](size_t i) { return data_.get()[i]; }
  /// Overwrites a number of the prelude or of anything else.
  template <class T> void put(size_t offset, T value) {
    for (size_t i = 0; i < sizeof value; ++i)
      data_.get()[offset + i] = static_cast<std::byte>(value >> (8 * i));
  }

private:
  struct Free {
    void operator()(std::byte *memory) const;
  };
  std::unique_ptr<std::byte, Free> data_;
  size_t size_;
};

/// The header of the tiny artifact before its segments are known: three layers (one sliding, one global, one
/// that shares the first one's K/V), two weights, a program "step" of two dispatches. Its segments are 0:
/// weights of 4096 bytes, 1: code, 2: tokenizer.
module::fb::ModuleT tinyHeader();

/// Writes the tiny artifact to `path` with the Writer.
void writeTinyModule(const std::string &path);
/// The tiny artifact's bytes.
AlignedBytes tinyModule();
/// Its header, segments included, to change.
std::unique_ptr<module::fb::ModuleT> unpackHeader(const AlignedBytes &artifact);
/// The artifact with another header; the prelude is made to agree with it, nothing is verified.
AlignedBytes withHeader(const AlignedBytes &artifact, const module::fb::ModuleT &header);

} // namespace g4::test
