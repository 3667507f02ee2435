#include "tools/g4run/Options.h"

#include <CLI/CLI.hpp>

#include <charconv>
#include <cstdio>

namespace g4::tool {
namespace {

constexpr char kExamples[] = R"(Examples:
  g4run model.g4m -p "Why is the sky blue?"
  g4run model.g4m -p "Name a colour." --system "Answer in one word." --temp 0
  g4run model.g4m --raw -p "Once upon a time" -n 100 --seed 7
  g4run model.g4m --chat conversation.json
  g4run model.g4m --ids 2,17,301 -n 0 --logits logits.npy
  g4run inspect model.g4m
  g4run perplexity model.g4m text.txt -c 512

Exit codes: 0 success, 1 bad input, 2 bad usage, 3 a bug of ours, 130 interrupted.)";

template <class T> bool parseNumber(std::string_view text, T &out) {
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), out);
  return error == std::errc() && end == text.data() + text.size();
}

/// A value that was parsed, or CLI11's error for `option`.
template <class T> T valid(const char *option, Result<T> parsed) {
  if (!parsed.ok())
    throw CLI::ValidationError(option, parsed.status().message());
  return *std::move(parsed);
}

/// "id=bias", or as others write it "id+bias" and "id-bias".
std::pair<int32_t, float> parseBias(const std::string &text) {
  const size_t at = text.find_first_of("=+-");
  std::pair<int32_t, float> bias{};
  if (at != std::string::npos) {
    std::string_view value = std::string_view(text).substr(text[at] == '-' ? at : at + 1);
    const bool minus = value == "-inf";
    if (parseNumber(std::string_view(text).substr(0, at), bias.first) &&
        (minus || parseNumber(value, bias.second))) {
      if (minus)
        bias.second = -std::numeric_limits<float>::infinity();
      return bias;
    }
  }
  throw CLI::ValidationError("--logit-bias", "'" + text + "' is not id=bias");
}

void addMachine(CLI::App &app, Options &o, std::string &weights) {
  app.add_option("--threads", o.threads, "Threads; 0: one per physical core")->check(CLI::Range(0, 1024));
  app.add_option("--variant", o.variant, "Code variant by name; default: the best for this machine");
  app.add_option("--weights", weights, "seed:N makes weights up, for an artifact compiled without");
}

void addPrompt(CLI::App &app, Options &o, std::string &ids) {
  auto *group = app.add_option_group("Prompt", "One of -p, -f, --chat and --ids");
  group->add_option("-p,--prompt", o.prompt, "A message to the model");
  group->add_option("-f,--file", o.file, "The same, from a file");
  group->add_option("--chat", o.chat, "A conversation: a JSON file {\"messages\": [...], \"tools\": [...]}");
  group->add_option("--ids", ids, "Token ids, separated by commas");
  group->require_option(0, 1);
  app.add_flag("--raw", o.raw, "-p and -f give a text to go on from, not a message");
  app.add_option("--system", o.system, "System message before -p or -f");
  app.add_flag("--think", o.think, "Let the model think before it answers -p or -f");
}

void addGeneration(CLI::App &app, Options &o, int64_t &maxTokens, std::vector<std::string> &biases) {
  app.add_option("-n", maxTokens, "Most tokens to generate; 0: none, -1: until the model stops")
      ->check(CLI::Range(int64_t(-1), int64_t(1) << 31))
      ->default_str("-1");
  app.add_option("--temp", o.temperature,
                 "Temperature; 0 is greedy. Default: the model file's, as for the next three");
  app.add_option("--top-k", o.topK, "Keep the k most probable tokens; 0 is off");
  app.add_option("--top-p", o.topP, "Keep the most probable tokens that sum to p; 1 is off");
  app.add_option("--min-p", o.minP, "Keep tokens at least p times as probable as the best; 0 is off");
  app.add_option("--repeat-penalty", o.repeatPenalty, "Weakens tokens that occurred; 1 is off");
  app.add_option("--presence-penalty", o.presencePenalty, "Subtracted from logits of tokens that occurred");
  app.add_option("--frequency-penalty", o.frequencyPenalty, "The same, times how often");
  app.add_option("--seed", o.seed, "Seed of the draws; default: random");
  app.add_option("--stop", o.stops, "Stop before this text; may be repeated")
      ->take_all()
      ->allow_extra_args(false);
  app.add_option("--logit-bias", biases, "id=bias, may be repeated")->take_all()->allow_extra_args(false);
  app.add_flag("--ignore-eos", o.ignoreEos, "Do not stop where the model ends its answer");
  app.add_flag("--no-suppress", o.noSuppress, "Let tokens be sampled that the model file or g4 rule out");
}

