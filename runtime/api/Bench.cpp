#include "runtime/api/Bench.h"
#include "runtime/api/Impl.h"
#include "runtime/api/Profile.h"
#include "runtime/base/Guard.h"
#include "runtime/engine/Prefill.h"

#include <algorithm>
#include <chrono>

namespace g4::api {
namespace {

namespace fb = module::fb;

class Bench {
public:
  Bench(Model::Impl &model, const BenchCase &what) : model_(model), engine_(*model.engine), what_(what) {}
  ~Bench() {
    engine_.trace(nullptr);
    for (kv::SeqId seq : sequences_)
      (void)engine_.closeSequence(seq); // it is open, so this cannot fail
  }

  /// Opens the sequences and fills them up to the depth.
  Status prepare() {
    const std::vector<int32_t> ids = makeIds(what_.depth);
    for (uint32_t i = 0; i < what_.batch; ++i) {
      sequences_.push_back(engine_.openSequence());
      engine::PrefillOptions options;
      options.want = engine::Want::kNothing;
      if (what_.depth > 0)
        G4_RETURN_IF_ERROR(engine::prefill(engine_, sequences_.back(), ids, options));
      G4_RETURN_IF_ERROR(engine_.hold(sequences_.back()));
    }
    return {};
  }

  /// Runs once and goes back; returns the seconds of the run.
  Result<double> repeat(uint32_t tokens) {
    const auto begin = std::chrono::steady_clock::now();
    G4_RETURN_IF_ERROR(what_.kind == BenchCase::Kind::kDecode ? decode(tokens) : prefill(tokens));
    const std::chrono::duration<double> seconds = std::chrono::steady_clock::now() - begin;
    for (kv::SeqId seq : sequences_)
      G4_RETURN_IF_ERROR(engine_.truncate(seq, what_.depth));
    return seconds.count();
  }

  /// Runs once more, with spans; `onTrace` may be empty.
  Result<Profile> profile(const std::function<void(const TraceEvent &)> &onTrace) {
    std::vector<device::LaunchSpan> spans;
    engine_.trace(&spans);
    Profiler profiler(*model_.module);
    onStep_ = [&](const engine::Step &step, uint64_t number, double seconds) {
      profiler.add(step, spans, seconds);
      if (onTrace)
        pass(spans, number, onTrace);
      spans.clear();
    };
    constexpr uint32_t kSteps = 8;
    const bool decode = what_.kind == BenchCase::Kind::kDecode;
    const auto run =
        repeat(std::min(what_.tokens, decode ? kSteps : kSteps * engine_.limits().rows / what_.batch));
    engine_.trace(nullptr);
    onStep_ = nullptr;
    if (!run.ok())
      return run.status();
    return profiler.profile();
  }

private:
  /// Ids that are spread over the vocabulary: a model with experts then uses different ones.
  std::vector<int32_t> makeIds(size_t count) const {
    std::vector<int32_t> ids(count);
    for (size_t i = 0; i < count; ++i)
      ids[i] = int32_t((i + 1) * 2654435761u % engine_.limits().vocabulary);
    return ids;
  }

  /// Every sequence's prompt; several share a step while they fit.
  Status prefill(uint32_t tokens) {
    const engine::EngineLimits &limits = engine_.limits();
    const std::vector<int32_t> ids = makeIds(tokens);
    std::vector<uint32_t> done(sequences_.size(), 0);
    for (size_t first = 0; first < sequences_.size();) {
      begin();
      for (size_t s = first; s < sequences_.size() && tokens_.size() < limits.rows; ++s) {
        const uint32_t rows = std::min<uint32_t>(tokens - done[s], limits.rows - uint32_t(tokens_.size()));
        const bool ends = done[s] + rows == tokens;
        if (ends && tail_.size() == std::min(limits.tailRows, limits.logitRows))
          break;
        for (uint32_t i = 0; i < rows; ++i)
          row(s, ids[done[s] + i], what_.depth + done[s] + i);
        done[s] += rows;
        if (ends)
          tail_.push_back(uint32_t(tokens_.size() - 1));
      }
      while (first < sequences_.size() && done[first] == tokens)
        ++first;
      G4_RETURN_IF_ERROR(runStep());
    }
    return {};
  }

  Status decode(uint32_t tokens) {
    const std::vector<int32_t> ids = makeIds(tokens);
    for (uint32_t i = 0; i < tokens; ++i) {
      begin();
      for (size_t s = 0; s < sequences_.size(); ++s) {
        row(s, ids[i], what_.depth + i);
        tail_.push_back(uint32_t(s));
      }
      G4_RETURN_IF_ERROR(runStep());
    }
    return {};
  }

