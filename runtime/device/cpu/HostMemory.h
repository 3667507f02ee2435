/// What this machine's memory can do, and how much of it this process has used.
#pragma once

#include "runtime/base/Status.h"
#include "runtime/device/cpu/ThreadTeam.h"

#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <memory>

namespace g4::device {

/// Measures how fast threads read from memory together, as often as asked: on a shared machine that changes
/// within minutes. Holds up to 1 GiB, which no cache holds, but at most a quarter of what was available.
class BandwidthProbe {
public:
  /// Takes about half a second. Errors: kResourceExhausted.
  static Result<BandwidthProbe> create(ThreadTeam &team);
  BandwidthProbe(BandwidthProbe &&) = default;

  /// Bytes per second, from where the last call stopped. Takes 30 ms. `team`: that of create().
  double measure(ThreadTeam &team);
  /// Bytes of memory that it holds.
  uint64_t bytes() const { return chunks_ << 20; }

private:
  using Memory = std::unique_ptr<std::byte, decltype(&std::free)>;
  BandwidthProbe(Memory memory, size_t chunks) : memory_(std::move(memory)), chunks_(chunks) {}

  Memory memory_;
  size_t chunks_, next_ = 0; // of 1 MiB
};

/// Most bytes of this process that were in memory at the same time, those of mapped files included; 0: the
/// system does not say.
uint64_t peakResidentBytes();

} // namespace g4::device
