#include "tools/common/CommandSpec.h"

namespace g4::tool {
namespace {

std::string replaceAll(std::string text, const std::string &from, const std::string &to) {
  for (size_t at = 0; (at = text.find(from, at)) != std::string::npos; at += to.size())
    text.replace(at, from.size(), to);
  return text;
}

/// For single quotes of a shell.
std::string quoted(const std::string &text) { return "'" + replaceAll(text, "'", "'\\''") + "'"; }

std::string joined(const std::vector<std::string> &words, const char *between = " ") {
  std::string out;
  for (const std::string &word : words)
    out += (out.empty() ? "" : between) + word;
  return out;
}

bool completesPaths(const CommandSpec &command) {
  for (const OptionSpec &positional : command.positionals)
    if (positional.takesPath())
      return true;
  return false;
}

std::vector<std::string> optionNames(const CommandSpec &command) {
  std::vector<std::string> out;
  for (const OptionSpec &option : command.options)
    out.insert(out.end(), option.names.begin(), option.names.end());
  return out;
}

std::vector<std::string> commandNames(const CommandSpec &command) {
  std::vector<std::string> out;
  for (const CommandSpec &sub : command.commands)
    out.push_back(sub.name);
  return out;
}

std::vector<std::string> positionalChoices(const CommandSpec &command) {
  std::vector<std::string> out;
  for (const OptionSpec &positional : command.positionals)
    out.insert(out.end(), positional.choices.begin(), positional.choices.end());
  return out;
}

//===- bash

/// One branch of the outer `case`: what a command offers.
void bashCommand(const CommandSpec &command, const std::string &pattern, std::string &out) {
  out += "  " + pattern + ")\n    case $prev in\n";
  for (const OptionSpec &option : command.options) {
    if (option.value.empty())
      continue;
    out += "    " + joined(option.names, "|") + ") ";
    if (!option.choices.empty())
      out += "COMPREPLY=($(compgen -W " + quoted(joined(option.choices)) + " -- \"$cur\"));";
    else if (option.takesPath())
      out += "COMPREPLY=($(compgen -f -- \"$cur\")); compopt -o filenames;";
    out += " return ;;\n";
  }
  out += "    esac\n";
  std::vector<std::string> words = positionalChoices(command);
  for (const std::string &name : commandNames(command))
    words.push_back(name);
  out += "    case $cur in\n    -*) COMPREPLY=($(compgen -W " + quoted(joined(optionNames(command))) +
         " -- \"$cur\")); return ;;\n    esac\n";
  if (!words.empty())
    out += "    COMPREPLY=($(compgen -W " + quoted(joined(words)) + " -- \"$cur\"))\n";
  if (completesPaths(command))
    out += "    COMPREPLY+=($(compgen -f -- \"$cur\")); compopt -o filenames\n";
  out += "    ;;\n";
}

/// Sets `command` to the words of the commands typed so far.
std::string bashScript(const CommandSpec &program) {
  const std::string function = "_" + program.name;
  std::string out =
      "# bash completion for " + program.name + "; made by it\n" + function +
      "() {\n  local cur=${COMP_WORDS[COMP_CWORD]} prev=${COMP_WORDS[COMP_CWORD - 1]} command= word\n"
      "  COMPREPLY=()\n  # --option=value comes as three words.\n"
      "  [ \"$cur\" = = ] && cur=\n"
      "  [ \"$prev\" = = ] && prev=${COMP_WORDS[COMP_CWORD - 2]}\n"
      "  for word in \"${COMP_WORDS[@]:1:COMP_CWORD-1}\"; do\n    case \"$command $word\" in\n";
  for (const CommandSpec &command : program.commands) {
    out += "    ' " + command.name + "') command=" + command.name + " ;;\n";
    for (const CommandSpec &sub : command.commands)
      out +=
          "    '" + command.name + " " + sub.name + "') command='" + command.name + " " + sub.name + "' ;;\n";
  }
  out += "    esac\n  done\n  case $command in\n";
  bashCommand(program, "''", out);
  for (const CommandSpec &command : program.commands) {
    bashCommand(command, command.name, out);
    for (const CommandSpec &sub : command.commands)
      bashCommand(sub, "'" + command.name + " " + sub.name + "'", out);
  }
  return out + "  esac\n}\ncomplete -F " + function + " " + program.name + "\n";
}

//===- zsh

std::string zshText(const std::string &help) {
  std::string out;
  for (char c : help) {
    if (c == '[' || c == ']' || c == ':' || c == '\\')
      out += '\\';
    out += c;
  }
  return out;
}

std::string zshAction(const OptionSpec &option) {
  if (!option.choices.empty())
    return "(" + joined(option.choices) + ")";
  return option.takesPath() ? "_files" : " ";
}

void zshArguments(const CommandSpec &command, const std::string &indent, std::string &out) {
  out += indent + "_arguments -s -S";
  const std::string next = " \\\n" + indent + "  ";
  for (const OptionSpec &option : command.options)
    for (const std::string &name : option.names) {
      const bool assigns = name.starts_with("--") && !option.value.empty();
      std::string spec = "*" + name + (assigns ? "=" : "") + "[" + zshText(option.help) + "]";
      if (!option.value.empty())
        spec += ":" + zshText(option.value) + ":" + zshAction(option);
      out += next + quoted(spec);
    }
  for (const OptionSpec &positional : command.positionals)
    out += next + quoted(":" + zshText(positional.value) + ":" + zshAction(positional));
  out += '\n';
}

void zshCommand(const CommandSpec &command, const std::string &indent, int depth, std::string &out) {
  if (command.commands.empty())
    return zshArguments(command, indent, out);
  const std::string word = "${words[" + std::to_string(depth) + "]}";
  out += indent + "if (( CURRENT == " + std::to_string(depth) + " )) && [[ $PREFIX != -* ]]; then\n" +
         indent + "  local -a commands=(\n";
  for (const CommandSpec &sub : command.commands)
    out += indent + "    " + quoted(sub.name + ":" + zshText(sub.summary)) + "\n";
  out += indent + "  )\n" + indent + "  _describe command commands\n";
  if (completesPaths(command))
    out += indent + "  _files\n";
  out += indent + "  return\n" + indent + "fi\n" + indent + "case " + word + " in\n";
  for (const CommandSpec &sub : command.commands) {
    out += indent + sub.name + ")\n";
    zshCommand(sub, indent + "  ", depth + 1, out);
    out += indent + "  ;;\n";
  }
  out += indent + "*)\n";
  zshArguments(command, indent + "  ", out);
  out += indent + "  ;;\n" + indent + "esac\n";
}

std::string zshScript(const CommandSpec &program) {
  std::string out = "#compdef " + program.name + "\n# zsh completion for " + program.name +
                    "; made by it\n_" + program.name + "() {\n";
  zshCommand(program, "  ", 2, out);
  return out + "}\n_" + program.name + " \"$@\"\n";
}

//===- fish

void fishCommand(const CommandSpec &command, const std::string &program, const std::string &condition,
                 std::string &out) {
  const std::string start = "complete -c " + program + " -n " + quoted(condition);
  for (const CommandSpec &sub : command.commands)
    out += start + " -a " + sub.name + " -d " + quoted(sub.summary) + "\n";
  if (const auto choices = positionalChoices(command); !choices.empty())
    out += start + " -a " + quoted(joined(choices)) + "\n";
  if (completesPaths(command))
    out += start + " -F\n";
  for (const OptionSpec &option : command.options) {
    out += start;
    for (const std::string &name : option.names)
      out += name.starts_with("--") ? " -l " + name.substr(2)
             : name.size() == 2     ? " -s " + name.substr(1)
                                    : " -o " + name.substr(1);
    out += " -d " + quoted(option.help);
    if (!option.choices.empty())
      out += " -x -a " + quoted(joined(option.choices));
    else if (!option.value.empty())
      out += option.takesPath() ? " -r -F" : " -x";
    out += '\n';
  }
}

std::string fishScript(const CommandSpec &program) {
  std::string out =
      "# fish completion for " + program.name + "; made by it\ncomplete -c " + program.name + " -f\n";
  const auto names = commandNames(program);
  fishCommand(program, program.name,
              names.empty() ? "true" : "not __fish_seen_subcommand_from " + joined(names), out);
  for (const CommandSpec &command : program.commands) {
    const std::string seen = "__fish_seen_subcommand_from " + command.name;
    const auto subs = commandNames(command);
    fishCommand(command, program.name,
                subs.empty() ? seen : seen + "; and not __fish_seen_subcommand_from " + joined(subs), out);
    for (const CommandSpec &sub : command.commands)
      fishCommand(sub, program.name, seen + "; and __fish_seen_subcommand_from " + sub.name, out);
  }
  return out;
}

} // namespace

std::string completionScript(const CommandSpec &program, const std::string &shell) {
  if (shell == "bash")
    return bashScript(program);
  if (shell == "zsh")
    return zshScript(program);
  return shell == "fish" ? fishScript(program) : std::string();
}

} // namespace g4::tool
