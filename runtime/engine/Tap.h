/// Looking at a step from inside.
#pragma once

#include "runtime/base/Status.h"

#include <cstddef>
#include <cstdint>
#include <functional>
#include <string_view>

namespace g4::engine {

/// One named intermediate value of a step. Valid during the callback only.
struct TapView {
  enum class Type : uint8_t { kF32, kI32 };
  enum class Set : uint8_t { kRows, kTail, kLogits, kSingle };
  std::string_view name;
  int32_t layer; ///< -1: belongs to no layer
  Type type;
  Set set;           ///< which rows of the step it is over
  uint32_t rows;     ///< how many
  uint32_t columns;  ///< elements per row
  uint64_t rowBytes; ///< from one row to the next
  const std::byte *data;
};

/// Called after the dispatch that writes the value. A failure stops the step.
using TapFn = std::function<Status(const TapView &)>;

} // namespace g4::engine
