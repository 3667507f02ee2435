/// What a model generates, divided into its answer and its thoughts.
#pragma once

#include "runtime/text/Detokenizer.h"
#include "runtime/text/Part.h"

#include <optional>
#include <string>

namespace g4::text {

/// One stream of ids. A thought stands between the control tokens `<|channel>` and `<channel|>`, after the
/// channel's name and a line break; marks and name are no text. The marks are recognised as tokens: the same
/// characters spelled with ordinary tokens are text. Not thread safe; one per sequence.
class AnswerParts {
public:
  struct Piece {
    Part part;
    std::string text; ///< whole UTF-8 characters; may be empty
  };

  /// A vocabulary without the marks has answers only.
  explicit AnswerParts(const Tokenizer &tokenizer);

  /// The text that became certain with this id. A mark ends what was before it.
  Piece push(int32_t id);
  /// The end of the stream: see Detokenizer::finish.
  Piece finish();

private:
  std::optional<int32_t> open_, close_;
  Detokenizer detokenizer_;
  Part part_ = Part::kAnswer;
  bool inName_ = false; ///< between the mark and the line break after the channel's name
};

} // namespace g4::text
