/// Measures the speed of a model.
#pragma once

#include "runtime/api/g4.h"

namespace g4::api {

/// What is timed: `batch` sequences that hold `depth` positions already each get `tokens` more, at once (a
/// prompt) or one after the other (as generation does, without sampling).
struct BenchCase {
  enum class Kind : uint8_t { kPrefill, kDecode } kind;
  uint32_t tokens = 0, batch = 1, depth = 0;
};

/// One thread's work on one dispatch of a step.
struct TraceEvent {
  std::string_view kernel, set; ///< set: row set of the dispatch's grid; both live as long as the model
  int32_t layer;                ///< -1: none
  uint32_t dispatch;            ///< index in the program
  unsigned thread;
  uint64_t step;          ///< of the model, from 0
  int64_t beginNs, endNs; ///< of a clock that never goes back
};

struct BenchOptions {
  uint32_t repetitions = 5;
  /// Events of one more repetition (of at most 8 steps), which is not timed.
  std::function<void(const TraceEvent &)> onTrace = nullptr;
  /// Before each repetition; false ends with kCancelled.
  std::function<bool(uint32_t done, uint32_t total)> onProgress = nullptr;
};

/// Whether `what` can be measured: what bench() checks first. Errors: kInvalidArgument (nothing to do, more
/// positions than the context, or more sequences than the model takes).
Status checkBench(Model &model, const BenchCase &what);

/// Seconds of each repetition, after one that warms up. Needs a model opened with `holds` and at least
/// `batch` sessions, none of them open. Tokens are made up. Errors: those of checkBench, kResourceExhausted,
/// kCancelled.
Result<std::vector<double>> bench(Model &model, const BenchCase &what, const BenchOptions &options);

} // namespace g4::api
