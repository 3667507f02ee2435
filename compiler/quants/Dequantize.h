/// The values that GGUF's block formats stand for.
#pragma once

#include "compiler/import/gguf/Gguf.h"

#include <cstddef>
#include <cstdint>
#include <span>

namespace g4::quants {

/// IEEE half and bfloat16 bits as f32, exact.
float halfToFloat(uint16_t bits);
float bfloat16ToFloat(uint16_t bits);

/// Whether `dequantize` knows the type: all that hold weights, none of the integer ones and not f64.
bool canDequantize(gguf::Type type);

/// Writes the values of `blocks`, whole blocks of `type`, to `out`, which has room for exactly those. Each
/// value is computed in f32 as ggml's dequantize_row_* does. False, with nothing written, when the type has
/// no values here or the sizes do not fit.
bool dequantize(gguf::Type type, std::span<const std::byte> blocks, std::span<float> out);

} // namespace g4::quants
