/// Stop strings in streamed text, whatever the pieces it arrives in.
#pragma once

#include "runtime/base/Status.h"

#include <string>
#include <string_view>
#include <vector>

namespace g4::text {

/// Watches one stream for the stop string that is complete first (of several that end at one byte, the
/// longest), so the result does not depend on how the text is cut into pieces. Not thread safe; one per
/// sequence.
class StopStrings {
public:
  /// Errors: kInvalidArgument (an empty stop string, or one of more than 1 KiB).
  static Result<StopStrings> create(std::vector<std::string> stops);

  /// Takes the next piece; returns the text that can be shown now. The start of a possible match is held
  /// back; of a match neither it nor what follows is ever returned. After a match the answer is always empty.
  std::string push(std::string_view piece);
  /// The end of the stream: the text held back, which turned out to be no match.
  std::string finish();

  bool stopped() const { return !matched_.empty(); }
  /// The stop string that ended the stream, or empty.
  const std::string &matched() const { return matched_; }

private:
  explicit StopStrings(std::vector<std::string> stops) : stops_(std::move(stops)) {}

  std::vector<std::string> stops_;
  std::string held_; ///< the longest suffix of the stream that begins a stop string
  std::string matched_;
};

} // namespace g4::text
