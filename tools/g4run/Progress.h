/// Says how far a long task is.
#pragma once

#include <chrono>
#include <cstdint>
#include <string>

namespace g4::tool {

/// Shows "label  45 %  230/512 tokens  81.2 tokens/s  3 s left" on standard error, rewritten in place.
/// Nothing in the first second. Erases itself in the end. Where standard error is no terminal it shows
/// nothing, or lines, as asked.
class Progress {
public:
  using Interval = std::chrono::milliseconds;
  static constexpr Interval kNone{0}, kLines{10'000};
  /// `lines`: time between lines where there is no terminal.
  Progress(std::string label, std::string unit, Interval lines = kNone);
  ~Progress();
  Progress(const Progress &) = delete;
  Progress &operator=(const Progress &) = delete;
  void update(uint64_t done, uint64_t total);

private:
  using Clock = std::chrono::steady_clock;
  std::string label_, unit_;
  Interval lines_;
  Clock::time_point start_, last_;
  bool terminal_, shown_ = false;
};

} // namespace g4::tool
