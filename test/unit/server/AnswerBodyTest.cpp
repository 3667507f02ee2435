#include "runtime/server/AnswerBody.h"

#include <gtest/gtest.h>

namespace g4::server {
namespace {

using api::FinishEvent;
using api::Part;
using api::TokenChance;
using api::TokenEvent;

AnswerHead head(bool stream, bool logprobs = false) {
  return {.id = "id-1",
          .model = "nano",
          .created = 5,
          .stream = stream,
          .includeUsage = stream,
          .logprobs = logprobs};
}

TokenEvent token(const std::string &text, Part part = Part::kAnswer, uint32_t answer = 0) {
  return {.answer = answer, .id = 7, .part = part, .text = text};
}

/// A token of these bytes, which shows `text`.
TokenEvent chance(const std::string &bytes, const std::string &text, float logprob = -0.5F) {
  TokenEvent event = token(text);
  event.chance = TokenChance{7, logprob, bytes};
  event.mostProbable = {{7, logprob, bytes}, {8, -2, "z"}};
  return event;
}

FinishEvent finish(api::Finish how = api::Finish::kStopToken, uint32_t answer = 0) {
  return {.answer = answer,
          .finish = how,
          .promptTokens = 10,
          .cachedTokens = 4,
          .tokens = 3,
          .timings = {.waiting = 0.25, .firstToken = 0.5, .total = 1.5}};
}

/// The data of a stream's events, each checked to be JSON; without the last, [DONE].
std::vector<Json> eventsOf(const std::string &stream) {
  std::vector<Json> out;
  size_t at = 0;
  while (at < stream.size()) {
    const size_t end = stream.find("\n\n", at);
    EXPECT_NE(end, std::string::npos);
    const std::string line = stream.substr(at, end - at);
    EXPECT_TRUE(line.starts_with("data: ")) << line;
    at = end + 2;
    if (line == "data: [DONE]") {
      EXPECT_EQ(at, stream.size());
      return out;
    }
    out.push_back(Json::parse(line.substr(6)));
  }
  ADD_FAILURE() << "no [DONE]";
  return out;
}

std::string run(AnswerBody &body, const std::vector<api::Event> &events) {
  std::string out;
  body.begin(out);
  for (const api::Event &event : events)
    body.add(0, event, out);
  EXPECT_TRUE(body.finished());
  body.end(out);
  return out;
}

TEST(AnswerBodyTest, WholeChat) {
  const auto body = makeChatBody(head(false));
  const Json json =
      Json::parse(run(*body, {token("Hm.", Part::kThought), token(""), token("Bl"), token("ue"), finish()}));
  EXPECT_EQ(json["object"], "chat.completion");
  EXPECT_EQ(
      json["choices"].dump(),
      R"([{"index":0,"message":{"role":"assistant","content":"Blue","refusal":null,"reasoning_content":"Hm."},)"
      R"("logprobs":null,"finish_reason":"stop"}])");
  EXPECT_EQ(json["usage"].dump(), R"({"prompt_tokens":10,"completion_tokens":3,"total_tokens":13,)"
                                  R"("prompt_tokens_details":{"cached_tokens":4},)"
                                  R"("completion_tokens_details":{"reasoning_tokens":1}})");
  EXPECT_EQ(json["timings"]["prompt_n"], 6);
  EXPECT_EQ(json["timings"]["prompt_ms"], 250.0);
  EXPECT_EQ(json["timings"]["predicted_per_second"], 2.0) << "two steps in a second";
}

TEST(AnswerBodyTest, StreamedChat) {
  const auto body = makeChatBody(head(true));
  const auto events = eventsOf(
      run(*body, {token("Hm.", Part::kThought), token(""), token("Blue"), finish(api::Finish::kLength)}));
  ASSERT_EQ(events.size(), 5U);
  const auto delta = [&](size_t i) { return events[i]["choices"][0]["delta"].dump(); };
  EXPECT_EQ(delta(0), R"({"role":"assistant","content":""})");
  EXPECT_EQ(delta(1), R"({"reasoning_content":"Hm."})");
  EXPECT_EQ(delta(2), R"({"content":"Blue"})");
  EXPECT_EQ(events[2].dump(), R"({"id":"id-1","object":"chat.completion.chunk","created":5,"model":"nano",)"
                              R"("choices":[{"index":0,"delta":{"content":"Blue"},"logprobs":null,)"
                              R"("finish_reason":null}],"usage":null})");
  EXPECT_EQ(delta(3), "{}");
  EXPECT_EQ(events[3]["choices"][0]["finish_reason"], "length");
  EXPECT_EQ(events[4]["choices"], Json::array());
  EXPECT_EQ(events[4]["usage"]["completion_tokens"], 3);
}

TEST(AnswerBodyTest, ChoicesAreTheirOwn) {
  AnswerHead two = head(false);
  two.answers = 2;
  two.prompts = 2;
  const auto body = makeCompletionBody(two, {});
  std::string out;
  body->begin(out);
  body->add(1, token("d", Part::kAnswer, 1), out);
  body->add(0, token("a"), out);
  body->add(0, token("b", Part::kAnswer, 1), out);
  body->add(1, token("c"), out);
  for (uint32_t prompt : {0, 1})
    for (uint32_t answer : {0, 1}) {
      EXPECT_FALSE(body->finished());
      body->add(prompt, finish(answer ? api::Finish::kContext : api::Finish::kStopString, answer), out);
    }
  EXPECT_EQ(out, "");
  body->end(out);
  const Json json = Json::parse(out);
  for (size_t i = 0; i < 4; ++i) {
    EXPECT_EQ(json["choices"][i]["index"], i);
    EXPECT_EQ(json["choices"][i]["text"], std::string(1, char('a' + i)));
    EXPECT_EQ(json["choices"][i]["finish_reason"], i % 2 ? "length" : "stop");
  }
  EXPECT_EQ(json["usage"]["prompt_tokens"], 20) << "each prompt once";
  EXPECT_EQ(json["usage"]["completion_tokens"], 12);
}

TEST(AnswerBodyTest, LogprobsOfChat) {
  // A character of two tokens, the mark before a thought, its thought, and a stop token.
  const auto body = makeChatBody(head(true, true));
  TokenEvent mark = chance("<|channel>", "");
  TokenEvent thought = chance("t", "t");
  thought.part = Part::kThought;
  const auto events = eventsOf(
      run(*body, {mark, thought, chance("\xc3", ""), chance("\xa9", "é"), chance("<eos>", ""), finish()}));
  ASSERT_EQ(events.size(), 5U);
  EXPECT_TRUE(events[1]["choices"][0]["logprobs"].is_null()) << "thoughts have none";
  const Json content = events[2]["choices"][0]["logprobs"]["content"];
  ASSERT_EQ(content.size(), 2U);
  EXPECT_EQ(content[0]["bytes"].dump(), "[195]");
  EXPECT_EQ(content[0]["token"], "\xef\xbf\xbd") << "no character by itself";
  EXPECT_EQ(content[1]["bytes"].dump(), "[169]");
  EXPECT_EQ(content[1]["top_logprobs"].size(), 2U);
  EXPECT_EQ(content[1]["top_logprobs"][1].dump(), R"({"token":"z","logprob":-2.0,"bytes":[122]})");
  EXPECT_TRUE(events[3]["choices"][0]["logprobs"].is_null()) << "the stop token is not told";
}

TEST(AnswerBodyTest, LogprobsOfTokensWithoutText) {
  const auto body = makeCompletionBody(head(false, true), {});
  TokenEvent rest = token("\xef\xbf\xbd");
  rest.id = -1;
  const Json json =
      Json::parse(run(*body, {chance("a", "a"), chance("\xe2", "", -std::numeric_limits<float>::infinity()),
                              rest, finish(api::Finish::kLength)}));
  EXPECT_EQ(json["choices"][0]["logprobs"].dump(),
            R"({"tokens":["a","bytes:\\xe2"],"token_logprobs":[-0.5,-9999.0],)"
            R"("top_logprobs":[{"a":-0.5,"z":-2.0},{"bytes:\\xe2":-9999.0,"z":-2.0}],"text_offset":[0,1]})");
}

TEST(AnswerBodyTest, EchoWithLogprobs) {
  const auto prompt = [](TokenEvent event) {
    event.ofPrompt = true;
    return event;
  };
  for (const bool stream : {false, true}) {
    AnswerHead two = head(stream, true);
    two.answers = 2;
    const auto body = makeCompletionBody(two, {{"Grün", 3}});
    std::string out;
    body->add(0, prompt(token("<bos>")), out);
    TokenEvent other = chance("!", "!");
    other.answer = 1;
    body->add(0, other, out); // before the prompt's chances have all come
    body->add(0, prompt(chance("Gr", "Gr")), out);
    EXPECT_EQ(out, "");
    body->add(0, prompt(chance("ün", "ün")), out);
    body->add(0, chance("?", "?"), out);
    body->add(0, finish(), out);
    body->add(0, finish(api::Finish::kLength, 1), out);
    body->end(out);
    std::vector<std::string> texts(2), offsets(2), logprobs(2);
    for (const Json &json : stream ? eventsOf(out) : std::vector<Json>{Json::parse(out)})
      for (const Json &choice : json["choices"]) {
        const size_t i = choice["index"];
        texts[i] += choice["text"].get<std::string>();
        if (!choice["logprobs"].is_null()) {
          offsets[i] += choice["logprobs"]["text_offset"].dump();
          logprobs[i] += choice["logprobs"]["token_logprobs"].dump();
        }
      }
    EXPECT_EQ(texts, (std::vector<std::string>{"Grün?", "Grün!"}));
    EXPECT_EQ(offsets[0], stream ? "[0,0,2][4]" : "[0,0,2,4]");
    EXPECT_EQ(logprobs[1], stream ? "[null,-0.5,-0.5][-0.5]" : "[null,-0.5,-0.5,-0.5]");
  }
}

TEST(AnswerBodyTest, FailuresAndTheServersEnd) {
  FinishEvent failed = finish(api::Finish::kCancelled);
  failed.status = internalError("a bug");
  auto body = makeChatBody(head(true));
  auto events = eventsOf(run(*body, {token("x"), failed}));
  EXPECT_EQ(events.back()["error"]["message"], "a bug");
  EXPECT_EQ(body->failure()->status, 500U);
  body = makeChatBody(head(true));
  events = eventsOf(run(*body, {finish(api::Finish::kCancelled)}));
  EXPECT_EQ(events.back()["error"]["code"], "shutting_down");
  EXPECT_EQ(body->failure()->status, 503U);
}

} // namespace
} // namespace g4::server
