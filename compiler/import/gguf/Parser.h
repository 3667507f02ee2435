/// The GGUF header's parser; Gguf.cpp wraps it. Not for others.
#pragma once

#include "compiler/import/gguf/Gguf.h"

namespace g4::gguf {

struct Header {
  uint32_t version = 0;
  std::vector<std::pair<std::string, Value>> metadata;
  std::vector<std::span<const std::byte>> metadataBytes; ///< of each entry: key, type, value
  std::vector<Tensor> tensors;
  // Indices in the order of names. Sorted, not hashed: a crafted file cannot make look-ups slow.
  std::vector<uint32_t> metadataByName;
  std::vector<uint32_t> tensorsByName;
};

/// Parses and checks everything in the file but tensor bytes. May throw std::bad_alloc.
/// Memory: at most a small multiple of the header's size, which is bounded, whatever counts the file claims.
Result<Header> parseHeader(std::span<const std::byte> bytes, File::Options options);

/// Index of `name` in a list through its index of names, or npos.
inline constexpr size_t kNotFound = ~size_t(0);
size_t findMetadata(const Header &header, std::string_view key);
size_t findTensor(const Header &header, std::string_view name);

} // namespace g4::gguf
