/// The messages of a chat, and their file.
#pragma once

#include "runtime/base/Status.h"

#include <string>
#include <vector>

namespace g4::tool {

struct Conversation {
  struct Message {
    std::string role; ///< "user" or "assistant", in turn
    std::string content;
    std::string thought = {}; ///< of an assistant; templates leave it out of later prompts
  };
  std::string system;
  bool thinking = false;
  std::vector<Message> messages;

  /// As a chat request (api::ChatRequest::json), which is the file's format too: an object with "messages" in
  /// the OpenAI form and "enable_thinking". What is no UTF-8 is replaced.
  std::string json() const;
  /// Errors: kInvalidArgument saying what a chat cannot go on from.
  static Result<Conversation> parse(const std::string &json);

  /// The file appears complete or not at all. Errors: those of AtomicFile.
  Status save(const std::string &path) const;
  /// Errors: kInvalidArgument (cannot be read, larger than 64 MiB, or as parse).
  static Result<Conversation> load(const std::string &path);
};

} // namespace g4::tool
