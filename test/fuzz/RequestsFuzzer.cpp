// Bytes from anywhere as the body of a request. Byte 0: of which.
#include "runtime/server/Requests.h"

#include <cstdlib>
#include <string_view>

namespace {

void require(bool condition) {
  if (!condition)
    std::abort();
}

/// A failure is the client's, and says what of.
template <class T> const T *check(const g4::server::Parsed<T> &parsed) {
  if (const auto *failure = std::get_if<g4::server::Failure>(&parsed)) {
    require(failure->status >= 400 && failure->status < 500 && !failure->message.empty());
    require(g4::server::Json::accept(g4::server::failureJson(*failure)));
  }
  return std::get_if<T>(&parsed);
}

/// What the engine takes for granted.
void checkCall(const g4::server::Call &call, const g4::server::ModelFacts &facts) {
  require(call.answers >= 1 && call.answers <= g4::server::kMostChoices);
  require(call.logprobs.value_or(0) <= g4::server::kMostLogprobs);
  require(g4::text::Sampler::create(call.decode.sampling).ok());
  for (const auto &[id, bias] : call.decode.sampling.logitBias)
    require(id >= 0 && uint32_t(id) < facts.vocabulary);
}

void checkIds(const std::vector<int32_t> &ids, const g4::server::ModelFacts &facts) {
  for (int32_t id : ids)
    require(id >= 0 && uint32_t(id) < facts.vocabulary);
}

} // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
  static const g4::server::ModelFacts facts{"m", 1000, 512, {}};
  if (size == 0)
    return 0;
  const std::string_view body(reinterpret_cast<const char *>(data) + 1, size - 1);
  switch (data[0] & 3) {
  case 0:
    if (const auto parsed = g4::server::parseChat(body, facts); const auto *call = check(parsed)) {
      checkCall(*call, facts);
      require(g4::server::Json::accept(call->conversation));
    }
    break;
  case 1:
    if (const auto parsed = g4::server::parseCompletion(body, facts); const auto *call = check(parsed)) {
      checkCall(*call, facts);
      require(!call->prompts.empty());
      for (const auto &prompt : call->prompts)
        if (const auto *ids = std::get_if<std::vector<int32_t>>(&prompt))
          checkIds(*ids, facts);
    }
    break;
  case 2:
    if (const auto parsed = g4::server::parseTokenize(body, facts); const auto *call = check(parsed))
      require(call->text.empty() || call->conversation.empty());
    break;
  default:
    if (const auto parsed = g4::server::parseDetokenize(body, facts); const auto *ids = check(parsed))
      checkIds(*ids, facts);
  }
  return 0;
}
