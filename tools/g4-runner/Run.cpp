#include "tools/g4-runner/Run.h"
#include "runtime/base/Text.h"
#include "runtime/engine/Prefill.h"
#include "tools/common/Npy.h"

#include <algorithm>
#include <chrono>
#include <cstdio>

namespace g4::runner {
namespace {

using Clock = std::chrono::steady_clock;
double secondsSince(Clock::time_point start) {
  return std::chrono::duration<double>(Clock::now() - start).count();
}

/// A prompt and what follows it, in a sequence that is closed in the end.
class Run {
public:
  explicit Run(engine::Engine &engine) : engine_(engine), seq_(engine.openSequence()) {}
  ~Run() { (void)engine_.closeSequence(seq_); } // it is open, so this cannot fail
  Run(const Run &) = delete;
  Run &operator=(const Run &) = delete;

  /// `logits`: where those of all rows go; null: only the last row's are computed.
  Status prompt(std::span<const int32_t> ids, uint32_t chunk, tool::NpyWriter *logits) {
    const auto start = Clock::now();
    engine::PrefillOptions options{chunk, logits ? engine::Want::kAll : engine::Want::kLast};
    Status status = engine::prefill(engine_, seq_, ids, options,
                                    [&](uint32_t, uint32_t, const engine::StepOutput &output) -> Status {
                                      if (logits)
                                        G4_RETURN_IF_ERROR(logits->append(std::as_bytes(output.logits)));
                                      choose(output);
                                      return {};
                                    });
    promptSeconds = secondsSince(start);
    return status;
  }

  /// Greedy; the lowest id of equals. Fewer tokens where the context ends.
  Result<std::vector<int32_t>> generate(uint32_t tokens) {
    const auto start = Clock::now();
    std::vector<int32_t> out;
    while (out.size() < tokens) {
      if (!out.empty()) { // the first token comes from the prompt's logits
        G4_ASSIGN_OR_RETURN(const uint32_t length, engine_.length(seq_));
        if (length >= engine_.limits().contextTokens)
          break;
        G4_RETURN_IF_ERROR(engine::prefill(engine_, seq_, {&best_, 1}, {},
                                           [&](uint32_t, uint32_t, const engine::StepOutput &output) -> Status {
                                             choose(output);
                                             return {};
                                           }));
      }
      out.push_back(best_);
    }
    generationSeconds = secondsSince(start);
    return out;
  }

  double promptSeconds = 0, generationSeconds = 0;

private:
  void choose(const engine::StepOutput &output) {
    if (output.logits.empty())
      return;
    const auto last = output.logits.last(engine_.limits().vocabulary);
    best_ = int32_t(std::max_element(last.begin(), last.end()) - last.begin());
  }

  engine::Engine &engine_;
  kv::SeqId seq_;
  int32_t best_ = 0;
};

double rate(size_t n, double seconds) { return seconds > 0 ? double(n) / seconds : 0; }

/// The best of some runs: other work on the machine only ever adds time.
Status bench(engine::Engine &engine, const Options &o) {
  constexpr int kRuns = 3;
  const engine::EngineLimits &limits = engine.limits();
  std::vector<int32_t> ids = o.ids;
  if (ids.empty()) {
    ids.resize(std::min({512u, limits.rows, limits.contextTokens}));
    for (size_t i = 0; i < ids.size(); ++i)
      ids[i] = int32_t(i * 7919 % limits.vocabulary);
  }
  double prompt = 0, generation = 0;
  size_t steps = 0;
  for (int i = 0; i < kRuns; ++i) {
    Run run(engine);
    G4_RETURN_IF_ERROR(run.prompt(ids, o.chunk, nullptr));
    G4_ASSIGN_OR_RETURN(const auto tokens, run.generate(33));
    steps = tokens.size() - 1;
    prompt = std::max(prompt, rate(ids.size(), run.promptSeconds));
    generation = std::max(generation, rate(steps, run.generationSeconds));
  }
  std::printf("code        %s, %u threads\n", engine.variant().c_str(), engine.threadCount());
  std::printf("prompt      %.1f tokens/s (%zu tokens, best of %d)\n", prompt, ids.size(), kRuns);
  std::printf("generation  %.1f tokens/s (%zu tokens, best of %d)\n", generation, steps, kRuns);
  return {};
}

Status generate(engine::Engine &engine, const Options &o, std::optional<tool::OutputFile> file, double loadSeconds) {
  Run run(engine);
  std::optional<tool::NpyWriter> logits;
  if (file) {
    G4_ASSIGN_OR_RETURN(
        logits, tool::NpyWriter::create(*std::move(file), "<f4", o.ids.size(), engine.limits().vocabulary));
  }
  G4_RETURN_IF_ERROR(run.prompt(o.ids, o.chunk, logits ? &*logits : nullptr));
  if (logits)
    G4_RETURN_IF_ERROR(logits->finish());
  G4_ASSIGN_OR_RETURN(const auto tokens, run.generate(o.maxTokens));
  if (o.maxTokens)
    tool::printIds(tokens);
  if (!o.stats)
    return {};
  std::fprintf(stderr, "code        %s, %u threads\n", engine.variant().c_str(), engine.threadCount());
  std::fprintf(stderr, "load        %.3f s\n", loadSeconds);
  std::fprintf(stderr, "prompt      %zu tokens, %.3f s, %.1f tokens/s\n", o.ids.size(), run.promptSeconds,
               rate(o.ids.size(), run.promptSeconds));
  const size_t steps = tokens.empty() ? 0 : tokens.size() - 1;
  std::fprintf(stderr, "generation  %zu tokens, %.3f s, %.1f tokens/s\n", tokens.size(), run.generationSeconds,
               rate(steps, run.generationSeconds));
  return {};
}

} // namespace

Status run(const Options &o) {
  tool::FileUses uses{o.model};
  std::optional<tool::OutputFile> logits;
  if (!o.logits.empty()) {
    G4_ASSIGN_OR_RETURN(logits, tool::OutputFile::create(o.logits, uses));
  }
  const auto start = Clock::now();
  G4_ASSIGN_OR_RETURN(auto module, module::Module::load(o.model));
  engine::EngineOptions options;
  options.threads = o.threads;
  options.variant = o.variant;
  options.contextTokens = o.context;
  options.weightSeed = o.weightSeed;
  auto engine = engine::Engine::create(std::move(module), options);
  if (!engine.ok())
    return Status(engine.status()).withContext(quotedPath(o.model));
  return o.bench ? bench(**engine, o) : generate(**engine, o, std::move(logits), secondsSince(start));
}

} // namespace g4::runner
