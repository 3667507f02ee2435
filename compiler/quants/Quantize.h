/// Writes GGUF's block formats: rows of f32 to blocks. The other direction is Dequantize.h.
#pragma once

#include "compiler/import/gguf/Gguf.h"

#include <cstddef>
#include <span>

namespace g4::quants {

/// The types that `quantize` writes, fewest bits first.
std::span<const gguf::Type> quantizableTypes();
bool canQuantize(gguf::Type type);

/// Writes `values`, whole blocks of `type`, to `out`, which has room for exactly those. Scales, minima and codes are
/// searched for so that the sum of weights[i] * (values[i] - stored[i])^2 is small; what a block can hold exactly is
/// held exactly where its scale is a single one (q4_0, q5_0, q8_0, iq4_nl).
/// `weights` has the importance of each value, finite and above 0, or is empty: all alike.
/// Results depend on the arguments alone: not on the machine, the number of threads or what was quantised before.
/// False, with `out` unspecified: `type` cannot be written, sizes do not fit, a value is NaN or infinite, or one is
/// too large for a format without scales (f16).
bool quantize(gguf::Type type, std::span<const float> values, std::span<const float> weights, std::span<std::byte> out);

} // namespace g4::quants
