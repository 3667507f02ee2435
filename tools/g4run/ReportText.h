/// What `g4run inspect` prints.
#pragma once

#include "runtime/api/Report.h"

#include <string>

namespace g4::tool {

std::string reportText(const api::Report &report);

/// "1.50 MiB"
std::string bytesText(uint64_t bytes);

} // namespace g4::tool
