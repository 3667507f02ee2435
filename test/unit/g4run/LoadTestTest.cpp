#include "tools/g4run/LoadClient.h"
#include "tools/g4run/LoadReport.h"

#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include <algorithm>
#include <array>
#include <cmath>
#include <numbers>
#include <numeric>
#include <set>

namespace g4::tool {
namespace {

constexpr int kDraws = 20'000;

template <class Draw> std::vector<double> draws(const Draw &draw) {
  Random random(1);
  std::vector<double> out(kDraws);
  for (double &value : out)
    value = double(draw(random));
  std::sort(out.begin(), out.end());
  return out;
}

double mean(const std::vector<double> &values) {
  return std::accumulate(values.begin(), values.end(), 0.0) / double(values.size());
}

/// The greatest distance between the values and a distribution, by Kolmogorov and Smirnov.
template <class Cdf> double distance(const std::vector<double> &sorted, const Cdf &cdf) {
  double most = 0;
  for (size_t i = 0; i < sorted.size(); ++i)
    for (size_t side : {i, i + 1})
      most = std::max(most, std::abs(cdf(sorted[i]) - double(side) / double(sorted.size())));
  return most;
}
/// A right distribution is further off once in a million seeds (and this one is fixed).
const double kDistance = std::sqrt(std::log(2e6) / 2 / kDraws);

TEST(LoadPlanTest, ContinuousDistributionsHaveTheirShapes) {
  const auto uniform = [](double x) { return std::clamp(x, 0.0, 1.0); };
  const auto exponential = [](double x) { return 1 - std::exp(-x / 2.5); };
  const auto lognormal = [](double x) {
    return 0.5 * std::erfc(-(std::log(x / 200) + 0.5) / std::sqrt(2)); // of mean 200: exp(mu + 1/2)
  };
  const auto unit = draws(drawUnit);
  EXPECT_LT(distance(unit, uniform), kDistance);
  EXPECT_LT(distance(draws([](Random &r) { return drawExponential(r, 2.5); }), exponential), kDistance);
  const auto lengths = draws([](Random &r) { return drawLognormal(r, 200, 1); });
  EXPECT_LT(distance(lengths, lognormal), kDistance);
  EXPECT_GT(distance(unit, exponential), 10 * kDistance) << "another distribution is not taken for it";
  EXPECT_NEAR(mean(lengths), 200, 200 * 5 * std::sqrt((std::numbers::e - 1) / kDraws))
      << "five standard errors";
}

TEST(LoadPlanTest, WholeNumbersAreEquallyOften) {
  const auto values = draws([](Random &r) { return drawWhole(r, 3, 7); });
  EXPECT_EQ(std::set<double>(values.begin(), values.end()), (std::set<double>{3, 4, 5, 6, 7}));
  for (int value = 3; value <= 7; ++value)
    EXPECT_NEAR(std::count(values.begin(), values.end(), value), kDraws / 5, 5 * std::sqrt(kDraws * 0.16));
  EXPECT_EQ(draws([](Random &r) { return drawWhole(r, 0, UINT32_MAX) > UINT32_MAX / 2; })[kDraws / 2 + 500],
            1);
}

TEST(LoadPlanTest, LengthsAreRead) {
  const auto range = [](const char *text) {
    const auto lengths = Lengths::parse(text);
    EXPECT_TRUE(lengths.ok()) << text;
    EXPECT_EQ(lengths->text(), text);
    const auto values = draws([&](Random &r) { return lengths->draw(r); });
    return std::pair(values.front(), values.back());
  };
  EXPECT_EQ(range("7"), std::pair(7.0, 7.0));
  EXPECT_EQ(range("64:80"), std::pair(64.0, 80.0));
  EXPECT_EQ(range("1048576"), std::pair(1048576.0, 1048576.0));
  EXPECT_EQ(range("lognormal:2").first, 1) << "no answer is empty";
  for (const char *text : {"", "0", "-1", "x", "5:4", "5:", ":5", "1:2:3", "1048577",
                           "lognormal:", "lognormal:0", "lognormal:1:2", "1.5", " 5"})
    EXPECT_FALSE(Lengths::parse(text).ok()) << text;
}

TEST(LoadPlanTest, RequestsFollowFromSeedAndNumber) {
  LoadPlan plan;
  plan.seed = 5;
  plan.rate = 4;
  plan.promptTokens = *Lengths::parse("10:50");
  plan.answerTokens = *Lengths::parse("lognormal:20");
  plan.cancelled = 0.25;
  const auto text = [](const LoadPlan &plan, uint64_t number) {
    const PlannedRequest r = plan.request(number);
    return bodyOf(r, "m") + std::to_string(r.gap) + ' ' + std::to_string(r.cancelAfter.value_or(UINT32_MAX));
  };
  LoadPlan other = plan;
  other.seed = 6;
  std::set<std::string> seen;
  double gaps = 0;
  int cancelled = 0;
  constexpr int kRequests = 2000;
  for (int i = 0; i < kRequests; ++i) {
    const PlannedRequest r = plan.request(i);
    EXPECT_EQ(r.number, uint64_t(i));
    EXPECT_TRUE(r.prompt.size() >= 10 && r.prompt.size() <= 50);
    EXPECT_TRUE(!r.cancelAfter || *r.cancelAfter < r.answerTokens);
    cancelled += r.cancelAfter.has_value();
    gaps += r.gap;
    seen.insert(text(plan, i));
    seen.insert(text(other, i));
    EXPECT_EQ(text(plan, i), text(LoadPlan(plan), i));
  }
  EXPECT_EQ(seen.size(), 2u * kRequests);
  EXPECT_NEAR(gaps / kRequests, 0.25, 0.25 * 5 / std::sqrt(kRequests));
  EXPECT_NEAR(cancelled, kRequests / 4, 5 * std::sqrt(kRequests * 0.1875));
}

TEST(LoadPlanTest, AnOptionChangesOnlyWhatItIsAbout) {
  LoadPlan plan, other;
  other.answerTokens = *Lengths::parse("lognormal:300");
  other.cancelled = 1;
  other.rate = 3;
  for (int i = 0; i < 20; ++i) {
    EXPECT_EQ(plan.request(i).prompt, other.request(i).prompt);
    EXPECT_EQ(plan.request(i).seed, other.request(i).seed);
  }
}

TEST(LoadPlanTest, PrefixesAreSharedAndNothingElse) {
  LoadPlan plan;
  plan.promptTokens = Lengths(8);
  plan.prefixTokens = 100;
  plan.prefixes = 3;
  std::set<std::vector<int32_t>> prefixes, rests;
  for (int i = 0; i < 60; ++i) {
    const auto prompt = plan.request(i).prompt;
    ASSERT_EQ(prompt.size(), 108u);
    prefixes.insert({prompt.begin(), prompt.begin() + 100});
    rests.insert({prompt.begin() + 100, prompt.end()});
  }
  EXPECT_EQ(prefixes.size(), 3u);
  EXPECT_EQ(rests.size(), 60u);
}

TEST(LoadPlanTest, TheBodyAsksForIdsAndFullLength) {
  PlannedRequest request{.prompt = {512, 700}, .answerTokens = 9, .seed = 77};
  EXPECT_EQ(
      bodyOf(request, "a \"b\""),
      R"({"model":"a \"b\"","prompt":[512,700],"max_tokens":9,"ignore_eos":true,"seed":77,"stream":true,)"
      R"("stream_options":{"include_usage":true}})");
}

using Events = std::vector<std::string>;

TEST(SseReaderTest, ReadsEventsWhereverTheyAreCut) {
  const std::string body = "\xef\xbb\xbf"
                           "data: one\n\n"
                           ": a comment\n\n"
                           "event: x\r\nid: 7\r\ndata:two\r\ndata:  2\r\n\r\n"
                           "data\rdata: \r\r"
                           "data: \xf0\x9f\x98\x80\n\n\n\n"
                           "datum: no\n\nretry: 5\n\n"
                           "data: never ends\n";
  const Events want = {"one", "two\n 2", "\n", "\xf0\x9f\x98\x80"};
  for (size_t first = 0; first <= body.size(); ++first)
    for (size_t second : {first, first + 1, first + 7, body.size()}) {
      second = std::min(second, body.size());
      SseReader reader;
      Events got;
      for (const auto &[from, to] :
           std::vector<std::pair<size_t, size_t>>{{0, first}, {first, second}, {second, body.size()}})
        for (std::string &event : reader.read(std::string_view(body).substr(from, to - from)))
          got.push_back(std::move(event));
      EXPECT_EQ(got, want) << first << ' ' << second;
      EXPECT_EQ(reader.held(), 10u) << "\"never ends\"";
    }
}

TEST(SseReaderTest, ReadsEventsByteByByte) {
  SseReader reader;
  Events got;
  for (char c : std::string("data: a\r\n\r\ndata: b\r\rdata: c\n\n"))
    for (std::string &event : reader.read({&c, 1}))
      got.push_back(std::move(event));
  EXPECT_EQ(got, (Events{"a", "b", "c"}));
}

TEST(LoadAnswerTest, TimesTextAndKeepsTheUsage) {
  LoadAnswer answer;
  LoadOutcome outcome;
  EXPECT_TRUE(answer.add(R"({"choices":[{"text":""}]})", 1, outcome));
  EXPECT_FALSE(outcome.firstToken) << "no text yet";
  EXPECT_TRUE(answer.add(R"({"choices":[{"text":"a"}],"usage":null,"error":null})", 2, outcome));
  EXPECT_TRUE(answer.add(R"({"choices":[{"text":"b"}]})", 2.5, outcome));
  EXPECT_TRUE(answer.add(R"({"choices":[{"text":"","finish_reason":"length"}]})", 3, outcome));
  EXPECT_TRUE(answer.add(R"({"choices":[],"usage":{"prompt_tokens":9,"completion_tokens":3,
                             "prompt_tokens_details":{"cached_tokens":4}}})",
                         4, outcome));
  EXPECT_FALSE(answer.done());
  EXPECT_TRUE(answer.add("[DONE]", 5, outcome));
  EXPECT_TRUE(answer.done());
  EXPECT_TRUE(answer.add("anything", 6, outcome));
  EXPECT_EQ(outcome.firstToken, 2.0);
  EXPECT_EQ(outcome.gaps, std::vector<double>{0.5});
  EXPECT_EQ(outcome.pieces(), 2u);
  EXPECT_EQ(outcome.promptTokens, 9u);
  EXPECT_EQ(outcome.cachedTokens, 4u);
  EXPECT_EQ(outcome.answerTokens, 3u);
}

