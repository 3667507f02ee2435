#include "tools/g4run/Progress.h"

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <unistd.h>

namespace g4::tool {

Progress::Progress(std::string label, std::string unit, Interval lines)
    : label_(std::move(label)), unit_(std::move(unit)), lines_(lines), start_(Clock::now()), last_(start_),
      terminal_(isatty(STDERR_FILENO) == 1) {}

Progress::~Progress() {
  if (shown_)
    std::fputs("\r\x1b[K", stderr);
}

void Progress::update(uint64_t done, uint64_t total) {
  using Seconds = std::chrono::duration<double>;
  const auto now = Clock::now();
  const double elapsed = Seconds(now - start_).count();
  if (total == 0 ||
      (terminal_ ? elapsed < 1 || now - last_ < Interval(100) : lines_ == kNone || now - last_ < lines_))
    return;
  last_ = now;
  shown_ = terminal_;
  const double rate = double(done) / elapsed;
  const double left = rate > 0 ? double(total - std::min(done, total)) / rate : 0;
  std::fprintf(stderr, "%s%s  %3.0f %%  %llu/%llu %s  %.1f %s/s  %.0f s left%s", terminal_ ? "\r" : "",
               label_.c_str(), 100.0 * double(done) / double(total), static_cast<unsigned long long>(done),
               static_cast<unsigned long long>(total), unit_.c_str(), rate, unit_.c_str(), std::ceil(left),
               terminal_ ? "\x1b[K" : "\n");
}

} // namespace g4::tool
