#include "runtime/sched/Decoder.h"

#include <algorithm>

namespace g4::sched {

Decoder::Decoder(const TokenRules &rules, DecodeOptions options, text::Sampler sampler,
                 text::StopStrings stops)
    : rules_(&rules), options_(std::move(options)), sampler_(std::move(sampler)), stops_(std::move(stops)) {
  if (rules.tokenizer && options_.divide)
    parts_.emplace(*rules.tokenizer);
  else if (rules.tokenizer)
    detokenizer_.emplace(*rules.tokenizer, text::Detokenizer::Options{});
  if (options_.maxTokens == 0)
    end(Finish::kLength);
}

Result<Decoder> Decoder::create(const TokenRules &rules, DecodeOptions options) {
  G4_ASSIGN_OR_RETURN(auto sampler, text::Sampler::create(options.sampling));
  G4_ASSIGN_OR_RETURN(auto stops, text::StopStrings::create(options.stops));
  return Decoder(rules, std::move(options), std::move(sampler), std::move(stops));
}

void Decoder::end(Finish reason) {
  done_ = true;
  reason_ = reason;
}

Decoder::Token Decoder::textOf(int32_t id) {
  if (detokenizer_)
    return {id, Part::kAnswer, stops_.push(detokenizer_->push(id))};
  if (!parts_)
    return {id};
  auto piece = parts_->push(id);
  return {id, piece.part, piece.part == Part::kThought ? std::move(piece.text) : stops_.push(piece.text)};
}

Result<Decoder::Token> Decoder::next(const text::LogitRow &row, std::vector<int32_t> &history) {
  const auto allowed = options_.suppress ? rules_->sampleable->words() : std::span<const uint32_t>();
  G4_ASSIGN_OR_RETURN(const int32_t id, sampler_.sample(row, history, allowed));
  history.push_back(id);
  ++tokens_;
  if (!options_.ignoreEos && std::binary_search(rules_->stopTokens.begin(), rules_->stopTokens.end(), id)) {
    end(Finish::kStopToken);
    return Token{id};
  }
  Token token = textOf(id);
  if (stops_.stopped())
    end(Finish::kStopString);
  else if (tokens_ >= options_.maxTokens)
    end(Finish::kLength);
  return token;
}

std::vector<text::AnswerParts::Piece> Decoder::finish() {
  std::vector<text::AnswerParts::Piece> pieces;
  if (detokenizer_) {
    std::string rest = stops_.push(detokenizer_->finish());
    rest += stops_.finish();
    pieces.push_back({Part::kAnswer, std::move(rest)});
  } else if (parts_) {
    auto piece = parts_->finish();
    if (piece.part == Part::kAnswer)
      piece.text = stops_.push(piece.text) + stops_.finish();
    pieces.push_back(std::move(piece));
    if (pieces[0].part == Part::kThought)
      pieces.push_back({Part::kAnswer, stops_.finish()});
  }
  return pieces;
}

const char *finishText(Finish finish) {
  static constexpr const char *kTexts[] = {"stop token", "stop text", "length", "context", "cancelled"};
  return kTexts[size_t(finish)];
}

} // namespace g4::sched
