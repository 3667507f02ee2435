/// A line on the terminal that says how far a long task is.
#pragma once

#include <chrono>
#include <cstdint>
#include <string>

namespace g4::tool {

/// Shows "label  45 %  230/512 tokens  81.2 tokens/s  3 s left" on standard error, rewritten in place.
/// Nothing in the first second, nothing unless standard error is a terminal. Erases itself in the end.
class Progress {
public:
  Progress(std::string label, std::string unit);
  ~Progress();
  Progress(const Progress &) = delete;
  Progress &operator=(const Progress &) = delete;
  void update(uint64_t done, uint64_t total);

private:
  using Clock = std::chrono::steady_clock;
  std::string label_, unit_;
  Clock::time_point start_, last_;
  bool terminal_, shown_ = false;
};

} // namespace g4::tool
