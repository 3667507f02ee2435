/// What this machine's memory can do, and how much of it this process has used.
#pragma once

#include "runtime/base/Status.h"

#include <cstdint>

namespace g4::device {

/// Bytes per second that `threads` threads (at least 1) read from memory together, at best. Takes up to 1
/// GiB, which no cache holds, but at most a quarter of what is available, and about a second at most. Errors:
/// kResourceExhausted.
Result<double> readBandwidth(unsigned threads);

/// Most bytes of this process that were in memory at the same time, those of mapped files included; 0: the
/// system does not say.
uint64_t peakResidentBytes();

} // namespace g4::device
