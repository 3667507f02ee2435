#include "tools/g4run/Program.h"
#include "runtime/base/Text.h"
#include "tools/common/Cli.h"
#include "tools/g4run/Options.h"

#include <filesystem>

namespace g4::tool {
namespace {

constexpr char kNotes[] = R"(Examples:
  g4run chat model.g4m
  g4run model.g4m -p "Why is the sky blue?"
  g4run model.g4m -p "Name a colour." --system "Answer in one word." --temp 0
  g4run model.g4m --raw -p "Once upon a time" -n 100 --seed 7
  g4run model.g4m --chat conversation.json
  g4run model.g4m --jsonl questions.jsonl answers.jsonl
  g4run model.gguf -p "Hello"
  g4run serve model.g4m --port 8080
  g4run model.g4m --ids 2,17,301 -n 0 --logits logits.npy

A GGUF file is compiled by g4c on first use; 'g4run cache --help' says where the result is kept.

Exit codes: 0 success, 1 failure, 2 bad usage, 3 a bug of ours, 130 interrupted.)";

void addCommands(CLI::App &app, Run &run) {
  for (const auto add :
       {addChat, addInspect, addPerplexity, addKl, addTokenize, addBench, addServe, addReplay, addLoadTest, addCache,
        addCompletion})
    add(app, run);
}

/// What would be said about the words after it, though it is this one that is wrong.
std::string checkModel(const CLI::App &app, const std::string &path) {
  if (const auto commands = app.get_subcommands(); !commands.empty())
    return "the command comes first: g4run " + commands[0]->get_name() + " " + path;
  if (app.remaining_size() > 0 && !std::filesystem::exists(path))
    return quotedPath(path) + " is neither a command nor a file";
  return {};
}

/// Options before a command are not those of the command.
void checkBefore(const CLI::App &app) {
  for (const CLI::Option *option : app.get_options())
    if (option->count() > 0)
      throw CLI::ValidationError(option->get_name(),
                                 "the command comes first: g4run " + app.get_subcommands()[0]->get_name());
}

} // namespace

Parsed parseCommandLine(int argc, char **argv) {
  Run run;
  CLI::App app("Runs Gemma 4 models compiled by g4c", "g4run");
  addStandardFlags(app, "g4run " G4_VERSION);
  app.footer(kNotes);
  auto options = std::make_shared<GenerateOptions>();
  addGenerateFlags(app, *options);
  app.get_option("model")
      ->required(false) // a command has its own
      ->check(CLI::Validator([&app](const std::string &path) { return checkModel(app, path); }, ""));
  addCommands(app, run);
  app.require_subcommand(0, 1);
  const auto code = parseArguments(app, argc, argv, [&] {
    if (run)
      return checkBefore(app);
    if (options->model.path.empty())
      throw CLI::RequiredError("model");
    if (!options->prompted() && !std::filesystem::exists(options->model.path))
      throw CLI::ValidationError(quotedPath(options->model.path), "neither a command nor a file");
    checkGenerate(*options);
  });
  if (code)
    return {nullptr, *code};
  if (!run && !options->jsonl.empty())
    run = [options](const Interrupted &interrupted) { return runJsonl(*options, interrupted); };
  else if (!run)
    run = [options](const Interrupted &interrupted) { return runGenerate(*options, interrupted); };
  return {std::move(run), kExitOk};
}

} // namespace g4::tool
