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

/// Multiplications with one kind of weights: the name of their packed layout, or "f32" where the activations
/// are floats.
struct FamilyMacs {
  std::string_view family; ///< lives as long as the model
  uint64_t macs = 0;
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
  std::vector<FamilyMacs> macs = {}; ///< multiplications with weights; empty: a kernel that does none
};

/// Where the time of some steps went.
struct Profile {
  uint64_t steps = 0;
  double seconds = 0;                  ///< of all steps
  double idleSeconds = 0;              ///< part of it in which no thread was in a kernel
  std::vector<KernelUse> kernels = {}; ///< longest first
};

/// What this machine could do while something was timed.
struct Limits {
  std::vector<double> readBandwidth; ///< bytes per second that all threads read from memory, of each probe
  struct Peak {
    std::string_view family;           ///< as FamilyMacs says
    std::vector<double> macsPerSecond; ///< of all threads, of each probe
  };
  /// By families of the model: device::contractionPeak. Those for which there is none are left out.
  std::vector<Peak> peaks;
};

/// Measures what the machine can do, in turn with tests: on a shared machine that changes within minutes.
/// Holds up to 1 GiB of memory. The model must outlive it.
class LimitsProbe {
public:
  /// Takes about half a second. Errors: kResourceExhausted.
  static Result<LimitsProbe> create(Model &model);
  LimitsProbe(LimitsProbe &&);
  ~LimitsProbe();

  /// Adds one value to each list. Takes 30 ms, and 10 ms for each family.
  void measure(Limits &limits);
  /// Most memory that this process has had at the same time but for the probe's own, in bytes, mapped files
  /// included; 0: unknown.
  uint64_t peakResidentBytes() const;

private:
  struct Impl;
  explicit LimitsProbe(std::unique_ptr<Impl> impl);
  std::unique_ptr<Impl> impl_;
};

struct BenchResult {
  std::vector<double> seconds; ///< of each repetition
  Limits limits;               ///< before each repetition and after the last
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
/// `batch` sessions, none of them open, and a probe of the same model. Tokens are made up. Errors: those of
/// checkBench, kResourceExhausted, kCancelled.
Result<BenchResult> bench(Model &model, LimitsProbe &probe, const BenchCase &what,
                          const BenchOptions &options);

/// Seconds of one step of one token: after opening a model, what its first token takes. Needs what bench()
/// needs.
Result<double> timeStep(Model &model);

} // namespace g4::api
