/// Token ids to text, one id at a time, never half a character.
#pragma once

#include "runtime/text/Tokenizer.h"

#include <cstdint>
#include <string>

namespace g4::text {

/// One stream of ids. Not thread safe; one per sequence. Keeps a copy of the Tokenizer, whose blob must stay
/// alive.
class Detokenizer {
public:
  struct Options {
    bool skipSpecial = false; ///< leave out control and user-defined tokens, such as <turn|>
  };
  Detokenizer(const Tokenizer &tokenizer, Options options) : tokenizer_(tokenizer), options_(options) {}

  /// The text that became certain with this id: whole UTF-8 characters only. A character of several byte
  /// tokens comes with the last of them; bytes that can belong to no character come as U+FFFD. An id out of
  /// range gives no text.
  std::string push(int32_t id);

  /// The end of the stream: U+FFFD for a character that stays unfinished, else nothing. Afterwards a new
  /// stream begins.
  std::string finish();

private:
  std::string takeComplete(bool last);

  Tokenizer tokenizer_;
  Options options_;
  std::string held_; ///< at most 3 bytes between calls
};

} // namespace g4::text
