/// What a load test reads of an answer: server-sent events, and what they say.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace g4::tool {

/// Takes a body apart into server-sent events, wherever it is cut.
/// Source: HTML standard, 9.2.6 "Interpreting an event stream".
class SseReader {
public:
  /// The data of each event that ends in `bytes`. Names of events, ids and comments are left out.
  std::vector<std::string> read(std::string_view bytes);
  /// Bytes held of an event that has not ended.
  size_t held() const { return line_.size() + data_.size(); }

private:
  void endLine(std::vector<std::string> &out);
  std::string line_, data_;
  bool hasData_ = false, afterReturn_ = false, first_ = true;
};

/// Why a request failed. `kind` groups: "HTTP 429", "connection", "protocol", "timeout", "error in stream",
/// "cut short".
struct LoadFailure {
  std::string kind, message;
};

/// What became of a request. Times in seconds since it was sent; a new connection is part of them.
struct LoadOutcome {
  enum class End { kComplete, kCancelled, kFailed, kUnfinished };
  End end = End::kUnfinished;
  LoadFailure failure = {};           ///< kFailed
  double seconds = 0;                 ///< until its end
  std::optional<double> firstToken{}; ///< until the first text
  double lastToken = 0;               ///< until the last one
  std::vector<double> gaps = {};      ///< between pieces of text
  /// What the server says it was, in the end; else none.
  std::optional<uint64_t> promptTokens{}, cachedTokens{}, answerTokens{};

  uint64_t pieces() const { return firstToken ? gaps.size() + 1 : 0; }
};

/// Follows the events of one answer.
class LoadAnswer {
public:
  /// An event's data, that came at `seconds`. False: the answer has failed.
  bool add(std::string_view data, double seconds, LoadOutcome &outcome);
  /// "[DONE]" came.
  bool done() const { return done_; }

private:
  bool done_ = false;
};

/// What an error's body says: error.message of JSON, or its begin.
std::string errorText(const std::string &body);

} // namespace g4::tool
