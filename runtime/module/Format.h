/// Bytes of a .g4m artifact outside its FlatBuffers header. No MLIR and no runtime types: the compiler
/// includes this file too.
///
///   0            Prelude, 64 bytes; zeros up to 4096
///   4096         segments in the order of writing, each at a multiple of 4096; zeros between them
///   headerOffset FlatBuffers header (module.fbs), a multiple of 4096; the last thing in the file
///
/// The header stands last, although it is read first, because it names the place and the hash of each
/// segment: so the writer makes one pass over bulk data of any size and keeps none of it. All integers are
/// little-endian.
#pragma once

#include <bit>
#include <cstddef>
#include <cstdint>

namespace g4::module {

static_assert(std::endian::native == std::endian::little, "g4 runs on little-endian machines only");

/// Carriage return, end-of-file and line feed reveal a transfer in text mode, as in PNG.
inline constexpr unsigned char kMagic[8] = {'G', '4', 'M', 0, '\r', '\n', 0x1a, '\n'};

/// Layout of the file, of the header (module.fbs) and of packed weights. Bump it with each change that an
/// older reader would misread.
inline constexpr uint32_t kFormatVersion = 1;
/// What generated code expects of the engine: StepAbi.h.
inline constexpr uint32_t kAbiVersion = 1;

/// Segments start at multiples of this, so that they can be mapped and advised on their own.
inline constexpr uint64_t kSegmentAlignment = 4096;
/// Weights within their segment and buffers within the arena start at multiples of this: a cache line, and
/// the widest vector that generated code loads.
inline constexpr uint64_t kDataAlignment = 64;
/// No honest header comes near; the bound keeps what a crafted file makes us read small.
inline constexpr uint64_t kMaxHeaderBytes = uint64_t(16) << 20;

struct Prelude {
  unsigned char magic[8];
  uint32_t formatVersion;
  uint32_t abiVersion;
  uint64_t fileSize; ///< tells a truncated file from a damaged one
  uint64_t headerOffset;
  uint64_t headerSize;
  uint64_t headerHash;  ///< hash64 of the header's bytes
  uint64_t reserved[2]; ///< zero
};
static_assert(sizeof(Prelude) == 64);

constexpr uint64_t alignUp(uint64_t value, uint64_t alignment) {
  return (value + alignment - 1) / alignment * alignment;
}

} // namespace g4::module
