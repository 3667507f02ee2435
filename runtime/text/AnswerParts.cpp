#include "runtime/text/AnswerParts.h"

namespace g4::text {

AnswerParts::AnswerParts(const Tokenizer &tokenizer)
    : open_(tokenizer.find("<|channel>")), close_(tokenizer.find("<channel|>")), detokenizer_(tokenizer, {}) {
}

AnswerParts::Piece AnswerParts::push(int32_t id) {
  if (id == open_ || id == close_) {
    Piece rest = finish();
    part_ = id == open_ ? Part::kThought : Part::kAnswer;
    inName_ = id == open_;
    return rest;
  }
  Piece piece{part_, detokenizer_.push(id)};
  if (inName_) {
    const size_t end = piece.text.find('\n');
    inName_ = end == std::string::npos;
    piece.text.erase(0, inName_ ? std::string::npos : end + 1);
  }
  return piece;
}

AnswerParts::Piece AnswerParts::finish() {
  Piece rest{part_, detokenizer_.finish()};
  if (inName_)
    rest.text.clear();
  return rest;
}

} // namespace g4::text
