#include "tools/g4run/Options.h"
#include "runtime/text/StopStrings.h"
#include "tools/common/Cli.h"

#include <limits>
#include <random>

namespace g4::tool {
namespace {

Result<float> parseFloat(const std::string &text) {
  const auto value = parseNumber<float>(text);
  return value ? Result<float>(*value)
               : invalidArgument(quotedName(text) + " is no number, or too large or too small a one");
}

/// "id=bias", or as others write it "id+bias" and "id-bias".
Result<std::pair<int32_t, float>> parseBias(const std::string &text) {
  const size_t at = std::min(text.find_first_of("=+-"), text.size());
  const auto id = parseNumber<int32_t>(std::string_view(text).substr(0, at));
  if (!id || at == text.size())
    return invalidArgument(quotedName(text) + " is not id=bias");
  G4_ASSIGN_OR_RETURN(const float bias, parseFloat(text.substr(text[at] == '-' ? at : at + 1)));
  api::SamplingOptions options;
  options.logitBias.emplace_back(*id, bias);
  G4_RETURN_IF_ERROR(text::Sampler::create(std::move(options)).status());
  return std::pair(*id, bias);
}

/// The range that the sampler allows for one of its options.
CLI::Validator inRange(float api::SamplingOptions::*option) {
  return CLI::Validator(
      [option](const std::string &text) -> std::string {
        const auto value = parseFloat(text);
        if (!value.ok())
          return value.status().message();
        api::SamplingOptions options;
        options.*option = *value;
        return text::Sampler::create(std::move(options)).status().message();
      },
      "");
}

std::string checkStop(const std::string &text) {
  return text::StopStrings::create({text}).status().message();
}

/// What the cache says itself to g4c, or what would leave it without an artifact.
std::string checkCompileOptions(const std::string &text) {
  const auto words = splitWords(text);
  if (!words.ok())
    return words.status().message();
  for (const std::string &word : *words) {
    const std::string name = word.substr(0, word.find('='));
    const size_t start = name.find_first_not_of('-');
    if (start == std::string::npos || start == 0)
      continue;
    for (const char *own : {"o", "emit", "dry-run", "json", "completion", "man", "help", "version"})
      if (name.substr(start) == own)
        return "'" + name + "' is for g4c alone: g4run needs an artifact, and keeps it in its cache";
  }
  return {};
}

/// "0" to "18446744073709551615".
Result<uint64_t> parseDrawSeed(const std::string &text) {
  const auto seed = parseNumber<uint64_t>(text);
  return seed ? Result<uint64_t>(*seed)
              : invalidArgument(noNumber(text, uint64_t(0), std::numeric_limits<uint64_t>::max()));
}

void addPrompt(CLI::App &app, GenerateOptions &o) {
  const char *one = "Prompt, one of these";
  app.add_option("-p,--prompt", o.prompt, "A message to the model")->group(one);
  app.add_option("-f,--file", o.file, "The same, from a file")->type_name("FILE")->group(one);
  app.add_option("--chat", o.chat, "A conversation: a JSON file {\"messages\": [...], \"tools\": [...]}")
      ->type_name("FILE")
      ->group(one);
  app.add_option_function<std::string>(
         "--ids", [&o](const std::string &text) { o.ids = valid("--ids", parseIds(text)); },
         "Token ids, separated by commas")
      ->type_name("IDS")
      ->group(one);
  app.add_option("--jsonl", o.jsonl,
                 "Many prompts and their answers: a JSON object a line; '-' is standard in- or output")
      ->type_name("FILE FILE")
      ->expected(2)
      ->allow_extra_args(false)
      ->group(one);
  const char *more = "With -p or -f";
  app.add_flag("--raw", o.raw, "They give a text to go on from, not a message")->group(more);
  app.add_option("--system", o.system, "System message before them")->group(more);
  app.add_flag("--think", o.think, "Let the model think before it answers")->group(more);
}

void addOutput(CLI::App &app, GenerateOptions &o) {
  app.add_option("--logits", o.logits, "Write the prompt's logits: float32 [rows, vocabulary] as .npy")
      ->type_name("FILE");
  app.add_option("--taps", o.taps, "Write each named value inside the program to this folder as .npy")
      ->type_name("FOLDER");
  app.add_option("--forced-experts", o.forcedExperts,
                 "Expert ids instead of the router's: int32 [layers, rows, used]")
      ->type_name("FILE");
  app.add_flag("--print-ids", o.printIds, "Print the generated ids as a line of JSON after the text");
  app.add_flag("--stats", o.stats, "Print speed and work to standard error");
  app.add_option("--chunk", o.chunk,
                 "Most prompt tokens per step; 0, the default: as many as the program holds")
      ->check(wholeNumber<uint32_t>());
  app.add_option("--parallel", o.parallel, "Sequences that --jsonl works on at a time")
      ->check(wholeNumber<uint32_t>(1, 64))
      ->capture_default_str();
}

} // namespace

Result<uint64_t> parseSize(const std::string &text) {
  size_t digits = text.find_first_not_of("0123456789");
  digits = digits == std::string::npos ? text.size() : digits;
  std::string unit = text.substr(digits);
  if (unit.ends_with("iB") || unit.ends_with("B"))
    unit.resize(unit.size() - (unit.ends_with("iB") ? 2 : 1));
  static constexpr std::string_view kUnits = "KMGT";
  const size_t power = unit.empty() ? 0 : kUnits.find(unit) + 1;
  const auto value = parseNumber<uint64_t>(std::string_view(text).substr(0, digits));
  if (!value || unit.size() > 1 || (power == 0 && !unit.empty()) ||
      *value > std::numeric_limits<uint64_t>::max() >> (10 * power))
    return invalidArgument("'" + text + "' is no size such as 300M or 50G");
  return *value << (10 * power);
}

void addArtifactFlags(CLI::App &app, ModelFlags &flags) {
  app.add_option("model", flags.path,
                 "The model: an artifact of g4c, or a GGUF file, which is compiled first")
      ->type_name("FILE")
      ->required();
  app.add_option("--compile-options", flags.compileOptions,
                 "For a GGUF file: options of g4c, such as \"--activations=f32\"")
      ->check(CLI::Validator(checkCompileOptions, ""))
      ->group("GGUF files");
  app.add_option_function<std::string>(
         "--cache-limit",
         [&flags](const std::string &text) { flags.cacheLimit = valid("--cache-limit", parseSize(text)); },
         "Size to which compiled models are kept; the least recently used go first")
      ->type_name("SIZE")
      ->default_str("50G")
      ->group("GGUF files");
}

void addModelFlags(CLI::App &app, ModelFlags &flags, const char *contextFlag) {
  addArtifactFlags(app, flags);
  app.add_option("--threads", flags.threads, "Threads; 0, the default: one per physical core")
      ->check(wholeNumber<uint32_t>(0, 1024));
  app.add_option(contextFlag, flags.context, "Most positions; 0, the default: the model's context")
      ->check(wholeNumber<uint32_t>());
  app.add_option("--variant", flags.variant, "Code variant by name; default: the best for this machine");
  app.add_option_function<std::string>(
         "--weights",
         [&flags](const std::string &text) { flags.weightSeed = valid("--weights", parseSeed(text)); },
         "seed:N makes weights up, for an artifact compiled without")
      ->type_name("seed:N");
}

api::SamplingOptions SamplingFlags::over(api::SamplingOptions out) const {
  out.temperature = temperature.value_or(out.temperature);
  out.topK = topK.value_or(out.topK);
  out.topP = topP.value_or(out.topP);
  out.minP = minP.value_or(out.minP);
  out.repetitionPenalty = repeatPenalty;
  out.presencePenalty = presencePenalty;
  out.frequencyPenalty = frequencyPenalty;
  out.logitBias = logitBias;
  out.seed = seed ? *seed : (uint64_t(std::random_device()()) << 32 | std::random_device()());
  return out;
}

Status SamplingFlags::fits(const api::Model &model) const {
  for (const auto &[id, bias] : logitBias)
    if (uint32_t(id) >= model.vocabulary())
      return invalidArgument("--logit-bias: token " + std::to_string(id) + ", but the vocabulary has " +
                             std::to_string(model.vocabulary()) + " tokens");
  return {};
}

void addSamplingFlags(CLI::App &app, SamplingFlags &flags) {
  const char *group = "Sampling";
  app.add_option("--temp", flags.temperature,
                 "Temperature; 0 is greedy. Default: the model file's, as for the next three")
      ->check(inRange(&api::SamplingOptions::temperature))
      ->group(group);
  app.add_option("--top-k", flags.topK, "Keep the k most probable tokens; 0 is off")
      ->check(wholeNumber<int32_t>())
      ->group(group);
  app.add_option("--top-p", flags.topP, "Keep the most probable tokens that sum to p; 1 is off")
      ->check(inRange(&api::SamplingOptions::topP))
      ->group(group);
  app.add_option("--min-p", flags.minP, "Keep tokens at least p times as probable as the best; 0 is off")
      ->check(inRange(&api::SamplingOptions::minP))
      ->group(group);
  app.add_option("--repeat-penalty", flags.repeatPenalty, "Weakens tokens that occurred; 1 is off")
      ->check(inRange(&api::SamplingOptions::repetitionPenalty))
      ->group(group);
  app.add_option("--presence-penalty", flags.presencePenalty,
                 "Subtracted from logits of tokens that occurred")
      ->check(inRange(&api::SamplingOptions::presencePenalty))
      ->group(group);
  app.add_option("--frequency-penalty", flags.frequencyPenalty, "The same, times how often")
      ->check(inRange(&api::SamplingOptions::frequencyPenalty))
      ->group(group);
  app.add_option_function<std::string>(
         "--seed", [&flags](const std::string &text) { flags.seed = valid("--seed", parseDrawSeed(text)); },
         "Seed of the draws; default: random")
      ->type_name("N")
      ->group(group);
  app.add_option_function<std::vector<std::string>>(
         "--logit-bias",
         [&flags](const std::vector<std::string> &texts) {
           for (const std::string &text : texts)
             flags.logitBias.push_back(valid("--logit-bias", parseBias(text)));
         },
         "Raises or lowers a token's logit; may be repeated")
      ->type_name("ID=B")
      ->take_all()
      ->allow_extra_args(false)
      ->group(group);
}

void addWindow(CLI::App &app, uint32_t &window) {
  app.add_option("-c,--window", window, "Tokens per window")
      ->check(wholeNumber<uint32_t>(4))
      ->capture_default_str();
}

void addMaxTokens(CLI::App &app, std::optional<uint32_t> &maxTokens) {
  app.add_option_function<int64_t>(
         "-n",
         [&maxTokens](int64_t value) {
           maxTokens = value < 0 ? std::nullopt : std::optional(uint32_t(value));
         },
         "Most tokens to generate; 0: none, -1: until the model stops")
      ->check(wholeNumber<int64_t>(-1, int64_t(1) << 31))
      ->default_str("-1");
}

void addGenerateFlags(CLI::App &app, GenerateOptions &o) {
  addPrompt(app, o);
  addMaxTokens(app, o.maxTokens);
  app.add_option("--stop", o.stops, "Stop before this text; may be repeated")
      ->check(CLI::Validator(checkStop, ""))
      ->take_all()
      ->allow_extra_args(false);
  app.add_flag("--ignore-eos", o.ignoreEos, "Do not stop where the model ends its answer");
  app.add_flag("--no-suppress", o.noSuppress, "Let tokens be sampled that the model file or g4 rule out");
  addOutput(app, o);
  addModelFlags(app, o.model);
  addSamplingFlags(app, o.sampling);
}

void checkGenerate(const GenerateOptions &o) {
  const bool message = o.prompt || o.file;
  if (o.prompt.has_value() + o.file.has_value() + o.chat.has_value() + !o.ids.empty() + !o.jsonl.empty() > 1)
    throw CLI::ValidationError("-p, -f, --chat, --ids and --jsonl", "are alternatives");
  if (!o.prompted())
    throw CLI::RequiredError("one of -p, -f, --chat, --ids and --jsonl");
  if ((o.raw || !o.system.empty() || o.think) && !message)
    throw CLI::ValidationError("--raw, --system and --think", "go with -p or -f only");
  if (o.raw && (!o.system.empty() || o.think))
    throw CLI::ValidationError("--raw", "leaves no place for --system or --think");
  if (!o.jsonl.empty() && (!o.logits.empty() || !o.taps.empty() || !o.forcedExperts.empty() || o.printIds))
    throw CLI::ValidationError("--jsonl",
                               "does not go with --logits, --taps, --forced-experts or --print-ids");
}

} // namespace g4::tool
