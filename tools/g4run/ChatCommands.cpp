#include "tools/g4run/Chat.h"

#include <algorithm>
#include <iterator>

namespace g4::tool {
namespace {

using Kind = ChatCommand::Kind;

struct Known {
  std::string_view name, argument;
  Kind kind;
};
// The order is that of /help.
constexpr Known kCommands[] = {{"/help", "", Kind::kHelp},         {"/reset", "", Kind::kReset},
                               {"/system", "TEXT", Kind::kSystem}, {"/think", "on|off", Kind::kThink},
                               {"/save", "FILE", Kind::kSave},     {"/load", "FILE", Kind::kLoad},
                               {"/stats", "", Kind::kStats},       {"/quit", "", Kind::kQuit}};

std::string trimmed(const std::string &text) {
  const size_t begin = text.find_first_not_of(" \t\n\r"), end = text.find_last_not_of(" \t\n\r");
  return begin == std::string::npos ? std::string() : text.substr(begin, end - begin + 1);
}

/// Edits (insert, remove, replace a character) from one word to the other.
size_t distance(std::string_view a, std::string_view b) {
  std::vector<size_t> row(b.size() + 1);
  for (size_t j = 0; j <= b.size(); ++j)
    row[j] = j;
  for (size_t i = 1; i <= a.size(); ++i) {
    size_t diagonal = std::exchange(row[0], i);
    for (size_t j = 1; j <= b.size(); ++j)
      diagonal =
          std::exchange(row[j], std::min({row[j] + 1, row[j - 1] + 1, diagonal + (a[i - 1] != b[j - 1])}));
  }
  return row[b.size()];
}

std::string unknown(const std::string &name) {
  const Known &near =
      *std::min_element(std::begin(kCommands), std::end(kCommands), [&](const Known &a, const Known &b) {
        return distance(name, a.name) < distance(name, b.name);
      });
  const std::string hint =
      distance(name, near.name) <= 2 ? "did you mean " + std::string(near.name) + "? " : "";
  return "no command " + name + ": " + hint +
         "/help lists them; a message that begins with / is written with //";
}

} // namespace

ChatCommand parseChatLine(const std::string &line) {
  const std::string text = trimmed(line);
  if (text.empty())
    return {Kind::kNothing, ""};
  if (text[0] != '/' || text.find('\n') != std::string::npos)
    return {Kind::kMessage, text};
  if (text.starts_with("//"))
    return {Kind::kMessage, text.substr(1)};
  const size_t space = text.find_first_of(" \t");
  const std::string name = text.substr(0, space);
  const std::string argument = space == std::string::npos ? "" : trimmed(text.substr(space));
  const auto known = std::find_if(std::begin(kCommands), std::end(kCommands),
                                  [&](const Known &k) { return k.name == name; });
  if (known == std::end(kCommands))
    return {Kind::kBad, unknown(name)};
  const bool optional = known->kind == Kind::kSystem; // without a text it removes the message
  if (known->argument.empty() ? !argument.empty() : argument.empty() && !optional)
    return {Kind::kBad,
            "usage: " + name + (known->argument.empty() ? "" : " " + std::string(known->argument))};
  if (known->kind == Kind::kThink && argument != "on" && argument != "off")
    return {Kind::kBad, "usage: /think on|off"};
  return {known->kind, argument, argument == "on"};
}

const char *chatHelp() {
  return "  /help          this list\n"
         "  /reset         begin a new conversation; the system message stays\n"
         "  /system TEXT   set the system message; without a text, remove it\n"
         "  /think on|off  let the model think before it answers\n"
         "  /save FILE     write the conversation to a file\n"
         "  /load FILE     go on with a conversation that was saved\n"
         "  /stats         speed of the last answer, and how full the context is\n"
         "  /quit          leave, as Ctrl-D does\n"
         "Enter sends, Alt-Enter begins a new line, Ctrl-C stops an answer.\n";
}

} // namespace g4::tool
