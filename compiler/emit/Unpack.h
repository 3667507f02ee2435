/// GGUF blocks taken apart into what every packed layout consists of: scales and codes. No MLIR.
#pragma once

#include <cstdint>
#include <string_view>

namespace g4::emit {

/// One row's super-block. What a format does not have is left as it was.
struct SuperBlock {
  uint8_t d[2], m[2];
  uint8_t scales[16], minima[8];
  uint8_t codes[256]; ///< one a column; of grids one an entry, the low byte of its number
  uint64_t side[8];   ///< of grids: a block's side information, bits numbered as in module::Grid
};

struct BlockFormat {
  std::string_view name; ///< of the ggml type and of the packed layout
  uint32_t bytes;        ///< of a GGUF block, which is a super-block
  void (*unpack)(const uint8_t *block, SuperBlock &s);
};

/// Null for floats and unknown names.
const BlockFormat *blockFormat(std::string_view name);

} // namespace g4::emit
