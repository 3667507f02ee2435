/// Pieces of a file that are made on many threads and written in order. No MLIR.
#pragma once

#include "runtime/base/Status.h"

#include "llvm/ADT/STLFunctionalExtras.h"

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

namespace g4::weights {

/// Makes pieces 0 … `count` - 1 with `make(i, piece)`, on as many threads as the machine has cores, and gives each to
/// `use(i, piece)` on the calling thread, in order; what `make` finds in `piece` is to be overwritten. About two pieces
/// for each thread exist at a time.
/// Errors: the first by the pieces' order; no piece after it is used, and none is being made when this returns.
Status inOrder(uint64_t count, llvm::function_ref<Status(uint64_t, std::vector<std::byte> &)> make,
               llvm::function_ref<Status(uint64_t, std::span<const std::byte>)> use);

} // namespace g4::weights