TEST(LoadAnswerTest, OddEventsAreNothingOrFailures) {
  for (const char *event :
       {"{}", R"({"choices":null})", R"({"choices":[1,null,{"text":7}]})", R"({"usage":[]})",
        R"({"usage":{"prompt_tokens":-1,"prompt_tokens_details":3}})"}) {
    LoadAnswer answer;
    LoadOutcome outcome;
    EXPECT_TRUE(answer.add(event, 1, outcome)) << event;
    EXPECT_EQ(outcome.pieces(), 0u) << event;
    EXPECT_FALSE(outcome.promptTokens) << event;
  }
  for (const auto &[event, kind, message] : std::vector<std::array<const char *, 3>>{
           {"{", "protocol", "an event is no JSON object: {"},
           {"[]", "protocol", "an event is no JSON object: []"},
           {R"({"error":{"message":"out of pages"}})", "error in stream", "out of pages"},
           {R"({"error":"busy"})", "error in stream", "busy"},
           {R"({"error":{"code":3}})", "error in stream", R"({"code":3})"}}) {
    LoadAnswer answer;
    LoadOutcome outcome;
    EXPECT_FALSE(answer.add(event, 1, outcome)) << event;
    EXPECT_EQ(outcome.end, LoadOutcome::End::kFailed);
    EXPECT_EQ(outcome.failure.kind, kind);
    EXPECT_EQ(outcome.failure.message, message);
  }
}

