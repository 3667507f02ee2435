/// Chat messages to a prompt, by the Jinja template inside the model file.
#pragma once

#include "runtime/base/Status.h"

#include <nlohmann/json_fwd.hpp>

#include <chrono>
#include <cstdint>
#include <memory>
#include <string>
#include <string_view>

namespace g4::text {

/// JSON whose objects keep their order, which templates can see.
using Json = nlohmann::ordered_json;

/// A compiled template. Immutable and cheap to copy; share freely between threads. Neither the template nor
/// the messages are trusted: time, size and depth are bounded, and every failure is a Status.
class ChatTemplate {
public:
  struct Limits {
    std::chrono::milliseconds time{5000};
    uint64_t steps =
        5'000'000;             ///< expressions and statements; some templates take n^2 of them for n messages
    uint32_t depth = 1000;     ///< of expressions, statements and macro calls inside one another
    uint64_t bytes = 16 << 20; ///< of the output and of any string on the way
    uint64_t items = 1 << 17;  ///< of any list on the way
    uint64_t totalBytes = 512 << 20; ///< of all results on the way together
  };

  /// Errors: kInvalidArgument with the line of the fault (bad syntax, or larger or deeper than any real
  /// template).
  static Result<ChatTemplate> compile(std::string_view source);

  /// Renders as Jinja2 does with trim_blocks, lstrip_blocks and loop controls.
  /// `messages`: an array, in the form the template reads (see toTemplateMessages).
  /// `tools`:    an array, or null for none.
  /// `options`:  an object; each member becomes a variable (add_generation_prompt, enable_thinking, ...).
  /// What is not
  ///             there is undefined in the template. `bos_token` is "<bos>" unless it is there.
  /// Errors: kInvalidArgument (the template refuses the messages, fails on them, or exceeds a limit: one line
  /// that says where), kResourceExhausted (no memory).
  Result<std::string> render(const Json &messages, const Json &tools, const Json &options,
                             const Limits &limits) const;
  Result<std::string> render(const Json &messages, const Json &tools, const Json &options) const {
    return render(messages, tools, options, Limits());
  }

  /// The template takes OpenAI's `tool` messages itself. Older ones want their results inside the assistant
  /// message that made the calls.
  bool readsToolMessages() const;

private:
  struct Program;
  explicit ChatTemplate(std::shared_ptr<const Program> program) : program_(std::move(program)) {}
  std::shared_ptr<const Program> program_;
};

} // namespace g4::text
