#include "tools/g4-runner/Options.h"
#include "tools/common/Cli.h"

namespace g4::runner {
namespace {

constexpr char kExamples[] = R"(Examples:
  g4-runner model.g4m --ids 2,17,301 --logits logits.npy
  g4-runner model.g4m --ids 2,17,301 -n 20
  g4-runner model.g4m --bench --threads 4
  g4-runner shapes.g4m --bench --weights seed:1

Exit codes: 0 success, 1 failure, 2 bad usage, 3 a bug of ours.)";

void check(const Options &o) {
  if (o.bench && (o.maxTokens || !o.logits.empty()))
    throw CLI::ValidationError("--bench", "goes without -n and --logits");
  if (!o.bench && o.ids.empty())
    throw CLI::RequiredError("--ids or --bench");
}

} // namespace

Parsed parseOptions(int argc, char **argv) {
  Options o;
  CLI::App app("Runs an artifact of g4c on token ids. Needs nothing but libc: for machines that have no g4run",
               "g4-runner");
  tool::addStandardFlags(app, "g4-runner " G4_VERSION);
  app.footer(kExamples);
  app.add_option("model", o.model, "The artifact, a .g4m file")->required()->type_name("FILE");
  app.add_option_function<std::string>(
         "--ids", [&o](const std::string &text) { o.ids = tool::valid("--ids", tool::parseIds(text)); },
         "The prompt: token ids, separated by commas")
      ->type_name("IDS");
  app.add_option("-n", o.maxTokens, "Tokens to generate, greedily, printed as a line of JSON; default: none")
      ->check(CLI::Range(0, 1 << 20));
  app.add_option("--logits", o.logits, "Write the prompt's logits: float32 [rows, vocabulary] as .npy")
      ->type_name("FILE");
  app.add_flag("--bench", o.bench, "Print the speed of a prompt (--ids, or made-up ones) and of a generation");
  app.add_flag("--stats", o.stats, "Print the code in use and the times to standard error");
  app.add_option("--threads", o.threads, "Threads; 0: one per physical core")->check(CLI::Range(0, 1024));
  app.add_option("--variant", o.variant, "Code variant by name; default: the best for this machine");
  app.add_option_function<std::string>(
         "--weights", [&o](const std::string &text) { o.weightSeed = tool::valid("--weights", tool::parseSeed(text)); },
         "seed:N makes weights up, for an artifact compiled without")
      ->type_name("seed:N");
  app.add_option("--context", o.context, "Most positions; default: the model's context");
  app.add_option("--chunk", o.chunk, "Most prompt tokens per step; default: as many as the program holds");
  tool::addCompletionFlag(app);
  if (const auto code = tool::parseArguments(app, argc, argv, [&o] { check(o); }))
    return {std::nullopt, *code};
  return {std::move(o), tool::kExitOk};
}

} // namespace g4::runner