TEST(LoadAnswerTest, ErrorsAreShortened) {
  EXPECT_EQ(errorText(R"({"error":{"message":"too many"}})"), "too many");
  EXPECT_EQ(errorText("<html>"), "<html>");
  EXPECT_EQ(errorText(std::string(199, 'x') + "\xc3\xa4 and more"), std::string(199, 'x') + "...");
}

TEST(LoadReportTest, PercentilesAreMeasuredValues) {
  std::vector<double> values(200);
  std::iota(values.begin(), values.end(), 1); // 1 ... 200
  EXPECT_EQ(percentile(values, 1), 2);
  EXPECT_EQ(percentile(values, 50), 100);
  EXPECT_EQ(percentile(values, 95), 190);
  EXPECT_EQ(percentile(values, 99), 198);
  EXPECT_EQ(percentile(values, 100), 200);
  EXPECT_EQ(percentile(std::span(values).first(3), 50), 2);
  EXPECT_EQ(percentile(std::span(values).first(2), 50), 1);
  EXPECT_EQ(percentile(std::span(values).first(2), 51), 2);
  EXPECT_EQ(percentile(std::span(values).first(19), 95), 19);
  EXPECT_EQ(percentile(std::span(values).first(1), 99), 1);
  // By the definition, for every size and percentage.
  for (size_t size = 1; size <= values.size(); ++size)
    for (unsigned percent = 1; percent <= 100; ++percent) {
      const size_t value =
          size_t(percentile(std::span(values).first(size), percent)); // as many are not above it
      EXPECT_GE(100 * value, percent * size);
      EXPECT_LT(100 * (value - 1), percent * size);
    }
}

