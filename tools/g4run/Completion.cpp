#include "tools/common/Cli.h"
#include "tools/g4run/Commands.h"

#include <cstdio>

namespace g4::tool {
namespace {

constexpr char kNotes[] = R"(Examples:
  g4run completion bash > ~/.local/share/bash-completion/completions/g4run
  g4run completion zsh > ~/.zfunc/_g4run          # a folder of $fpath
  g4run completion fish > ~/.config/fish/completions/g4run.fish

g4c and g4-runner have their own: g4c --completion=bash.)";

} // namespace

void addCompletion(CLI::App &app, Run &run) {
  auto shell = std::make_shared<std::string>();
  CLI::App *command =
      app.add_subcommand("completion", "Print a script that completes g4run's options in a shell");
  command->footer(kNotes);
  command->add_option("shell", *shell, "bash, zsh or fish")
      ->required()
      ->check(CLI::IsMember({"bash", "zsh", "fish"}));
  command->callback([&app, &run, shell] {
    run = [text = completionScript(describe(app), *shell)](const Interrupted &) -> Status {
      std::fputs(text.c_str(), stdout);
      return {};
    };
  });
}

} // namespace g4::tool
