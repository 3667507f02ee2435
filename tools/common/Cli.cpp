#include "tools/common/Cli.h"

#include <algorithm>
#include <cstdio>

namespace g4::tool {
namespace {

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

/// What --version does, for another text.
[[noreturn]] void print(std::string text) {
  if (text.ends_with('\n'))
    text.pop_back();
  throw CLI::CallForVersion(text, 0);
}

/// The option of `app` or of a command that was named which has more values than it takes; null: none.
const CLI::Option *repeatedOption(const CLI::App &app) {
  for (const CLI::Option *option : app.get_options())
    if (option->count() > size_t(std::max(option->get_items_expected_max(), 1)))
      return option;
  for (const CLI::App *sub : app.get_subcommands())
    if (const CLI::Option *found = repeatedOption(*sub))
      return found;
  return nullptr;
}

/// CLI11's words, or ours where they are about something else or say nothing.
std::string messageOf(const CLI::App &app, const CLI::ParseError &error) {
  // What is there and wrong comes before what is missing.
  if (const auto left = app.remaining(true); error.get_name() == "RequiredError" && !left.empty())
    return CLI::ExtrasError(left).what();
  if (const auto *option = error.get_name() == "ArgumentMismatch" ? repeatedOption(app) : nullptr)
    return option->get_name() + ": given more than once";
  return error.what();
}

} // namespace

CommandSpec describe(const CLI::App &app) {
  CommandSpec out{app.get_name(), app.get_description(), app.get_footer(), {}, {}, {}};
  addOptions(app, out);
  for (const CLI::App *sub : app.get_subcommands([](const CLI::App *) { return true; }))
    out.commands.push_back(describe(*sub));
  return out;
}

void addStandardFlags(CLI::App &app, const std::string &version) {
  app.formatter(std::make_shared<HelpFormatter>());
  app.get_formatter()->column_width(32);
  app.set_version_flag("--version", version);
  app.add_flag_callback(
         "--man", [&app, version] { print(manPage(describe(app), version)); }, "Print the manual page")
      ->group(""); // for the build
}

void addCompletionFlag(CLI::App &app) {
  app.add_option_function<std::string>(
         "--completion", [&app](const std::string &shell) { print(completionScript(describe(app), shell)); },
         "Print a script that completes the options in a shell")
      ->check(CLI::IsMember({"bash", "zsh", "fish"}));
}

std::optional<ExitCode> parseArguments(CLI::App &app, int argc, char **argv,
                                       const std::function<void()> &check) {
  try {
    app.parse(argc, argv);
    check();
    return std::nullopt;
  } catch (const CLI::ParseError &error) {
    if (error.get_exit_code() == 0) { // --help and its like
      app.exit(error);
      return kExitOk;
    }
    std::fprintf(stderr, "%s: %s ('%s --help' shows the options)\n", app.get_name().c_str(),
                 oneLine(messageOf(app, error)).c_str(), helpCommand(app).c_str());
    return kExitBadUsage;
  }
}

} // namespace g4::tool