LoadReport report() {
  using End = LoadOutcome::End;
  LoadReport out{.server = "http://h:1/v1", .model = "m", .plan = {}, .seconds = 4};
  LoadOutcome whole{
      .end = End::kComplete, .seconds = 2, .firstToken = 0.5, .lastToken = 1.5, .gaps = {0.25, 0.75}};
  whole.promptTokens = 11;
  whole.cachedTokens = 8;
  whole.answerTokens = 5;
  out.tally.add(whole, 10);
  out.tally.add({.end = End::kComplete, .seconds = 1}, 10);
  out.tally.add({.end = End::kCancelled, .firstToken = 1.0, .lastToken = 1.0}, 10);
  out.tally.add({.end = End::kCancelled}, 10);
  out.tally.add({.end = End::kFailed, .failure = {"HTTP 429", "first"}}, 10);
  out.tally.add({.end = End::kFailed, .failure = {"HTTP 429", "second\n"}}, 10);
  out.tally.add({.end = End::kFailed, .failure = {"connection", "refused\x1b["}}, 10);
  out.tally.add({.end = End::kUnfinished}, 10);
  return out;
}

TEST(LoadReportTest, OutcomesAreAddedUp) {
  const LoadTally tally = report().tally;
  EXPECT_EQ(tally.sent(), 8u);
  EXPECT_EQ(tally.promptTokens, 11u + 10 + 10) << "the server's, and what was sent of answers that began";
  EXPECT_EQ(tally.answerTokens, 5u + 0 + 1);
  EXPECT_EQ(tally.cachedTokens, 8u);
  EXPECT_EQ(tally.firstToken, (std::vector<double>{0.5, 1}));
  EXPECT_EQ(tally.interToken, (std::vector<double>{0.25, 0.75}));
  EXPECT_EQ(tally.perToken, (std::vector<double>{0.25})) << "1 s for 4 tokens after the first";
  EXPECT_EQ(tally.request, (std::vector<double>{2, 1}));
}

TEST(LoadReportTest, JsonHasIt) {
  const auto json = nlohmann::json::parse(loadJson(report()));
  EXPECT_EQ(json["complete"], 2);
  EXPECT_EQ(json["answer_tokens_per_second"], 1.5);
  EXPECT_EQ(
      json["request_seconds"],
      (nlohmann::json{{"count", 2}, {"p50", 1.0}, {"p95", 2.0}, {"p99", 2.0}, {"max", 2.0}, {"mean", 1.5}}));
  EXPECT_EQ(json["errors"], nlohmann::json::parse(R"([{"kind": "HTTP 429", "count": 2, "first": "first"},
                                                     {"kind": "connection", "count": 1, "first": "refused\u001b["}])"));
  EXPECT_EQ(json["workload"]["clients"], 4);
  EXPECT_TRUE(json["workload"]["rate"].is_null());
  const auto none = nlohmann::json::parse(loadJson({}));
  EXPECT_TRUE(none["first_token_seconds"]["p50"].is_null());
  EXPECT_TRUE(none["cached_tokens"].is_null());
}

TEST(LoadReportTest, TextFitsATerminal) {
  const std::string text = loadText(report());
  EXPECT_NE(text.find("8 requests in 4.00 s: 2 complete, 2 cancelled, 3 failed, 1 unfinished\n"),
            std::string::npos)
      << text;
  EXPECT_NE(text.find("2  HTTP 429, first 'first'\n"), std::string::npos) << text;
  EXPECT_NE(text.find("refused\\x1b["), std::string::npos) << text;
  for (size_t at = 0, end; at < text.size(); at = end + 1) {
    end = text.find('\n', at);
    EXPECT_LE(end - at, 100u) << text.substr(at, end - at);
  }
}

TEST(LoadTargetTest, UrlsAreRead) {
  const auto of = [](const char *url) {
    const auto target = LoadTarget::parse(url);
    return target.ok() ? target->authority() + " " + target->path : target.status().message();
  };
  EXPECT_EQ(of("http://127.0.0.1:8080"), "127.0.0.1:8080 /v1");
  EXPECT_EQ(of("http://127.0.0.1:8080/"), "127.0.0.1:8080 /v1");
  EXPECT_EQ(of("http://host/v1/"), "host:80 /v1");
  EXPECT_EQ(of("http://[::1]:8080/a/b"), "[::1]:8080 /a/b/v1");
  EXPECT_EQ(of("http://[::1]"), "[::1]:80 /v1");
  for (const char *url : {"", "127.0.0.1:8080", "https://h", "http://", "http://:80", "http://h:0",
                          "http://h:65536", "http://h:x", "http://[::1", "http://[::1]x", "http://[]:1",
                          "http://u@h", "http://h/?a", "http://h/a\r\nb"})
    EXPECT_FALSE(LoadTarget::parse(url).ok()) << url;
}

} // namespace
} // namespace g4::tool
