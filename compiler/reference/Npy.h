/// NumPy's .npy files: two-dimensional, float32 or int32, C order, version 1.0.
#pragma once

#include "runtime/base/Status.h"

#include <cstdint>
#include <span>
#include <string>
#include <vector>

namespace g4::reference {

Status writeNpy(const std::string &path, std::span<const float> values, int64_t rows, int64_t columns);
Status writeNpy(const std::string &path, std::span<const int32_t> values, int64_t rows, int64_t columns);

/// The elements of an int32 array of any shape.
Result<std::vector<int32_t>> readNpyInt32(const std::string &path);

} // namespace g4::reference
