#include "tools/g4run/LoadReport.h"
#include "runtime/base/Text.h"
#include "tools/g4run/ReportText.h"

#include <nlohmann/json.hpp>

#include <algorithm>
#include <cmath>
#include <numeric>

namespace g4::tool {
namespace {

using Json = nlohmann::ordered_json;
using Ull = unsigned long long;

double mean(const std::vector<double> &values) {
  return values.empty() ? 0 : std::accumulate(values.begin(), values.end(), 0.0) / double(values.size());
}

double perSecond(uint64_t count, double seconds) { return seconds > 0 ? double(count) / seconds : 0; }

std::vector<double> sorted(std::vector<double> values) {
  std::sort(values.begin(), values.end());
  return values;
}

Json timesJson(const std::vector<double> &seconds) {
  const std::vector<double> values = sorted(seconds);
  Json out = {{"count", values.size()}};
  const auto add = [&](const char *name, unsigned percent) {
    out[name] = values.empty() ? Json() : Json(percentile(values, percent));
  };
  add("p50", 50), add("p95", 95), add("p99", 99), add("max", 100);
  out["mean"] = values.empty() ? Json() : Json(mean(values));
  return out;
}

Json workloadJson(const LoadPlan &plan) {
  return {{"seed", plan.seed},
          {"clients", plan.rate > 0 ? Json() : Json(plan.clients)},
          {"rate", plan.rate > 0 ? Json(plan.rate) : Json()},
          {"prompt_tokens", plan.promptTokens.text()},
          {"answer_tokens", plan.answerTokens.text()},
          {"shared_prefix", plan.prefixTokens},
          {"prefixes", plan.prefixes},
          {"cancel", plan.cancelled}};
}

void addTimes(std::string &out, const char *name, const std::vector<double> &seconds) {
  const std::vector<double> values = sorted(seconds);
  addText(out, "%-22s %9zu", name, values.size());
  if (!values.empty()) {
    for (unsigned percent : {50, 95, 99, 100})
      addText(out, " %9.2f", 1e3 * percentile(values, percent));
    addText(out, " %9.2f", 1e3 * mean(values));
  }
  out += '\n';
}

} // namespace

double percentile(std::span<const double> sorted, unsigned percent) {
  return sorted[(sorted.size() * percent + 99) / 100 - 1];
}

void LoadTally::add(const LoadOutcome &outcome, uint64_t sentTokens) {
  using End = LoadOutcome::End;
  switch (outcome.end) {
  case End::kComplete:
    ++complete;
    request.push_back(outcome.seconds);
    break;
  case End::kCancelled:
    ++cancelled;
    break;
  case End::kUnfinished:
    ++unfinished;
    break;
  case End::kFailed:
    ++failed;
    Errors &kind = errors[outcome.failure.kind];
    if (kind.count++ == 0)
      kind.first = outcome.failure.message;
    break;
  }
  if (outcome.firstToken) {
    firstToken.push_back(*outcome.firstToken);
    interToken.insert(interToken.end(), outcome.gaps.begin(), outcome.gaps.end());
  }
  const uint64_t tokens = outcome.answerTokens.value_or(outcome.pieces());
  if (outcome.firstToken && outcome.end == End::kComplete && tokens > 1)
    perToken.push_back((outcome.lastToken - *outcome.firstToken) / double(tokens - 1));
  answerTokens += tokens;
  if (outcome.firstToken || outcome.end == End::kComplete)
    promptTokens += outcome.promptTokens.value_or(sentTokens);
  if (outcome.cachedTokens)
    cachedTokens = cachedTokens.value_or(0) + *outcome.cachedTokens;
}

std::string loadText(const LoadReport &report) {
  const LoadTally &t = report.tally;
  std::string out;
  addText(out, "%s at %s, ", quotedName(report.model).c_str(), report.server.c_str());
  if (report.plan.rate > 0)
    addText(out, "%g requests per second\n", report.plan.rate);
  else
    addText(out, "%s\n", counted(report.plan.clients, "client").c_str());
  addText(out, "%s in %.2f s: %llu complete, %llu cancelled, %llu failed",
          counted(t.sent(), "request").c_str(), report.seconds, Ull(t.complete), Ull(t.cancelled),
          Ull(t.failed));
  if (t.unfinished > 0)
    addText(out, ", %llu unfinished", Ull(t.unfinished));
  addText(out, "\n\n%-22s %9s %9s %9s %9s %9s %9s\n", "ms", "count", "p50", "p95", "p99", "max", "mean");
  addTimes(out, "first token", t.firstToken);
  addTimes(out, "inter-token", t.interToken);
  addTimes(out, "per token of an answer", t.perToken);
  addTimes(out, "request", t.request);
  addText(out, "\n%-22s %9s %9s\n", "", "all", "per s");
  addText(out, "%-22s %9llu %9.2f\n", "complete requests", Ull(t.complete),
          perSecond(t.complete, report.seconds));
  addText(out, "%-22s %9llu %9.1f", "prompt tokens", Ull(t.promptTokens),
          perSecond(t.promptTokens, report.seconds));
  if (t.cachedTokens)
    addText(out, "   %llu cached", Ull(*t.cachedTokens));
  addText(out, "\n%-22s %9llu %9.1f\n", "answer tokens", Ull(t.answerTokens),
          perSecond(t.answerTokens, report.seconds));
  if (!t.errors.empty())
    out += "\nfailures\n";
  for (const auto &[kind, errors] : t.errors)
    addText(out, "%9llu  %s, first %s\n", Ull(errors.count), kind.c_str(), quotedPath(errors.first).c_str());
  return out;
}

std::string loadJson(const LoadReport &report) {
  const LoadTally &t = report.tally;
  Json errors = Json::array();
  for (const auto &[kind, found] : t.errors)
    errors.push_back({{"kind", kind}, {"count", found.count}, {"first", found.first}});
  const Json json = {{"server", report.server},
                     {"model", report.model},
                     {"g4run", G4_VERSION},
                     {"workload", workloadJson(report.plan)},
                     {"seconds", report.seconds},
                     {"requests", t.sent()},
                     {"complete", t.complete},
                     {"cancelled", t.cancelled},
                     {"failed", t.failed},
                     {"unfinished", t.unfinished},
                     {"complete_per_second", perSecond(t.complete, report.seconds)},
                     {"prompt_tokens", t.promptTokens},
                     {"cached_tokens", t.cachedTokens ? Json(*t.cachedTokens) : Json()},
                     {"answer_tokens", t.answerTokens},
                     {"prompt_tokens_per_second", perSecond(t.promptTokens, report.seconds)},
                     {"answer_tokens_per_second", perSecond(t.answerTokens, report.seconds)},
                     {"first_token_seconds", timesJson(t.firstToken)},
                     {"inter_token_seconds", timesJson(t.interToken)},
                     {"per_token_seconds", timesJson(t.perToken)},
                     {"request_seconds", timesJson(t.request)},
                     {"errors", std::move(errors)}};
  return json.dump(1, ' ', false, Json::error_handler_t::replace) + "\n";
}

} // namespace g4::tool