void addOutput(CLI::App &app, Options &o) {
  app.add_option("--logits", o.logits, "Write the prompt's logits: float32 [rows, vocabulary] as .npy");
  app.add_option("--taps", o.taps, "Write each named value inside the program to this folder as .npy");
  app.add_option("--forced-experts", o.forcedExperts,
                 "Expert ids instead of the router's: int32 [layers, rows, used]");
  app.add_flag("--print-ids", o.printIds, "Print the generated ids as a line of JSON after the text");
  app.add_flag("--stats", o.stats, "Print speed and work to standard error");
  app.add_option("--context", o.context, "Most positions; default: the model's context");
  app.add_option("--chunk", o.chunk, "Most prompt tokens per step; default: as many as the program holds");
}

/// What CLI11 cannot check.
void check(const Options &o) {
  const bool message = o.prompt || o.file;
  if (!message && !o.chat && o.ids.empty())
    throw CLI::RequiredError("one of -p, -f, --chat and --ids");
  if ((o.raw || !o.system.empty() || o.think) && !message)
    throw CLI::ValidationError("--raw, --system and --think", "go with -p or -f only");
  if (o.raw && (!o.system.empty() || o.think))
    throw CLI::ValidationError("--raw", "leaves no place for --system or --think");
}

} // namespace

Parsed parseOptions(int argc, char **argv) {
  Options o;
  std::string ids, weights;
  std::vector<std::string> biases;
  int64_t maxTokens = -1;
  CLI::App app("Runs Gemma 4 models compiled by g4c.", "g4run");
  app.footer(kExamples);
  app.set_version_flag("--version", "g4run " G4_VERSION);
  app.add_option("model", o.model, "The artifact, a .g4m file");
  addPrompt(app, o, ids);
  addGeneration(app, o, maxTokens, biases);
  addOutput(app, o);
  addMachine(app, o, weights);

  CLI::App *inspect = app.add_subcommand("inspect", "Show what is in an artifact");
  inspect->add_option("model", o.model, "The artifact")->required();
  inspect->add_flag("--json", o.json, "As JSON, with every dispatch, buffer and weight");
  inspect->add_flag("--verify", o.verify, "Also check the hash of the weights");
  CLI::App *perplexity =
      app.add_subcommand("perplexity", "Measure a model on a text, as llama-perplexity does");
  perplexity->add_option("model", o.model, "The artifact")->required();
  perplexity->add_option("text", o.text, "The text file")->required();
  perplexity->add_option("-c", o.window, "Tokens per window")->capture_default_str();
  addMachine(*perplexity, o, weights);
  app.require_subcommand(0, 1);

  try {
    app.parse(argc, argv);
    if (!weights.empty())
      o.weightSeed = valid("--weights", parseSeed(weights));
    if (*inspect) {
      o.command = Options::Command::kInspect;
    } else if (*perplexity) {
      o.command = Options::Command::kPerplexity;
    } else {
      if (o.model.empty())
        throw CLI::RequiredError("model");
      if (!ids.empty())
        o.ids = valid("--ids", parseIds(ids));
      for (const std::string &bias : biases)
        o.logitBias.push_back(parseBias(bias));
      if (maxTokens >= 0)
        o.maxTokens = uint32_t(maxTokens);
      check(o);
    }
  } catch (const CLI::ParseError &error) {
    if (error.get_exit_code() == 0) { // --help, --version
      app.exit(error);
      return {std::nullopt, kExitOk};
    }
    std::string what = error.what();
    std::replace(what.begin(), what.end(), '\n', ' ');
    std::fprintf(stderr, "g4run: %s (g4run --help shows the options)\n", what.c_str());
    return {std::nullopt, kExitBadUsage};
  }
  return {std::move(o), kExitOk};
}

} // namespace g4::tool
