#include "tools/g4run/Progress.h"

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <unistd.h>

namespace g4::tool {

Progress::Progress(std::string label, std::string unit)
    : label_(std::move(label)), unit_(std::move(unit)), start_(Clock::now()), last_(start_),
      terminal_(isatty(STDERR_FILENO) == 1) {}

Progress::~Progress() {
  if (shown_)
    std::fputs("\r\x1b[K", stderr);
}

void Progress::update(uint64_t done, uint64_t total) {
  using Seconds = std::chrono::duration<double>;
  const auto now = Clock::now();
  const double elapsed = Seconds(now - start_).count();
  if (!terminal_ || elapsed < 1 || Seconds(now - last_).count() < 0.1 || total == 0)
    return;
  last_ = now;
  shown_ = true;
  const double rate = double(done) / elapsed;
  const double left = rate > 0 ? double(total - std::min(done, total)) / rate : 0;
  std::fprintf(stderr, "\r%s  %3.0f %%  %llu/%llu %s  %.1f %s/s  %.0f s left\x1b[K", label_.c_str(),
               100.0 * double(done) / double(total), static_cast<unsigned long long>(done),
               static_cast<unsigned long long>(total), unit_.c_str(), rate, unit_.c_str(), std::ceil(left));
}

} // namespace g4::tool
