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

/// What one kernel cost, over all its calls.
struct KernelUse {
  std::string_view kernel = {}; ///< lives as long as the model
  uint64_t calls = 0;           ///< dispatches that had work
  double seconds = 0;           ///< of each call, from the first thread's begin to the last one's end
  double busySeconds = 0;       ///< of all threads together
  /// Bytes that a step has to read at least once: of experts, as many as that many rows choose if each is
  /// chosen equally often; of K/V, the positions that attention sees.
  uint64_t weightBytes = 0, kvBytes = 0;
  uint64_t macs = 0; ///< multiplications with weights
};

/// Where the time of some steps went.
struct Profile {
  uint64_t steps = 0;
  double seconds = 0;                  ///< of all steps
  double idleSeconds = 0;              ///< part of it in which no thread was in a kernel
  std::vector<KernelUse> kernels = {}; ///< longest first
};

struct BenchResult {
  std::vector<double> seconds; ///< of each repetition
  uint64_t steps;              ///< of one repetition
  Profile profile;             ///< of one more repetition (of at most 8 steps), which is not timed
};

struct BenchOptions {
  uint32_t repetitions = 5;
  /// Events of the repetition that is profiled.
  std::function<void(const TraceEvent &)> onTrace = nullptr;
  /// Before each repetition; false ends with kCancelled.
  std::function<bool(uint32_t done, uint32_t total)> onProgress = nullptr;
};

/// Whether `what` can be measured: what bench() checks first. Errors: kInvalidArgument (nothing to do, more
/// positions than the context, or more sequences than the model takes).
Status checkBench(Model &model, const BenchCase &what);

/// Measures `what`, after one repetition that warms up. Needs a model opened with `holds` and at least
/// `batch` sessions, none of them open. Tokens are made up. Errors: those of checkBench, kResourceExhausted,
/// kCancelled.
Result<BenchResult> bench(Model &model, const BenchCase &what, const BenchOptions &options);

/// Seconds of one step of one token: after opening a model, what its first token takes. Needs what bench()
/// needs.
Result<double> timeStep(Model &model);

/// Bytes per second that as many threads as the model has can read from this machine's memory. Takes about a
/// second and up to 1 GiB. Errors: kResourceExhausted.
Result<double> readBandwidth(const Model &model);

/// Most memory that this process has had at the same time, in bytes, mapped files included; 0: unknown.
uint64_t peakResidentBytes();

} // namespace g4::api
