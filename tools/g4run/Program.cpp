#include "tools/g4run/Program.h"
#include "tools/common/CommandSpec.h"
#include "tools/g4run/Options.h"

#include <CLI/CLI.hpp>

#include <cstdio>

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
  g4run model.g4m --ids 2,17,301 -n 0 --logits logits.npy

A GGUF file is compiled by g4c on first use; 'g4run cache --help' says where the result is kept.

Exit codes: 0 success, 1 bad input, 2 bad usage, 3 a bug of ours, 130 interrupted.)";

std::string oneLine(std::string text) {
  std::replace(text.begin(), text.end(), '\n', ' ');
  return text;
}

/// "g4run chat" of the innermost command that was named.
std::string helpCommand(const CLI::App &app) {
  std::string out = app.get_name();
  for (const CLI::App *sub : app.get_subcommands())
    out += " " + helpCommand(*sub);
  return out;
}

OptionSpec describe(const CLI::Option &option) {
  OptionSpec out;
  for (const std::string &name : option.get_snames())
    out.names.push_back("-" + name);
  for (const std::string &name : option.get_lnames())
    out.names.push_back("--" + name);
  out.help = option.get_description();
  if (option.get_items_expected_max() == 0)
    return out; // a flag
  // CLI11 writes a type as TEXT:CHECK, choices as TEXT:{a,b}.
  std::string type = option.get_type_name();
  if (const size_t open = type.find(":{"); open != std::string::npos) {
    std::string rest = type.substr(open + 2);
    for (size_t at = 0; at < rest.size() && rest[at] != '}';) {
      const size_t end = rest.find_first_of(",}", at);
      out.choices.push_back(rest.substr(at, end - at));
      at = rest[end] == ',' ? end + 1 : end;
    }
    type.resize(open);
  }
  if (const size_t check = type.find(':'); check != std::string::npos && !type.starts_with("seed"))
    type.resize(check);
  out.value = type == "INT" || type == "UINT" ? "N" : type == "FLOAT" ? "X" : type;
  return out;
}

/// Help with the same words as completion and the manual page.
class HelpFormatter : public CLI::Formatter {
  std::string make_help(const CLI::App *app, std::string name, CLI::AppFormatMode mode) const override {
    std::string out = CLI::Formatter::make_help(app, std::move(name), mode);
    for (size_t at = 0; (at = out.find("\n\n\n", at)) != std::string::npos;)
      out.erase(at, 1); // one empty line between groups, not two
    return out;
  }
  std::string make_option_opts(const CLI::Option *option) const override {
    const OptionSpec spec = describe(*option);
    std::string out = spec.value.empty() ? "" : " " + spec.value;
    if (!spec.choices.empty()) {
      out = " ";
      for (const std::string &choice : spec.choices)
        out += (out.size() > 1 ? "|" : "") + choice;
    }
    return out;
  }
  std::string make_option_desc(const CLI::Option *option) const override {
    const std::string value = option->get_default_str();
    return option->get_description() + (value.empty() ? "" : " (default: " + value + ")");
  }
};

void addOptions(const CLI::App &app, CommandSpec &out) {
  for (const CLI::Option *option : app.get_options()) {
    if (option->get_group().empty())
      continue; // hidden
    OptionSpec spec = describe(*option);
    if (spec.names.empty())
      spec.value = spec.takesPath() ? spec.value : option->get_single_name();
    (spec.names.empty() ? out.positionals : out.options).push_back(std::move(spec));
  }
}

void addCommands(CLI::App &app, Run &run) {
  for (const auto add :
       {addChat, addInspect, addPerplexity, addKl, addTokenize, addBench, addCache, addCompletion})
    add(app, run);
}

} // namespace

CommandSpec describe(const CLI::App &app) {
  CommandSpec out{app.get_name(), app.get_description(), app.get_footer(), {}, {}, {}};
  addOptions(app, out);
  for (const CLI::App *sub : app.get_subcommands([](const CLI::App *) { return true; }))
    out.commands.push_back(describe(*sub));
  return out;
}

Parsed parseCommandLine(int argc, char **argv) {
  Run run;
  CLI::App app("Runs Gemma 4 models compiled by g4c", "g4run");
  app.formatter(std::make_shared<HelpFormatter>()); // commands inherit it
  app.get_formatter()->column_width(32);
  app.footer(kNotes);
  app.set_version_flag("--version", "g4run " G4_VERSION);
  auto options = std::make_shared<GenerateOptions>();
  addGenerateFlags(app, *options);
  app.get_option("model")->required(false); // a command has its own
  bool man = false;
  app.add_flag("--man", man, "Print the manual page")->group(""); // for the build
  addCommands(app, run);
  app.require_subcommand(0, 1);
  try {
    app.parse(argc, argv);
    if (man) {
      std::fputs(manPage(describe(app), "g4run " G4_VERSION).c_str(), stdout);
      return {};
    }
    if (run)
      return {std::move(run), kExitOk};
    if (options->model.path.empty())
      throw CLI::RequiredError("model");
    checkGenerate(*options);
  } catch (const CLI::ParseError &error) {
    if (error.get_exit_code() == 0) { // --help, --version
      app.exit(error);
      return {};
    }
    std::fprintf(stderr, "g4run: %s ('%s --help' shows the options)\n", oneLine(error.what()).c_str(),
                 helpCommand(app).c_str());
    return {nullptr, kExitBadUsage};
  }
  if (!options->jsonl.empty())
    return {[options](const Interrupted &interrupted) { return runJsonl(*options, interrupted); }, kExitOk};
  return {[options](const Interrupted &interrupted) { return runGenerate(*options, interrupted); }, kExitOk};
}

} // namespace g4::tool
