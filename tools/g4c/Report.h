/// What g4c tells a person: one line per error, progress on a terminal.
#pragma once

#include "mlir/Support/LLVM.h"
#include "llvm/ADT/Twine.h"

#include <chrono>
#include <cstdint>
#include <string>

namespace g4::g4c {

/// Prints "g4c: error: message" and fails.
mlir::LogicalResult fail(const llvm::Twine &message);

/// Tool and LLVM versions, for the artifact's header.
std::string producer();

/// One line on stderr that is rewritten; only on a terminal, only for what takes over a second.
class Progress {
public:
  Progress();
  ~Progress();
  void phase(std::string name);
  /// Bytes done and in all of the current phase: rate and time left.
  void bytes(uint64_t done, uint64_t all);

private:
  void show(const std::string &text);
  void clear();
  using Clock = std::chrono::steady_clock;
  bool terminal, shown = false;
  std::string name;
  Clock::time_point begin, phaseBegin, last;
};

} // namespace g4::g4c
