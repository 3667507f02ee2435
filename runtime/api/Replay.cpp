#include "runtime/api/Engine.h"
#include "runtime/api/Impl.h"
#include "runtime/api/Record.h"
#include "runtime/base/Guard.h"
#include "runtime/base/Text.h"

#include <map>

namespace g4::api {
namespace {

using Json = nlohmann::ordered_json;

/// Makes the recorded calls and compares what comes of them.
class Replay {
public:
  Replay(sched::Scheduler &scheduler, ReplayResult &result) : scheduler_(scheduler), result_(result) {}

  Status line(const Json &json) {
    try {
      const uint64_t step = json.at("step");
      if (json.contains("submit"))
        return submit(step, json.at("submit"));
      if (json.contains("cancel")) {
        G4_RETURN_IF_ERROR(runTo(step));
        scheduler_.cancel(sched::AnswerId(json.at("cancel").get<uint64_t>()));
        return {};
      }
      G4_RETURN_IF_ERROR(runTo(step + 1));
      if (json.contains("tokens"))
        return compare(step, json.at("tokens").get<Tokens>());
      return compareEnd(json.at("end"), json.at("finish"));
    } catch (const Json::exception &) {
      return dataLoss("the record is damaged");
    }
  }

private:
  using Tokens = std::vector<std::pair<uint64_t, int32_t>>;

  /// The record counts steps that had rows.
  Status runTo(uint64_t steps) {
    while (scheduler_.stats().steps < steps) {
      if (!scheduler_.busy())
        return dataLoss("the record has a step " + std::to_string(steps) + ", but nothing is left to do after " +
                        std::to_string(scheduler_.stats().steps));
      tokens_.clear();
      G4_RETURN_IF_ERROR(scheduler_.step());
      ++result_.steps;
    }
    return {};
  }

  Status submit(uint64_t step, const Json &json) {
    G4_RETURN_IF_ERROR(runTo(step));
    G4_ASSIGN_OR_RETURN(auto request, recordedRequest(json));
    request.onToken = [this](sched::AnswerToken token) {
      if (!token.ofPrompt)
        tokens_.push_back({uint64_t(token.answer), token.token.id});
    };
    request.onEnd = [this](sched::AnswerEnd end) { ends_[uint64_t(end.answer)] = finishText(end.finish); };
    ++result_.answers;
    return scheduler_.submit(std::move(request)).status();
  }

  Status compare(uint64_t step, const Tokens &expected) {
    for (size_t i = 0; i < std::max(expected.size(), tokens_.size()); ++i) {
      const auto text = [](const Tokens &tokens, size_t at) {
        return at < tokens.size()
                   ? "token " + std::to_string(tokens[at].second) + " of answer " + std::to_string(tokens[at].first)
                   : std::string("nothing");
      };
      if (i >= expected.size() || i >= tokens_.size() || expected[i] != tokens_[i])
        return dataLoss("step " + std::to_string(step) + ": " + text(expected, i) + " in the record, but " +
                        text(tokens_, i) + " now");
    }
    result_.tokens += expected.size();
    return {};
  }

  Status compareEnd(uint64_t answer, const std::string &finish) {
    const auto found = ends_.find(answer);
    if (found != ends_.end() && found->second == finish)
      return {};
    return dataLoss("answer " + std::to_string(answer) + " ends by " + quotedName(finish) + " in the record, but " +
                    (found == ends_.end() ? "goes on" : "by '" + found->second + "'") + " now");
  }

  sched::Scheduler &scheduler_;
  ReplayResult &result_;
  Tokens tokens_; ///< of the last step
  std::map<uint64_t, std::string> ends_;
};

Result<ReplayResult> replayFile(const std::string &path, const std::string &record, const EngineOptions &options) {
  std::ifstream in(record, std::ios::binary);
  std::string text;
  if (!in || !std::getline(in, text))
    return invalidArgument("cannot read " + quotedPath(record));
  G4_ASSIGN_OR_RETURN(const RecordedOptions recorded, recordedOptions(Json::parse(text, nullptr, /*allow_exceptions=*/false)));
  ModelOptions modelOptions;
  modelOptions.threads = options.threads;
  modelOptions.variant = options.variant;
  modelOptions.weightSeed = options.weightSeed;
  modelOptions.contextTokens = recorded.contextTokens;
  modelOptions.maxSessions = recorded.scheduler.maxSequences;
  modelOptions.kvBytes = recorded.kvBytes;
  G4_ASSIGN_OR_RETURN(const auto model, Model::open(path, modelOptions));
  Model::Impl &impl = model->impl();
  if (impl.module->hash() != recorded.artifact)
    return incompatible(quotedPath(record) + " is a record of another artifact");
  G4_ASSIGN_OR_RETURN(const auto scheduler, sched::Scheduler::create(*impl.engine, impl.rules, recorded.scheduler));
  ReplayResult result{};
  Replay replay(*scheduler, result);
  for (size_t line = 2; std::getline(in, text); ++line)
    if (Status status = replay.line(Json::parse(text, nullptr, /*allow_exceptions=*/false)); !status.ok())
      return std::move(status).withContext(quotedPath(record) + ", line " + std::to_string(line));
  return result;
}

} // namespace

Result<ReplayResult> replay(const std::string &path, const std::string &record, const EngineOptions &options) {
  return guarded([&] { return replayFile(path, record, options); });
}

} // namespace g4::api
