/// What running an artifact takes in memory, from its header alone.
#pragma once

#include <cstdint>

namespace g4::module {

namespace fb {
struct ModuleT;
}

/// Bytes of a process's memory that one sequence takes from position 0 on, each at least once written or read:
/// weights, rows of tables, K/V, workspace, tokenizer. The program's own code and libraries come on top (a few MiB).
struct MemoryUse {
  uint64_t token;  ///< one token
  uint64_t prompt; ///< a prompt that fills a step (ProgramT::max_rows)
};

/// Of the program 'step'; zero where there is none. `header`: complete but for segments.
MemoryUse memoryUse(const fb::ModuleT &header, uint64_t tokenizerBytes);

} // namespace g4::module
