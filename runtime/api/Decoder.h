/// One generation's choices and text, while somebody else runs the model. Not public.
#pragma once

#include "runtime/api/Impl.h"
#include "runtime/text/AnswerParts.h"
#include "runtime/text/StopStrings.h"

namespace g4::api {

class Decoder {
public:
  /// `model` and `request` must outlive it. Errors: kInvalidArgument (an option out of its range).
  static Result<Decoder> create(const Model::Impl &model, const GenerateRequest &request);

  bool done() const { return done_; }
  /// Chooses the next token from a row of logits, appends it to `history` (all ids before it) and passes its
  /// text on. Call while not done.
  Status next(const text::LogitRow &row, std::vector<int32_t> &history);
  void end(Finish reason);
  /// Passes on what text was held back. Call once, last.
  Generation finish();

private:
  Decoder(const Model::Impl &model, const GenerateRequest &request, text::Sampler sampler,
          text::StopStrings stops);
  /// False: the receiver wants no more.
  bool pass(const text::AnswerParts::Piece &piece);
  bool pass(int32_t token);

  const Model::Impl *model_;
  const GenerateRequest *request_;
  text::Sampler sampler_;
  text::StopStrings stops_;
  // One of these, or none: the artifact holds no tokenizer.
  std::optional<text::Detokenizer> detokenizer_;
  std::optional<text::AnswerParts> parts_;
  Generation out_;
  bool done_ = false;
};

} // namespace g4::api
