/// Runs the step program of one module.
#pragma once

#include "runtime/engine/Step.h"
#include "runtime/module/Module.h"

#include <memory>
#include <optional>
#include <string>

namespace g4::engine {

struct EngineOptions {
  unsigned threads = 0;                    ///< 0: one per usable physical core
  std::string variant = {};                ///< code variant by name; empty: the best that runs here
  uint32_t maxSequences = 1;               ///< open at the same time
  uint32_t contextTokens = 0;              ///< positions per sequence; 0: the model's context
  std::optional<uint64_t> weightSeed = {}; ///< makes weights up; only for a module compiled without
  bool holds = false;                      ///< every sequence may hold
  uint64_t kvBytes =
      0; ///< of K/V pages, divided by kv::capacityForBytes; 0: as many as all sequences can need
  bool poisonFreePages = false; ///< tests: NaN in every free K/V page
};

/// What does not change from step to step.
struct EngineLimits {
  uint32_t rows, tailRows, logitRows; ///< most per step
  uint32_t contextTokens;             ///< most positions per sequence
  uint32_t vocabulary, hidden;
  uint32_t layers, expertsUsed; ///< expertsUsed is 0 without experts
};

/// Rows are independent: what a row gives does not depend on which other rows share its step, how a prompt
/// was cut into steps, or how many threads there are. Threads: one caller at a time.
class Engine {
public:
  /// Errors: kIncompatible when no code variant runs here; kInvalidArgument for options that do not fit the
  /// module; kResourceExhausted when memory for the context cannot be mapped.
  static Result<std::unique_ptr<Engine>> create(std::shared_ptr<const module::Module> module,
                                                const EngineOptions &options);
  ~Engine();

  const EngineLimits &limits() const;
  const module::Module &module() const;
  const std::string &variant() const; ///< of the code in use
  unsigned threadCount() const;

  kv::SeqId openSequence();
  Status closeSequence(kv::SeqId seq);
  Result<uint32_t> length(kv::SeqId seq) const;
  /// Forgets positions [length, ...) of `seq`. Errors: as kv::KvCache::truncate.
  Status truncate(kv::SeqId seq, uint32_t length);
  /// Keeps a way back to the present length of `seq`: see kv::KvCache::hold. For engines with `holds`.
  Status hold(kv::SeqId seq);
  const kv::KvCache &cache() const;
  /// For who opens sequences otherwise: a prefix tree, a fork, a file.
  kv::KvCache &cache();

  /// Runs one step: appends its rows to their sequences. All or nothing: a step that fails leaves every
  /// sequence as it was. Without a tap callback the whole program runs at once; with one, dispatch by
  /// dispatch. Errors: kInvalidArgument (a step that breaks a rule of Step; nothing ran), kResourceExhausted
  /// (no K/V pages; nothing ran), or what the callback returned.
  Result<StepOutput> run(const Step &step, const TapFn &onTap = nullptr);

  /// Spans of each later step go to `spans` (null: no more): see device::Device::trace. A launch's index is
  /// that of its dispatch in the program `step`.
  void trace(std::vector<device::LaunchSpan> *spans);

  const StepCounters &counters() const;

private:
  struct Impl;
  explicit Engine(std::unique_ptr<Impl> impl);
  std::unique_ptr<Impl> impl_;
};

} // namespace g4::engine
