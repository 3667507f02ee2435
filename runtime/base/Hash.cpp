#include "runtime/base/Hash.h"

#include <new>

// All in this file: no link against libxxhash, so that the static runner needs only libc.
#define XXH_INLINE_ALL
#include <xxhash.h>

namespace g4 {

uint64_t hash64(std::span<const std::byte> bytes) { return XXH64(bytes.data(), bytes.size(), 0); }

Hasher::Hasher() {
  static_assert(sizeof(XXH64_state_t) <= kStateBytes && alignof(XXH64_state_t) <= 8);
  XXH64_reset(new (state_) XXH64_state_t, 0);
}

void Hasher::update(std::span<const std::byte> bytes) {
  if (!bytes.empty())
    XXH64_update(std::launder(reinterpret_cast<XXH64_state_t *>(state_)), bytes.data(), bytes.size());
}

uint64_t Hasher::digest() const {
  return XXH64_digest(std::launder(reinterpret_cast<const XXH64_state_t *>(state_)));
}

} // namespace g4
