#include "runtime/api/Record.h"
#include "runtime/base/Text.h"

#include <charconv>
#include <cinttypes>
#include <cstdio>

namespace g4::api {
namespace {

using Json = nlohmann::ordered_json;

constexpr int kVersion = 1;

std::string hexOf(uint64_t hash) {
  char text[17];
  std::snprintf(text, sizeof text, "%016" PRIx64, hash);
  return text;
}

Status notARecord(const std::string &what) { return dataLoss("the record is damaged: " + what); }

/// Reads members of an object; the first that is missing or of another type is remembered.
class Reader {
public:
  explicit Reader(const Json &json) : json_(json) {}
  template <class T> void take(const char *name, T &out) {
    try {
      json_.at(name).get_to(out);
    } catch (const nlohmann::json::exception &) {
      if (bad_.empty())
        bad_ = name;
    }
  }
  template <class T> void take(const char *name, std::optional<T> &out) {
    if (json_.is_object() && json_.contains(name))
      take(name, out.emplace());
  }
  Status status() const { return bad_.empty() ? Status() : notARecord("'" + bad_ + "'"); }

private:
  const Json &json_;
  std::string bad_;
};

} // namespace

Json toJson(const RecordedOptions &o) {
  return {{"g4_record", kVersion},
          {"artifact", hexOf(o.artifact)},
          {"variant", o.variant},
          {"context", o.contextTokens},
          {"kv_bytes", o.kvBytes},
          {"max_sequences", o.scheduler.maxSequences},
          {"prefill_rows", o.scheduler.prefillRows},
          {"cache_bytes", o.scheduler.cacheBytes}};
}

Result<RecordedOptions> recordedOptions(const Json &json) {
  RecordedOptions o;
  int version = 0;
  std::string artifact;
  Reader reader(json);
  reader.take("g4_record", version);
  reader.take("artifact", artifact);
  reader.take("variant", o.variant);
  reader.take("context", o.contextTokens);
  reader.take("kv_bytes", o.kvBytes);
  reader.take("max_sequences", o.scheduler.maxSequences);
  reader.take("prefill_rows", o.scheduler.prefillRows);
  reader.take("cache_bytes", o.scheduler.cacheBytes);
  G4_RETURN_IF_ERROR(reader.status());
  if (version != kVersion)
    return incompatible("a record of version " + std::to_string(version) + ", but this program reads version " +
                        std::to_string(kVersion));
  const auto [end, error] = std::from_chars(artifact.data(), artifact.data() + artifact.size(), o.artifact, 16);
  if (error != std::errc() || end != artifact.data() + artifact.size())
    return notARecord("'artifact'");
  return o;
}

Json toJson(const sched::AnswerRequest &request) {
  const sched::DecodeOptions &d = request.decode;
  const text::SamplingOptions &s = d.sampling;
  Json json = {{"ids", request.ids},
               {"max_tokens", d.maxTokens},
               {"stops", d.stops},
               {"ignore_eos", d.ignoreEos},
               {"suppress", d.suppress},
               {"divide", d.divide},
               {"logit_bias", s.logitBias},
               {"penalty_window", s.penaltyWindow},
               {"repetition_penalty", s.repetitionPenalty},
               {"presence_penalty", s.presencePenalty},
               {"frequency_penalty", s.frequencyPenalty},
               {"temperature", s.temperature},
               {"top_k", s.topK},
               {"top_p", s.topP},
               {"min_p", s.minP},
               {"seed", s.seed},
               {"priority", request.priority},
               {"prompt_logprobs", request.promptLogprobs}};
  if (request.logprobs)
    json["logprobs"] = *request.logprobs;
  return json;
}

Result<sched::AnswerRequest> recordedRequest(const Json &json) {
  sched::AnswerRequest request;
  sched::DecodeOptions &d = request.decode;
  text::SamplingOptions &s = d.sampling;
  Reader reader(json);
  reader.take("ids", request.ids);
  reader.take("max_tokens", d.maxTokens);
  reader.take("stops", d.stops);
  reader.take("ignore_eos", d.ignoreEos);
  reader.take("suppress", d.suppress);
  reader.take("divide", d.divide);
  reader.take("logit_bias", s.logitBias);
  reader.take("penalty_window", s.penaltyWindow);
  reader.take("repetition_penalty", s.repetitionPenalty);
  reader.take("presence_penalty", s.presencePenalty);
  reader.take("frequency_penalty", s.frequencyPenalty);
  reader.take("temperature", s.temperature);
  reader.take("top_k", s.topK);
  reader.take("top_p", s.topP);
  reader.take("min_p", s.minP);
  reader.take("seed", s.seed);
  reader.take("priority", request.priority);
  reader.take("prompt_logprobs", request.promptLogprobs);
  reader.take("logprobs", request.logprobs);
  G4_RETURN_IF_ERROR(reader.status());
  return request;
}

Result<std::unique_ptr<Recorder>> Recorder::create(const std::string &path, const RecordedOptions &options) {
  std::unique_ptr<Recorder> recorder(new Recorder(quotedPath(path)));
  recorder->out_.open(path, std::ios::binary | std::ios::trunc);
  if (!recorder->out_)
    return invalidArgument("cannot write " + recorder->path_);
  recorder->write(toJson(options));
  G4_RETURN_IF_ERROR(recorder->status());
  return recorder;
}

void Recorder::write(const Json &json) {
  out_ << json.dump(-1, ' ', false, Json::error_handler_t::replace) << '\n' << std::flush;
  failed_ |= !out_;
}

void Recorder::submit(uint64_t step, const sched::AnswerRequest &request) {
  write({{"step", step}, {"submit", toJson(request)}});
}

void Recorder::cancel(uint64_t step, sched::AnswerId id) { write({{"step", step}, {"cancel", uint64_t(id)}}); }

void Recorder::step(uint64_t step) {
  if (!tokens_.empty())
    write({{"step", step}, {"tokens", std::exchange(tokens_, {})}});
  for (const auto &[id, finish] : std::exchange(ends_, {}))
    write({{"step", step}, {"end", id}, {"finish", finish}});
}

} // namespace g4::api
