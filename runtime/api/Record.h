/// The log of a scheduler's calls, and what came of them. Not public.
///
/// JSON lines: first {"g4_record": 1, "artifact": "<hash>", ...options...}, then in the order of what happened, each with
/// the number of steps before it: {"step", "submit": {...}}, {"step", "cancel": id}, {"step", "tokens": [[id, token], ...]},
/// {"step", "end": id, "finish": "..."}.
#pragma once

#include "runtime/api/Engine.h"
#include "runtime/sched/Scheduler.h"

#include <nlohmann/json.hpp>

#include <fstream>

namespace g4::api {

/// What decides what a scheduler does.
struct RecordedOptions {
  uint64_t artifact = 0; ///< module::Module::hash
  std::string variant;
  uint32_t contextTokens = 0;
  uint64_t kvBytes = 0;
  sched::SchedulerOptions scheduler = {};
};

nlohmann::ordered_json toJson(const RecordedOptions &options);
nlohmann::ordered_json toJson(const sched::AnswerRequest &request);
/// Errors: kDataLoss (not what toJson made).
Result<RecordedOptions> recordedOptions(const nlohmann::ordered_json &json);
Result<sched::AnswerRequest> recordedRequest(const nlohmann::ordered_json &json);

/// Writes a record; a line is there whole or not at all once the next step begins.
class Recorder {
public:
  /// Errors: kInvalidArgument (the file cannot be made).
  static Result<std::unique_ptr<Recorder>> create(const std::string &path, const RecordedOptions &options);

  void submit(uint64_t step, const sched::AnswerRequest &request);
  void cancel(uint64_t step, sched::AnswerId id);
  void token(sched::AnswerId id, int32_t token) { tokens_.push_back({uint64_t(id), token}); }
  void end(sched::AnswerId id, Finish finish) { ends_.push_back({uint64_t(id), finishText(finish)}); }
  /// Step number `step` is done: writes its tokens and ends.
  void step(uint64_t step);
  /// What failed first, of all that was written.
  Status status() const { return failed_ ? resourceExhausted("cannot write " + path_) : Status(); }

private:
  explicit Recorder(std::string path) : path_(std::move(path)) {}
  void write(const nlohmann::ordered_json &json);

  std::string path_;
  std::ofstream out_;
  bool failed_ = false;
  std::vector<std::pair<uint64_t, int32_t>> tokens_;
  std::vector<std::pair<uint64_t, std::string>> ends_;
};

} // namespace g4::api
