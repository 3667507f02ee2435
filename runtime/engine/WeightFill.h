/// Makes up weights for a module that was compiled without them.
#pragma once

#include "runtime/base/Status.h"

#include <cstddef>
#include <cstdint>
#include <span>
#include <string_view>

namespace g4::engine {

/// How one weight lies in memory, as the module's header says.
struct WeightShape {
  std::string_view name;
  std::string_view layout; ///< a module::PackedLayout, "vector", or "table:<GGUF type>"
  uint64_t rows;
  uint64_t columns;
};

/// Fills `bytes` with values that are valid for the layout, finite, and of the size that keeps activations in
/// range: a matrix's values spread like 1/sqrt(columns), a vector's lie in [0.5, 1.5]. The same seed, name,
/// layout and size give the same bytes on every machine.
/// Errors: kIncompatible for a layout this runtime does not know.
Status fillWeight(const WeightShape &shape, uint64_t seed, std::span<std::byte> bytes);

} // namespace g4::engine
