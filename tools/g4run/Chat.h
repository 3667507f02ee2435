/// The parts of 'g4run chat' that need neither a model nor a terminal.
#pragma once

#include "tools/g4run/Conversation.h"

#include <string>

namespace g4::tool {

/// What a typed line asks for.
struct ChatCommand {
  enum class Kind {
    kMessage,
    kNothing,
    kBad,
    kHelp,
    kReset,
    kSystem,
    kThink,
    kSave,
    kLoad,
    kStats,
    kQuit
  } kind;
  std::string text; ///< the message, the command's argument, or what is wrong
  bool on = false;  ///< of kThink
};

/// A line that begins with '/' is a command, unless it has several lines; "//" begins a message with '/'.
ChatCommand parseChatLine(const std::string &line);

/// What /help prints.
const char *chatHelp();

} // namespace g4::tool
