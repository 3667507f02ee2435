#include "runtime/api/Decoder.h"

#include <algorithm>

namespace g4::api {

Decoder::Decoder(const Model::Impl &model, const GenerateRequest &request, text::Sampler sampler,
                 text::StopStrings stops)
    : model_(&model), request_(&request), sampler_(std::move(sampler)), stops_(std::move(stops)) {
  if (model.tokenizer && request.onPart)
    parts_.emplace(*model.tokenizer);
  else if (model.tokenizer)
    detokenizer_.emplace(*model.tokenizer, text::Detokenizer::Options{});
  if (request.maxTokens == 0)
    end(Finish::kLength);
}

Result<Decoder> Decoder::create(const Model::Impl &model, const GenerateRequest &request) {
  G4_ASSIGN_OR_RETURN(auto sampler, text::Sampler::create(request.sampling));
  G4_ASSIGN_OR_RETURN(auto stops, text::StopStrings::create(request.stops));
  return Decoder(model, request, std::move(sampler), std::move(stops));
}

void Decoder::end(Finish reason) {
  done_ = true;
  out_.finish = reason;
}

bool Decoder::pass(const text::AnswerParts::Piece &piece) {
  if (piece.part == Part::kThought)
    return request_->onPart(piece.part, piece.text);
  return request_->onPart(piece.part, stops_.push(piece.text));
}

bool Decoder::pass(int32_t token) {
  if (parts_)
    return pass(parts_->push(token));
  if (!detokenizer_)
    return true;
  const std::string text = stops_.push(detokenizer_->push(token));
  return !request_->onText || request_->onText(text);
}

Status Decoder::next(const text::LogitRow &row, std::vector<int32_t> &history) {
  const auto allowed = request_->suppress ? model_->sampleable->words() : std::span<const uint32_t>();
  G4_ASSIGN_OR_RETURN(const int32_t token, sampler_.sample(row, history, allowed));
  out_.ids.push_back(token);
  history.push_back(token);
  const auto &stopTokens = model_->stopTokens;
  if (!request_->ignoreEos && std::binary_search(stopTokens.begin(), stopTokens.end(), token))
    end(Finish::kStopToken);
  else if (!pass(token))
    end(Finish::kCancelled);
  else if (stops_.stopped())
    end(Finish::kStopString);
  else if (out_.ids.size() >= request_->maxTokens)
    end(Finish::kLength);
  return {};
}

Generation Decoder::finish() {
  if (parts_) {
    pass(parts_->finish());
    request_->onPart(Part::kAnswer, stops_.finish());
  } else if (detokenizer_ && request_->onText) {
    std::string rest = stops_.push(detokenizer_->finish());
    rest += stops_.finish();
    request_->onText(rest);
  }
  return std::move(out_);
}

const char *finishText(Finish finish) {
  static constexpr const char *kTexts[] = {"stop token", "stop text", "length", "context", "cancelled"};
  return kTexts[size_t(finish)];
}

} // namespace g4::api
