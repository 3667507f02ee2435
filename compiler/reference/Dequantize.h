/// The values that GGUF's block formats stand for.
#pragma once

#include "dialects/gguf/GgufDialect.h"

#include <cstddef>
#include <cstdint>
#include <span>

namespace g4::reference {

/// IEEE half and bfloat16 bits as f32, exact.
float halfToFloat(uint16_t bits);
float bfloat16ToFloat(uint16_t bits);

/// Writes the values of `blocks`, whole blocks of `type`, to `out`, which has room for exactly those. Each
/// value is computed in f32 as ggml's dequantize_row_* does. False when the type is not known here.
bool dequantize(gguf::ElementType type, std::span<const std::byte> blocks, std::span<float> out);

} // namespace g4::reference
