/// The two parts of what a model generates.
#pragma once

#include <cstdint>

namespace g4::text {

enum class Part : uint8_t { kAnswer, kThought };

} // namespace g4::text
