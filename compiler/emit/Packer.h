/// GGUF rows into the packed layout (runtime/module/PackedLayout.h). No MLIR.
#pragma once

#include "runtime/module/PackedLayout.h"

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>

namespace g4::emit {

/// What rows are multiplied by unless the file says otherwise.
inline constexpr std::array<float, 16> kNoRowScales = {1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1};

/// Packs one group of sixteen rows. `rows[r]` is row r's bytes as GGUF stores them (layout.name is the ggml type),
/// or null for a padding row, which becomes zeros. `out` has layout.groupBytes(columns) bytes.
/// `columns` is a multiple of 32 and of the super-block. `rowScales` go into layouts that have them. Threads: free.
void packGroup(const module::PackedLayout &layout, uint64_t columns, const std::array<const std::byte *, 16> &rows,
               std::span<std::byte> out, const std::array<float, 16> &rowScales = kNoRowScales);

/// Widens a row of f32, f16 or bf16 to f32 and multiplies it.
void widenRow(const module::PackedLayout &layout, uint64_t columns, const std::byte *row, float factor, float *out);

} // namespace g4::emit
