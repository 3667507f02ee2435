#include "runtime/server/Traffic.h"

#include <array>
#include <cstdio>
#include <type_traits>

namespace g4::server {
namespace {

class MetricsWriter {
public:
  /// Begins a metric; `kind`: "counter", "gauge" or "histogram".
  MetricsWriter &metric(const char *name, const char *kind, const char *help) {
    name_ = std::string("g4_") + name;
    text_ += "# HELP " + name_ + ' ' + help + "\n# TYPE " + name_ + ' ' + kind + '\n';
    return *this;
  }
  /// `labels`: R"({path="/x"})", or nothing.
  template <class T> MetricsWriter &value(T value, const std::string &labels = {}, const char *suffix = "") {
    text_ += name_ + suffix + labels + ' ' + number(value) + '\n';
    return *this;
  }
  template <class T> MetricsWriter &one(const char *name, const char *kind, const char *help, T value) {
    return metric(name, kind, help).value(value);
  }
  std::string take() { return std::move(text_); }

  template <class T> static std::string number(T value) {
    if constexpr (std::is_integral_v<T>)
      return std::to_string(value);
    char text[32];
    std::snprintf(text, sizeof text, "%.9g", double(value));
    return text;
  }

private:
  std::string text_, name_;
};

} // namespace

std::string metricsText(const api::EngineStats &s, const Traffic &traffic) {
  MetricsWriter out;
  out.one("answers_waiting", "gauge", "Answers that wait for a place", s.waiting);
  out.one("answers_running", "gauge", "Answers that the model works on", s.running);
  out.one("answers_submitted_total", "counter", "Answers asked for", s.submitted);
  out.metric("answers_ended_total", "counter", "Answers by how they ended")
      .value(s.finished, R"({how="finished"})")
      .value(s.cancelled, R"({how="cancelled"})")
      .value(s.failed, R"({how="failed"})");
  out.one("preemptions_total", "counter", "Answers that gave up their pages, to be computed again",
          s.preempted);
  out.one("prompt_tokens_total", "counter", "Tokens of prompts", s.promptTokens);
  out.one("cached_prompt_tokens_total", "counter", "Of them, found in the prefix cache", s.cachedTokens);
  out.one("computed_prompt_tokens_total", "counter",
          "Rows of prompts computed, those of preempted answers included", s.computedTokens);
  out.one("answer_tokens_total", "counter", "Tokens chosen", s.answerTokens);
  constexpr const char *kClasses[] = {"sliding", "global"};
  out.metric("kv_pages", "gauge", "Pages of keys and values that there are");
  for (size_t i = 0; i < 2; ++i)
    out.value(s.pages[i], std::string("{layers=\"") + kClasses[i] + "\"}");
  out.metric("kv_pages_used", "gauge", "Pages of keys and values in use by answers or the prefix cache");
  for (size_t i = 0; i < 2; ++i)
    out.value(s.usedPages[i], std::string("{layers=\"") + kClasses[i] + "\"}");
  out.one("kv_bytes", "gauge", "Memory for keys and values", s.kvBytes);
  out.one("kv_bytes_used", "gauge", "Of it, in use", s.usedKvBytes);
  out.one("prefix_cache_bytes", "gauge", "Keys and values that the prefix cache holds", s.cacheBytes);
  out.metric("step_seconds", "histogram", "Time of the model's steps");
  uint64_t steps = 0;
  for (size_t i = 0; i < s.stepCounts.size(); ++i) {
    steps += s.stepCounts[i];
    const std::string bound =
        i < api::kStepBounds.size() ? MetricsWriter::number(api::kStepBounds[i]) : "+Inf";
    out.value(steps, "{le=\"" + bound + "\"}", "_bucket");
  }
  out.value(s.stepSeconds, "", "_sum").value(steps, "", "_count");
  out.one("http_connections", "gauge", "Open connections", traffic.connections);
  out.one("http_requests_running", "gauge", "Requests being answered", traffic.requests);
  out.one("http_disconnects_total", "counter", "Clients that left before the end of their answer",
          traffic.disconnects);
  out.metric("http_replies_total", "counter", "Answered requests");
  for (const auto &[key, count] : traffic.replies)
    out.value(count, "{path=\"" + key.first + "\",code=\"" + std::to_string(key.second) + "\"}");
  return out.take();
}

} // namespace g4::server
