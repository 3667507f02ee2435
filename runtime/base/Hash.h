/// The hash of the artifact's header and segments: XXH64 with seed 0. It finds damage, not tampering.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

namespace g4 {

uint64_t hash64(std::span<const std::byte> bytes);

/// The same hash over bytes that arrive in pieces. Never allocates.
class Hasher {
public:
  Hasher();
  void update(std::span<const std::byte> bytes);
  /// The hash of all bytes so far; more may follow.
  uint64_t digest() const;

private:
  // Room for an XXH64_state_t, whose definition stays out of this header; Hash.cpp checks size and alignment.
  static constexpr size_t kStateBytes = 88;
  alignas(8) unsigned char state_[kStateBytes];
};

} // namespace g4
