/// Checks a header once, so that nothing that reads it later has to.
#pragma once

#include "runtime/base/Status.h"
#include "runtime/module/module_generated.h"

#include <cstddef>
#include <cstdint>
#include <span>

namespace g4::module {

/// Checks the structure of `header` (FlatBuffers' verifier), then the meaning of every field: enumerators,
/// indices, offsets, sizes, counts, names and their agreement. `fileSize` and `headerOffset` bound the
/// segments. Returns the header's root, which lives as long as `header`. `header` starts at a multiple of 8
/// bytes. Errors: kInvalidArgument with one line that names the entry and the field; kResourceExhausted.
Result<const fb::Module *> verifyHeader(std::span<const std::byte> header, uint64_t headerOffset,
                                        uint64_t fileSize);

} // namespace g4::module
