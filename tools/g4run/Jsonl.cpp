#include "tools/common/Files.h"
#include "tools/g4run/Model.h"
#include "tools/g4run/Progress.h"

#include <nlohmann/json.hpp>

#include <algorithm>
#include <cmath>
#include <map>
#include <sstream>

namespace g4::tool {
namespace {

using Json = nlohmann::ordered_json;

/// One line of the input and what becomes of it.
struct Line {
  Json id;
  std::string error; ///< why there is no answer; empty: there may be one
  size_t promptTokens = 0;
  std::string text, thought;
};

/// Takes `key` out of `object`; false when it is not there. Errors: kInvalidArgument naming the key.
template <class T> Result<bool> take(Json &object, const char *key, T &out) {
  const auto found = object.find(key);
  if (found == object.end())
    return false;
  const bool fits = std::is_same_v<T, bool>          ? found->is_boolean()
                    : std::is_same_v<T, std::string> ? found->is_string()
                    : std::is_floating_point_v<T>    ? found->is_number()
                                                     : found->is_number_integer();
  if (!fits)
    return invalidArgument(std::string("'") + key + "' has a value of the wrong type");
  if constexpr (std::is_integral_v<T> && !std::is_same_v<T, bool>)
    if (found->is_number_unsigned() ? !std::in_range<T>(found->get<uint64_t>())
                                    : !std::in_range<T>(found->get<int64_t>()))
      return invalidArgument(std::string("'") + key + "' is out of range");
  out = found->get<T>();
  object.erase(key);
  return true;
}

#define G4_TAKE(object, key, out)                                                                            \
  do {                                                                                                       \
    if (auto taken = take(object, key, out); !taken.ok())                                                    \
      return taken.status();                                                                                 \
  } while (0)

/// Whether every number in `id` is written back as it came. JSON's are of any size; larger ones than 64 bits
/// hold are rounded on reading.
bool isKept(const Json &id) {
  if (id.is_number_float())
    return std::abs(id.get<double>()) < 0x1p63;
  return !id.is_structured() || std::all_of(id.begin(), id.end(), isKept);
}

Status takeStops(Json &object, std::vector<std::string> &stops) {
  const auto found = object.find("stop");
  if (found == object.end())
    return {};
  stops.clear();
  const Json list = found->is_array() ? *found : Json::array({*found});
  for (const Json &stop : list) {
    if (!stop.is_string())
      return invalidArgument("'stop' is neither a text nor a list of texts");
    stops.push_back(stop);
  }
  object.erase("stop");
  return {};
}

/// The sampling fields; they are taken out, so that what stays is for the chat template.
Status takeOptions(Json &object, api::GenerateRequest &request) {
  api::SamplingOptions &sampling = request.sampling;
  int64_t maxTokens = request.maxTokens;
  G4_TAKE(object, "max_tokens", maxTokens);
  if (maxTokens < 0 || maxTokens > std::numeric_limits<uint32_t>::max())
    return invalidArgument("'max_tokens' is out of range");
  request.maxTokens = uint32_t(maxTokens);
  G4_TAKE(object, "temperature", sampling.temperature);
  G4_TAKE(object, "top_k", sampling.topK);
  G4_TAKE(object, "top_p", sampling.topP);
  G4_TAKE(object, "min_p", sampling.minP);
  G4_TAKE(object, "seed", sampling.seed);
  G4_TAKE(object, "repetition_penalty", sampling.repetitionPenalty);
  G4_TAKE(object, "presence_penalty", sampling.presencePenalty);
  G4_TAKE(object, "frequency_penalty", sampling.frequencyPenalty);
  return takeStops(object, request.stops);
}

class Batch {
public:
  Batch(const api::Model &model, const GenerateOptions &options) : model_(model), options_(options) {}

  /// Reads every line; bad ones become lines with an error.
  void read(std::istream &in) {
    std::string text;
    for (size_t number = 1; std::getline(in, text); ++number) {
      if (text.find_first_not_of(" \t\r") == std::string::npos)
        continue;
      lines_.push_back({Json(number), {}, 0, {}, {}});
      api::BatchRequest request;
      if (Status status = parse(text, lines_.back(), request); !status.ok())
        lines_.back().error = status.message();
      else {
        lineOf_.push_back(lines_.size() - 1);
        requests_.push_back(std::move(request));
      }
    }
    for (size_t i = 0; i < requests_.size(); ++i)
      requests_[i].generate.onPart = [this, i](api::Part part, std::string_view text) {
        Line &line = lines_[lineOf_[i]];
        (part == api::Part::kThought ? line.thought : line.text) += text;
        return true;
      };
  }

  std::span<const api::BatchRequest> requests() const { return requests_; }
  size_t size() const { return lines_.size(); }

