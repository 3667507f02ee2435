#include "runtime/text/StopStrings.h"

#include <algorithm>

namespace g4::text {

Result<StopStrings> StopStrings::create(std::vector<std::string> stops) {
  constexpr size_t kMaxBytes = 1024; // bounds the text held back and the work for each byte
  for (const std::string &stop : stops)
    if (stop.empty() || stop.size() > kMaxBytes)
      return invalidArgument("a stop string has " + std::to_string(stop.size()) + " bytes; 1 to " +
                             std::to_string(kMaxBytes) + " are supported");
  return StopStrings(std::move(stops));
}

std::string StopStrings::push(std::string_view piece) {
  std::string out;
  if (stopped())
    return out;
  if (stops_.empty())
    return std::string(piece);
  for (char c : piece) {
    held_ += c;
    const std::string *match = nullptr;
    for (const std::string &stop : stops_)
      if (held_.ends_with(stop) && (!match || stop.size() > match->size()))
        match = &stop;
    if (match) {
      out.append(held_, 0, held_.size() - match->size());
      held_.clear();
      matched_ = *match;
      return out;
    }
    // Let go of what can no longer begin a stop string.
    const auto begins = [&](size_t from) {
      const std::string_view tail = std::string_view(held_).substr(from);
      return std::any_of(stops_.begin(), stops_.end(),
                         [&](const std::string &stop) { return stop.starts_with(tail); });
    };
    size_t from = 0;
    while (from < held_.size() && !begins(from))
      ++from;
    out.append(held_, 0, from);
    held_.erase(0, from);
  }
  return out;
}

std::string StopStrings::finish() {
  std::string out;
  out.swap(held_);
  return out;
}

} // namespace g4::text
