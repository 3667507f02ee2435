#include "runtime/server/Requests.h"
#include "runtime/base/Text.h"
#include "runtime/server/Fields.h"
#include "runtime/text/StopStrings.h"

#include <algorithm>
#include <charconv>
#include <random>

namespace g4::server {
namespace {

constexpr size_t kMostStops = 16, kMostBiases = 1024;

/// The sampler's own words about one option.
std::string faultOf(const api::SamplingOptions &options) {
  std::string text = text::Sampler::create(options).status().message();
  const size_t at = text.find("must be"); // after the option's name, which is not the field's
  return at == std::string::npos ? text : text.substr(at);
}

void readOption(Fields &fields, const char *key, float api::SamplingOptions::*option,
                api::SamplingOptions &out) {
  if (!fields.read(key, out.*option))
    return;
  api::SamplingOptions alone;
  alone.*option = out.*option;
  if (const std::string fault = faultOf(alone); !fault.empty())
    fields.fail(key, fault);
}

void readPenalty(Fields &fields, const char *key, float &out) {
  if (fields.read(key, out) && !(out >= -2 && out <= 2))
    fields.fail(key, "must be from -2 to 2");
}

void readSampling(Fields &fields, api::SamplingOptions &out) {
  readOption(fields, "temperature", &api::SamplingOptions::temperature, out);
  readOption(fields, "top_p", &api::SamplingOptions::topP, out);
  readOption(fields, "min_p", &api::SamplingOptions::minP, out);
  readOption(fields, "repetition_penalty", &api::SamplingOptions::repetitionPenalty, out);
  readPenalty(fields, "presence_penalty", out.presencePenalty);
  readPenalty(fields, "frequency_penalty", out.frequencyPenalty);
  if (fields.read("top_k", out.topK, -1) && out.topK == -1) // how some clients write "off"
    out.topK = 0;
  int64_t seed = 0;
  if (fields.read("seed", seed, std::numeric_limits<int64_t>::min()))
    out.seed = uint64_t(seed);
  else
    out.seed = uint64_t(std::random_device()()) << 32 | std::random_device()();
}

/// {"17": -100, "42": 5}
void readBias(Fields &fields, const ModelFacts &facts, api::SamplingOptions &out) {
  const Json *bias = fields.find("logit_bias");
  if (!bias)
    return;
  if (!bias->is_object() || bias->size() > kMostBiases)
    return void(fields.fail("logit_bias", "must be an object of at most " + std::to_string(kMostBiases) +
                                              " token ids and numbers"));
  for (const auto &[key, value] : bias->items()) {
    uint32_t id = 0;
    const auto [end, error] = std::from_chars(key.data(), key.data() + key.size(), id);
    if (error != std::errc() || end != key.data() + key.size() || id >= facts.vocabulary)
      return void(fields.fail("logit_bias", "has the key " + quotedName(key) +
                                                ", which is no token id below " +
                                                std::to_string(facts.vocabulary)));
    if (!value.is_number() || !(std::abs(value.get<double>()) <= 100))
      return void(fields.fail("logit_bias", "of token " + key + " must be a number from -100 to 100"));
    out.logitBias.emplace_back(int32_t(id), float(value.get<double>()));
  }
}

void readStops(Fields &fields, std::vector<std::string> &out) {
  const Json *stop = fields.find("stop");
  if (!stop)
    return;
  const bool list = stop->is_array();
  for (size_t i = 0; i < (list ? stop->size() : 1); ++i) {
    const Json &text = list ? (*stop)[i] : *stop;
    if (!text.is_string() || out.size() == kMostStops)
      return void(fields.fail("stop", "must be a text or a list of at most " + std::to_string(kMostStops) +
                                          " texts"));
    out.push_back(text.get<std::string>());
    if (const auto stops = text::StopStrings::create({out.back()}); !stops.ok())
      return void(fields.fail("stop", "is not possible: " + stops.status().message()));
  }
}

void readModel(Fields &fields, const ModelFacts &facts, std::optional<Failure> &unknown) {
  std::string name;
  if (fields.read("model", name) && name != facts.name)
    unknown = Failure{404, "there is no model " + quotedName(name) + " here, only " + quotedName(facts.name),
                      "model", "model_not_found"};
}

/// What would change an answer's meaning and is not there yet: an error, never silence.
void refuse(Fields &fields, std::initializer_list<const char *> keys) {
  for (const char *key : keys)
    if (const Json *value = fields.find(key); value && !(value->is_structured() && value->empty()))
      fields.fail(key, "is not supported");
}

void readFormat(Fields &fields) {
  const Json *format = fields.find("response_format");
  if (!format)
    return;
  const auto type = format->is_object() ? format->find("type") : format->end();
  if (!format->is_object() || type == format->end() || !type->is_string())
    fields.fail("response_format", "must be an object with a type");
  else if (*type != "text")
    fields.fail("response_format", "of another type than \"text\" is not supported");
}

void readCommon(Fields &fields, const ModelFacts &facts, Call &call) {
  fields.read("stream", call.stream);
  if (const Json *options = fields.find("stream_options")) {
    if (!options->is_object())
      fields.fail("stream_options", "must be an object");
    else if (!call.stream)
      fields.fail("stream_options", "goes with \"stream\": true only");
    else {
      Fields inner(*options);
      inner.read("include_usage", call.includeUsage);
      if (inner.failure())
        fields.fail("stream_options.include_usage", "must be true or false");
    }
  }
  fields.read("n", call.answers, 1, kMostChoices);
  fields.read("priority", call.priority, std::numeric_limits<int>::min());
  call.decode.sampling = facts.sampling;
  readSampling(fields, call.decode.sampling);
  readBias(fields, facts, call.decode.sampling);
  readStops(fields, call.decode.stops);
  fields.read("ignore_eos", call.decode.ignoreEos);
  readFormat(fields);
  refuse(fields, {"grammar", "json_schema", "guided_json", "guided_regex", "guided_choice", "guided_grammar",
                  "structured_outputs"});
}

constexpr const char *kEfforts[] = {"none", "minimal", "low", "medium", "high", "xhigh"};

/// The conversation in the form that Model::chatPrompt reads: the template's own variables, then those that
/// have names of their own.
std::string conversationOf(Fields &fields, bool needed) {
  const Json *messages = fields.find("messages");
  if (!messages && !needed)
    return {};
  if (!messages || !messages->is_array() || messages->empty()) {
    fields.fail("messages", "must be a list of at least one message");
    return {};
  }
  Json out = {{"messages", *messages}};
  std::string effort;
  if (fields.read("reasoning_effort", effort)) {
    if (std::find(std::begin(kEfforts), std::end(kEfforts), effort) == std::end(kEfforts))
      fields.fail("reasoning_effort", "must be one of none, minimal, low, medium, high, xhigh");
    out["enable_thinking"] = effort != "none";
  }
  if (const Json *variables = fields.find("chat_template_kwargs")) {
    if (!variables->is_object())
      fields.fail("chat_template_kwargs", "must be an object");
    else
      for (const auto &[key, value] : variables->items())
        if (key == "messages" || key == "tools" || (key == "enable_thinking" && !value.is_boolean()))
          fields.fail("chat_template_kwargs." + key,
                      key == "enable_thinking" ? "must be true or false" : "has a place of its own");
        else
          out[key] = value;
  }
  bool thinking = false;
  if (fields.read("enable_thinking", thinking))
    out["enable_thinking"] = thinking;
  return fields.failure() ? std::string() : dump(out);
}

bool readIds(const Json &list, const ModelFacts &facts, std::vector<int32_t> &out) {
  for (const Json &id : list) {
    const auto number = Fields::whole(id);
    if (!number || *number < 0 || *number >= facts.vocabulary)
      return false;
    out.push_back(int32_t(*number));
  }
  return true;
}

/// A text, a list of texts, a list of ids, or a list of such lists.
void readPrompts(Fields &fields, const ModelFacts &facts, std::vector<Prompt> &out) {
  const Json *prompt = fields.find("prompt");
  const auto wrong = [&] {
    fields.fail("prompt", "must be a text, a list of texts, token ids below " +
                              std::to_string(facts.vocabulary) + ", or a list of lists of them");
  };
  if (!prompt)
    return wrong();
  if (prompt->is_string())
    return out.emplace_back(prompt->get<std::string>()), void();
  if (!prompt->is_array() || prompt->empty())
    return wrong();
  if ((*prompt)[0].is_number()) {
    std::vector<int32_t> ids;
    return readIds(*prompt, facts, ids) ? (out.emplace_back(std::move(ids)), void()) : wrong();
  }
  if (prompt->size() > kMostChoices)
    return void(
        fields.fail("prompt", "must be a list of at most " + std::to_string(kMostChoices) + " prompts"));
  for (const Json &one : *prompt) {
    std::vector<int32_t> ids;
    if (one.is_string())
      out.emplace_back(one.get<std::string>());
    else if (one.is_array() && !one.empty() && readIds(one, facts, ids))
      out.emplace_back(std::move(ids));
    else
      return wrong();
  }
}

/// Runs `read` on the body's fields; what failed first, else what it made.
template <class T, class Read> Parsed<T> parse(std::string_view body, const ModelFacts &facts, Read read) {
  try {
    Parsed<Json> json = parseJson(body);
    if (auto *failure = std::get_if<Failure>(&json))
      return std::move(*failure);
    T out;
    std::optional<Failure> unknown;
    Fields fields(std::get<Json>(json));
    readModel(fields, facts, unknown);
    read(fields, out);
    if (fields.failure())
      return *fields.failure();
    if (unknown)
      return *std::move(unknown);
    return out;
  } catch (const std::bad_alloc &) {
    return Failure{503, "no memory to read the request", {}, {}};
  }
}

} // namespace

Parsed<ChatCall> parseChat(std::string_view body, const ModelFacts &facts) {
  return parse<ChatCall>(body, facts, [&](Fields &fields, ChatCall &call) {
    readCommon(fields, facts, call);
    bool logprobs = false;
    fields.read("logprobs", logprobs);
    uint32_t top = 0;
    if (fields.read("top_logprobs", top, 0, kMostLogprobs) && !logprobs)
      fields.fail("top_logprobs", "goes with \"logprobs\": true only");
    if (logprobs)
      call.logprobs = top;
    if (!fields.read("max_completion_tokens", call.decode.maxTokens, 1))
      fields.read("max_tokens", call.decode.maxTokens, 1);
    refuse(fields, {"tools", "functions", "audio", "web_search_options"});
    if (const Json *modalities = fields.find("modalities");
        modalities && *modalities != Json::array({"text"}))
      fields.fail("modalities", "must be [\"text\"]");
    call.decode.divide = true;
    call.conversation = conversationOf(fields, /*needed=*/true);
  });
}

Parsed<CompletionCall> parseCompletion(std::string_view body, const ModelFacts &facts) {
  return parse<CompletionCall>(body, facts, [&](Fields &fields, CompletionCall &call) {
    readCommon(fields, facts, call);
    uint32_t logprobs = 0;
    if (fields.read("logprobs", logprobs, 0, kMostLogprobs))
      call.logprobs = logprobs;
    call.decode.maxTokens = 16; // as OpenAI has it
    if (!fields.read("max_completion_tokens", call.decode.maxTokens, 0))
      fields.read("max_tokens", call.decode.maxTokens, 0);
    fields.read("echo", call.echo);
    uint32_t bestOf = call.answers;
    if (fields.read("best_of", bestOf, 1) && bestOf != call.answers)
      fields.fail("best_of", "other than n is not supported");
    refuse(fields, {"suffix"});
    readPrompts(fields, facts, call.prompts);
    if (call.prompts.size() * call.answers > kMostChoices)
      fields.fail("n", "times the number of prompts is more than " + std::to_string(kMostChoices));
  });
}

Parsed<TokenizeCall> parseTokenize(std::string_view body, const ModelFacts &facts) {
  return parse<TokenizeCall>(body, facts, [&](Fields &fields, TokenizeCall &call) {
    call.conversation = conversationOf(fields, /*needed=*/false);
    const bool prompt = fields.read("prompt", call.text);
    const bool content = fields.read("content", call.text);
    if (prompt + content + !call.conversation.empty() != 1)
      fields.fail("prompt", "must be there, or \"content\" or \"messages\" in its place");
    fields.read("add_special_tokens", call.special);
    fields.read("with_pieces", call.pieces);
  });
}

Parsed<std::vector<int32_t>> parseDetokenize(std::string_view body, const ModelFacts &facts) {
  return parse<std::vector<int32_t>>(body, facts, [&](Fields &fields, std::vector<int32_t> &ids) {
    const Json *tokens = fields.find("tokens");
    if (!tokens || !tokens->is_array() || !readIds(*tokens, facts, ids))
      fields.fail("tokens", "must be a list of token ids below " + std::to_string(facts.vocabulary));
  });
}

} // namespace g4::server
