/// What `g4run inspect` prints, and what numbers look like there and elsewhere.
#pragma once

#include "runtime/api/Report.h"

#include <string>

namespace g4::tool {

std::string reportText(const api::Report &report);

/// Appends what printf would print.
[[gnu::format(printf, 2, 3)]] void addText(std::string &out, const char *format, ...);

/// "1.50 MiB"
std::string bytesText(uint64_t bytes);

/// "1 token", "2 tokens"
std::string counted(uint64_t count, const char *what);

} // namespace g4::tool
