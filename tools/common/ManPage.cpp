#include "tools/common/CommandSpec.h"

#include <algorithm>
#include <cctype>
#include <sstream>

namespace g4::tool {
namespace {

/// Text as roff reads it: backslashes, dashes that are dashes, no line that looks like a request.
std::string roff(const std::string &text) {
  std::string out;
  for (size_t i = 0; i < text.size(); ++i) {
    if ((text[i] == '.' || text[i] == '\'') && (i == 0 || text[i - 1] == '\n'))
      out += "\\&";
    if (text[i] == '\\')
      out += "\\e";
    else if (text[i] == '-')
      out += "\\-";
    else
      out += text[i];
  }
  return out;
}

std::string upper(std::string text) {
  std::transform(text.begin(), text.end(), text.begin(),
                 [](unsigned char c) { return char(std::toupper(c)); });
  return text;
}

void addOption(const OptionSpec &option, std::string &out) {
  out += ".TP\n";
  std::string heading;
  for (const std::string &name : option.names)
    heading += (heading.empty() ? "" : ", ") + ("\\fB" + roff(name) + "\\fR");
  if (!option.value.empty())
    heading += (heading.empty() ? "\\fI" : " \\fI") + roff(option.value) + "\\fR";
  out += heading + "\n" + roff(option.help);
  if (!option.choices.empty()) {
    out += " (one of";
    for (const std::string &choice : option.choices)
      out += " " + roff(choice);
    out += ")";
  }
  out += "\n";
}

void addSynopsis(const CommandSpec &command, const std::string &name, std::string &out) {
  out += ".B " + roff(name) + "\n";
  if (!command.options.empty())
    out += "[options]\n";
  for (const OptionSpec &positional : command.positionals)
    out += ".I " + roff(positional.value) + "\n";
}

/// Notes of --help: "Examples:" and the like become sections, indented lines stay as they are.
void addNotes(const std::string &notes, const char *section, std::string &out) {
  std::istringstream lines(notes);
  bool verbatim = false;
  for (std::string line; std::getline(lines, line);) {
    const bool indented = line.starts_with("  ");
    if (indented != verbatim)
      out += indented ? ".nf\n" : ".fi\n";
    verbatim = indented;
    if (!indented && line.ends_with(":") && line.find(' ') == std::string::npos)
      out += std::string(section) + " " +
             (section[2] == 'H' ? upper(line.substr(0, line.size() - 1)) : line) + "\n";
    else
      out += line.empty() ? ".PP\n" : roff(line) + "\n";
  }
  if (verbatim)
    out += ".fi\n";
}

void addCommand(const CommandSpec &command, const std::string &name, std::string &out) {
  out += ".SS " + roff(name) + "\n" + roff(command.summary) + ".\n.PP\n";
  addSynopsis(command, name, out);
  for (const OptionSpec &option : command.positionals)
    addOption(option, out);
  for (const OptionSpec &option : command.options)
    addOption(option, out);
  if (!command.notes.empty()) {
    out += ".PP\n";
    addNotes(command.notes, ".PP\n", out);
  }
  for (const CommandSpec &sub : command.commands)
    addCommand(sub, name + " " + sub.name, out);
}

} // namespace

std::string manPage(const CommandSpec &program, const std::string &version) {
  std::string out = ".TH " + upper(program.name) + " 1 \"\" \"" + version +
                    "\" \"User Commands\"\n.SH NAME\n" + roff(program.name) + " \\- " +
                    roff(program.summary) + "\n.SH SYNOPSIS\n";
  addSynopsis(program, program.name, out);
  for (const CommandSpec &command : program.commands) {
    out += ".br\n";
    addSynopsis(command, program.name + " " + command.name, out);
  }
  out += ".SH OPTIONS\n";
  for (const OptionSpec &option : program.positionals)
    addOption(option, out);
  for (const OptionSpec &option : program.options)
    addOption(option, out);
  if (!program.commands.empty())
    out += ".SH COMMANDS\n";
  for (const CommandSpec &command : program.commands)
    addCommand(command, program.name + " " + command.name, out);
  addNotes(program.notes, ".SH", out);
  return out;
}

} // namespace g4::tool
