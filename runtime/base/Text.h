/// Small helpers for one-line messages.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

namespace g4 {

/// `text` in single quotes, fit for one line of a terminal: control and non-ASCII bytes as \xNN, at most 80
/// bytes of it and then "...". For names that come from files.
std::string quotedName(std::string_view text);

/// A path in single quotes: whole, since its end is what tells files apart, and readable in any script; only bytes
/// that are no UTF-8 text for a terminal (control characters, broken sequences) become \xNN.
std::string quotedPath(std::string_view path);

/// "No such file or directory" for an errno value; thread-safe.
std::string errnoText(int error);

} // namespace g4
