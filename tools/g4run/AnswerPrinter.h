/// How an answer looks on a terminal.
#pragma once

#include "runtime/api/g4.h"

#include <optional>
#include <string>
#include <string_view>

namespace g4::tool {

/// Escape sequences for a terminal, unless NO_COLOR is set (no-color.org); elsewhere empty.
struct Style {
  Style();
  bool terminal; ///< standard output is one
  bool colour;
  const char *bold() const { return colour ? "\x1b[1m" : ""; }
  const char *green() const { return colour ? "\x1b[1;32m" : ""; }
  const char *dim() const { return colour ? "\x1b[2m" : ""; }
  const char *off() const { return colour ? "\x1b[0m" : ""; }
};

/// `text` without characters that a terminal would act on; line breaks and tabs stay.
std::string withoutControls(std::string_view text);

/// Prints one answer to standard output as it comes: thoughts dim, or between marks where there are no
/// colours.
class AnswerPrinter {
public:
  explicit AnswerPrinter(const Style &style) : style_(style) {}
  /// For api::GenerateRequest::onPart; false when standard output takes no more.
  bool print(api::Part part, std::string_view text);
  /// Ends the line.
  void finish();

private:
  const Style &style_;
  std::optional<api::Part> part_;
  char last_ = '\n';
};

} // namespace g4::tool