  void begin() { tokens_.clear(), rowSequences_.clear(), positions_.clear(), tail_.clear(); }
  void row(size_t sequence, int32_t id, uint32_t position) {
    tokens_.push_back(id);
    rowSequences_.push_back(sequences_[sequence]);
    positions_.push_back(position);
  }
  Status runStep() {
    engine::Step step;
    step.tokens = tokens_;
    step.sequences = rowSequences_;
    step.positions = positions_;
    step.tailRows = step.logitRows = tail_;
    const uint64_t number = engine_.counters().steps;
    const auto begin = std::chrono::steady_clock::now();
    G4_ASSIGN_OR_RETURN(const auto output, engine_.run(step));
    (void)output;
    const std::chrono::duration<double> seconds = std::chrono::steady_clock::now() - begin;
    if (onStep_)
      onStep_(step, number, seconds.count());
    return {};
  }

  void pass(std::span<const device::LaunchSpan> spans, uint64_t step,
            const std::function<void(const TraceEvent &)> &onTrace) const {
    const auto &dispatches = *model_.module->findProgram("step")->dispatches();
    for (const device::LaunchSpan &span : spans) {
      const fb::Dispatch &dispatch = *dispatches.Get(span.launch);
      onTrace({model_.module->root().kernels()->Get(dispatch.kernel())->string_view(),
               fb::EnumNameRowSet(dispatch.grid()->set()), dispatch.layer(), span.launch, span.thread, step,
               span.beginNs, span.endNs});
    }
  }

  Model::Impl &model_;
  engine::Engine &engine_;
  const BenchCase &what_;
  std::vector<kv::SeqId> sequences_;
  std::vector<int32_t> tokens_;
  std::vector<kv::SeqId> rowSequences_;
  std::vector<uint32_t> positions_, tail_;
  /// After each step, when there is one.
  std::function<void(const engine::Step &step, uint64_t number, double seconds)> onStep_ = nullptr;
};

} // namespace

Status checkBench(Model &model, const BenchCase &what) {
  if (what.tokens == 0 || what.batch == 0)
    return invalidArgument("nothing to measure: no tokens or no sequences");
  if (uint64_t(what.depth) + what.tokens > model.contextTokens())
    return invalidArgument(std::to_string(what.tokens) + " tokens at depth " + std::to_string(what.depth) +
                           ", but the context is " + std::to_string(model.contextTokens()));
  const engine::EngineLimits &limits = model.impl().engine->limits();
  const uint32_t most = std::min({limits.rows, limits.tailRows, limits.logitRows});
  if (what.kind == BenchCase::Kind::kDecode && what.batch > most)
    return invalidArgument("a batch of " + std::to_string(what.batch) + ", but a step gives results for " +
                           std::to_string(most) + " sequences at most");
  if (!model.impl().holds || model.impl().openSessions > 0 || what.batch > model.impl().maxSessions)
    return invalidArgument("a batch of " + std::to_string(what.batch) + " on a model opened for " +
                           std::to_string(model.impl().maxSessions));
  return {};
}

Result<BenchResult> bench(Model &model, LimitsProbe &probe, const BenchCase &what,
                          const BenchOptions &options) {
  return guarded([&]() -> Result<BenchResult> {
    G4_RETURN_IF_ERROR(checkBench(model, what));
    Bench run(model.impl(), what);
    G4_RETURN_IF_ERROR(run.prepare());
    BenchResult out;
    const uint64_t before = model.counters().steps;
    for (uint32_t i = 0; i <= options.repetitions; ++i) {
      if (options.onProgress && !options.onProgress(i, options.repetitions + 2))
        return Status(Code::kCancelled, "cancelled");
      if (i > 0)
        probe.measure(out.limits);
      G4_ASSIGN_OR_RETURN(const double once, run.repeat(what.tokens));
      if (i > 0)
        out.seconds.push_back(once);
      else // it warms up
        out.steps = model.counters().steps - before;
    }
    probe.measure(out.limits);
    G4_ASSIGN_OR_RETURN(out.profile, run.profile(options.onTrace));
    return out;
  });
}

Result<double> timeStep(Model &model) {
  return guarded([&]() -> Result<double> {
    const BenchCase what{BenchCase::Kind::kDecode, 1, 1, 0};
    G4_RETURN_IF_ERROR(checkBench(model, what));
    Bench run(model.impl(), what);
    G4_RETURN_IF_ERROR(run.prepare());
    return run.repeat(1);
  });
}

} // namespace g4::api
