/// One answer's choices and text, while somebody else runs the model.
#pragma once

#include "runtime/text/AnswerParts.h"
#include "runtime/text/Sampler.h"
#include "runtime/text/StopStrings.h"
#include "runtime/text/TokenSets.h"
#include "runtime/text/Tokenizer.h"

#include <cstdint>
#include <limits>
#include <optional>
#include <span>
#include <string>
#include <vector>

namespace g4::sched {

using text::Part;

enum class Finish : uint8_t {
  kStopToken,  ///< the model ended its answer
  kStopString, ///< one of the stop texts appeared
  kLength,     ///< as many tokens as were asked for
  kContext,    ///< no room for another position
  kCancelled,  ///< whoever asked wants no more
};
const char *finishText(Finish finish); ///< "stop token", ...

struct DecodeOptions {
  uint32_t maxTokens = std::numeric_limits<uint32_t>::max();
  text::SamplingOptions sampling = {};
  std::vector<std::string> stops = {}; ///< with `divide` they count in the answer only
  bool ignoreEos = false;              ///< stop tokens do not stop
  bool suppress = true; ///< never sample what the model file says, nor media placeholders, nor unused tokens
  bool divide = false;  ///< tell thoughts from the answer, and leave out the marks between them
};

/// What a model's tokens mean. Immutable once made; share freely between threads.
struct TokenRules {
  std::optional<text::Tokenizer> tokenizer; ///< none: the artifact holds no tables, and there is no text
  std::vector<int32_t> stopTokens;          ///< ascending
  std::optional<text::TokenBitmask> sampleable;
  std::optional<int32_t> turn = {}; ///< begins a message of a conversation; none: not known
};

/// Not thread safe; one per answer.
class Decoder {
public:
  struct Token {
    int32_t id;
    Part part = Part::kAnswer;
    std::string text = {}; ///< whole UTF-8 characters that became certain; may be empty
  };

  /// `rules` must outlive it. Errors: kInvalidArgument (an option out of its range).
  static Result<Decoder> create(const TokenRules &rules, DecodeOptions options);

  bool done() const { return done_; }
  Finish reason() const { return reason_; }
  /// Chooses the next token from a row of logits and appends it to `history` (all ids before it). Call while
  /// not done. Errors: those of text::Sampler::sample; nothing was chosen.
  Result<Token> next(const text::LogitRow &row, std::vector<int32_t> &history);
  void end(Finish reason);
  /// The text that was held back, in order, once done; at most two pieces. Call once.
  std::vector<text::AnswerParts::Piece> finish();

  uint32_t tokens() const { return tokens_; } ///< chosen so far, a stop token included
  const DecodeOptions &options() const { return options_; }

private:
  Decoder(const TokenRules &rules, DecodeOptions options, text::Sampler sampler, text::StopStrings stops);
  Token textOf(int32_t id);

  const TokenRules *rules_;
  DecodeOptions options_;
  text::Sampler sampler_;
  text::StopStrings stops_;
  // One of these, or none: there is no tokenizer.
  std::optional<text::Detokenizer> detokenizer_;
  std::optional<text::AnswerParts> parts_;
  uint32_t tokens_ = 0;
  bool done_ = false;
  Finish reason_ = Finish::kLength;
};

} // namespace g4::sched