  /// The line of the output for a request that is done.
  void finish(size_t request, const Result<api::Generation> &result) {
    Line &line = lines_[lineOf_[request]];
    if (!result.ok()) {
      line.error = result.status().message();
      return;
    }
    const bool stopped =
        result->finish == api::Finish::kStopToken || result->finish == api::Finish::kStopString;
    Json out = {{"id", line.id}, {"text", line.text}};
    if (!line.thought.empty())
      out["thought"] = line.thought;
    out["finish_reason"] = stopped ? "stop" : "length";
    out["usage"] = {{"prompt_tokens", line.promptTokens}, {"completion_tokens", result->ids.size()}};
    done_[lineOf_[request]] = dump(out);
  }

  /// Writes the lines that can be written in order.
  Status write(OutputFile &out) {
    std::string text;
    for (; written_ < lines_.size(); ++written_) {
      const Line &line = lines_[written_];
      const auto found = done_.find(written_);
      if (found == done_.end() && line.error.empty())
        break; // still being worked on
      if (found == done_.end()) {
        ++errors_;
        text += dump({{"id", line.id}, {"error", {{"message", line.error}}}}) + '\n';
      } else {
        text += found->second + '\n';
        done_.erase(found);
      }
    }
    return out.append(text);
  }

  size_t written() const { return written_; }
  size_t errors() const { return errors_; }

private:
  static std::string dump(const Json &json) {
    return json.dump(-1, ' ', false, Json::error_handler_t::replace);
  }

  Status parse(const std::string &text, Line &line, api::BatchRequest &request) {
    Json object = Json::parse(text, nullptr, /*allow_exceptions=*/false);
    if (object.is_discarded())
      return invalidArgument("line " + line.id.dump() + " is not valid JSON");
    if (!object.is_object())
      return invalidArgument("line " + line.id.dump() + " is no JSON object");
    if (const auto id = object.find("id"); id != object.end()) {
      if (!isKept(*id))
        return invalidArgument("'id' has a number of more than 64 bits: write it as a text");
      line.id = *id;
      object.erase("id");
    }
    request.generate.maxTokens = options_.maxTokens.value_or(request.generate.maxTokens);
    request.generate.sampling = options_.sampling.over(model_.defaultSampling());
    request.generate.stops = options_.stops;
    request.generate.ignoreEos = options_.ignoreEos;
    request.generate.suppress = !options_.noSuppress;
    G4_RETURN_IF_ERROR(takeOptions(object, request.generate));
    const bool chats = object.contains("messages");
    if (chats && object.contains("prompt"))
      return invalidArgument("'messages' and 'prompt' are both there: give one of them");
    if (!chats && !object.contains("prompt"))
      return invalidArgument("neither 'messages' nor 'prompt' is there: give one of them");
    if (!chats) {
      std::string prompt;
      G4_TAKE(object, "prompt", prompt);
      G4_ASSIGN_OR_RETURN(request.ids, model_.tokenize(prompt));
    } else {
      if (!std::exchange(noted_, true))
        noteTemplate(model_);
      api::ChatRequest chat;
      chat.json = dump(object);
      G4_ASSIGN_OR_RETURN(request.ids, model_.chatPrompt(chat));
    }
    line.promptTokens = request.ids.size();
    return {};
  }

  const api::Model &model_;
  const GenerateOptions &options_;
  std::vector<Line> lines_;
  std::vector<size_t> lineOf_; ///< [requests]
  std::vector<api::BatchRequest> requests_;
  std::map<size_t, std::string> done_; ///< line -> its output, until it can be written
  size_t written_ = 0, errors_ = 0;
  bool noted_ = false; ///< by noteTemplate
};

} // namespace

Status runJsonl(const GenerateOptions &options, const Interrupted &interrupted) {
  const std::string &from = options.jsonl[0], &to = options.jsonl[1];
  FileUses uses = usesOf(options.model, {from == "-" ? "" : from});
  G4_ASSIGN_OR_RETURN(std::string questions, readFile(from));
  api::ModelOptions modelOptions;
  modelOptions.maxSessions = options.parallel;
  G4_ASSIGN_OR_RETURN(const OpenModel open, openModel(options.model, interrupted, modelOptions));
  G4_RETURN_IF_ERROR(options.sampling.fits(*open.model));
  Batch batch(*open.model, options);
  std::istringstream in(std::move(questions));
  batch.read(in);
  OutputFile out = OutputFile::standardOutput();
  if (to != "-") {
    G4_ASSIGN_OR_RETURN(out, OutputFile::stream(to, uses));
  }
  Status writing = batch.write(out);
  const Status ran = [&] {
    Progress progress("answers", "lines");
    return api::generateBatch(
        *open.model, batch.requests(),
        [&](size_t request, Result<api::Generation> result) {
          batch.finish(request, result);
          if (writing.ok())
            writing = batch.write(out);
          progress.update(batch.written(), batch.size());
        },
        [&] { return writing.ok() && !interrupted(); });
  }();
  G4_RETURN_IF_ERROR(std::move(writing));
  if (!ran.ok())
    return ran;
  if (batch.errors() > 0)
    return invalidArgument(std::to_string(batch.errors()) + " of " + std::to_string(batch.size()) +
                           " lines have no answer: see their \"error\"");
  return {};
}

} // namespace g4::tool
