#include "runtime/server/Requests.h"

#include <gtest/gtest.h>

namespace g4::server {
namespace {

const ModelFacts kFacts{"nano", 100, 64, {.temperature = 0.5F, .topK = 7}};

ChatCall chat(const std::string &fields) {
  auto parsed = parseChat(R"({"messages":[{"role":"user","content":"Hi"}])" + fields + '}', kFacts);
  if (const auto *failure = std::get_if<Failure>(&parsed))
    ADD_FAILURE() << fields << ": " << failure->message;
  return parsed.index() == 0 ? std::get<0>(std::move(parsed)) : ChatCall();
}

CompletionCall completion(const std::string &fields) {
  auto parsed = parseCompletion(R"({"model":"nano")" + fields + '}', kFacts);
  if (const auto *failure = std::get_if<Failure>(&parsed))
    ADD_FAILURE() << fields << ": " << failure->message;
  return parsed.index() == 0 ? std::get<0>(std::move(parsed)) : CompletionCall();
}

TEST(RequestsTest, WhatIsNotSaidComesFromTheModel) {
  const ChatCall call = chat(R"(,"temperature":null,"unknown":{"a":1})");
  EXPECT_EQ(call.decode.sampling.temperature, 0.5F);
  EXPECT_EQ(call.decode.sampling.topK, 7);
  EXPECT_EQ(call.answers, 1U);
  EXPECT_FALSE(call.stream);
  EXPECT_FALSE(call.logprobs);
  EXPECT_TRUE(call.decode.divide);
  EXPECT_EQ(call.conversation, R"({"messages":[{"role":"user","content":"Hi"}]})");
  EXPECT_NE(call.decode.sampling.seed, chat("").decode.sampling.seed) << "random";
}

TEST(RequestsTest, Fields) {
  const ChatCall call = chat(
      R"(,"model":"nano","stream":true,"stream_options":{"include_usage":true},"n":3,"seed":-1,"temperature":0,
         "top_p":0.9,"top_k":-1,"min_p":0.1,"presence_penalty":-2,"frequency_penalty":2,"repetition_penalty":1.5,
         "stop":["a","b"],"logit_bias":{"5":-100,"99":1.5},"logprobs":true,"top_logprobs":20,"max_tokens":5,
         "max_completion_tokens":7.0,"ignore_eos":true,"priority":-3,"response_format":{"type":"text"},
         "tools":[],"modalities":["text"])");
  const auto &s = call.decode.sampling;
  EXPECT_TRUE(call.stream && call.includeUsage && call.decode.ignoreEos);
  EXPECT_EQ(call.answers, 3U);
  EXPECT_EQ(s.seed, ~0ULL);
  EXPECT_EQ(s.temperature, 0);
  EXPECT_EQ(s.topP, 0.9F);
  EXPECT_EQ(s.topK, 0);
  EXPECT_EQ(s.minP, 0.1F);
  EXPECT_EQ(s.presencePenalty, -2);
  EXPECT_EQ(s.frequencyPenalty, 2);
  EXPECT_EQ(s.repetitionPenalty, 1.5F);
  EXPECT_EQ(call.decode.stops, (std::vector<std::string>{"a", "b"}));
  EXPECT_EQ(s.logitBias, (std::vector<std::pair<int32_t, float>>{{5, -100.F}, {99, 1.5F}}));
  EXPECT_EQ(call.logprobs, 20U);
  EXPECT_EQ(call.decode.maxTokens, 7U);
  EXPECT_EQ(call.priority, -3);
}

TEST(RequestsTest, Thinking) {
  const auto thinking = [](const std::string &fields) {
    const Json json = Json::parse(chat(fields).conversation);
    return json.contains("enable_thinking") ? json["enable_thinking"].dump() : "absent";
  };
  EXPECT_EQ(thinking(""), "absent");
  EXPECT_EQ(thinking(R"(,"enable_thinking":true)"), "true");
  EXPECT_EQ(thinking(R"(,"chat_template_kwargs":{"enable_thinking":true,"x":1})"), "true");
  EXPECT_EQ(thinking(R"(,"reasoning_effort":"none")"), "false");
  EXPECT_EQ(thinking(R"(,"reasoning_effort":"low")"), "true");
  EXPECT_EQ(thinking(R"(,"reasoning_effort":"high","chat_template_kwargs":{"enable_thinking":false})"),
            "false");
  EXPECT_EQ(thinking(R"(,"enable_thinking":false,"chat_template_kwargs":{"enable_thinking":true})"), "false");
}

TEST(RequestsTest, Prompts) {
  const auto count = [](const std::string &prompt) {
    return completion(",\"prompt\":" + prompt).prompts.size();
  };
  EXPECT_EQ(count(R"("text")"), 1U);
  EXPECT_EQ(count(R"(["a","b"])"), 2U);
  EXPECT_EQ(count("[1,2,99]"), 1U);
  EXPECT_EQ(count(R"([[1,2],"mixed",[3]])"), 3U);
  const CompletionCall call =
      completion(R"(,"prompt":[1,2],"echo":true,"logprobs":0,"max_tokens":0,"best_of":1)");
  EXPECT_EQ(std::get<1>(call.prompts[0]), (std::vector<int32_t>{1, 2}));
  EXPECT_TRUE(call.echo);
  EXPECT_EQ(call.logprobs, 0U);
  EXPECT_EQ(call.decode.maxTokens, 0U);
  EXPECT_EQ(completion(R"(,"prompt":"x")").decode.maxTokens, 16U);
}

struct Bad {
  const char *fields, *param;
  unsigned status = 400;
};

const std::vector<Bad> kBadCommon{
    {R"("stream":"yes")", "stream"},
    {R"("stream":1)", "stream"},
    {R"("stream_options":{"include_usage":true})", "stream_options"},
    {R"("stream":true,"stream_options":[])", "stream_options"},
    {R"("stream":true,"stream_options":{"include_usage":1})", "stream_options.include_usage"},
    {R"("n":0)", "n"},
    {R"("n":129)", "n"},
    {R"("n":1.5)", "n"},
    {R"("n":"1")", "n"},
    {R"("seed":1.5)", "seed"},
    {R"("seed":18446744073709551615)", "seed"},
    {R"("temperature":-0.1)", "temperature"},
    {R"("temperature":"hot")", "temperature"},
    {R"("top_p":0)", "top_p"},
    {R"("top_p":1.1)", "top_p"},
    {R"("top_k":-2)", "top_k"},
    {R"("min_p":2)", "min_p"},
    {R"("repetition_penalty":0)", "repetition_penalty"},
    {R"("presence_penalty":2.1)", "presence_penalty"},
    {R"("frequency_penalty":-2.1)", "frequency_penalty"},
    {R"("stop":7)", "stop"},
    {R"("stop":[""])", "stop"},
    {R"("stop":["a",1])", "stop"},
    {R"("stop":["a","b","c","d","e","f","g","h","i","j","k","l","m","n","o","p","q"])", "stop"},
    {R"("logit_bias":[])", "logit_bias"},
    {R"("logit_bias":{"100":1})", "logit_bias"},
    {R"("logit_bias":{"-1":1})", "logit_bias"},
    {R"("logit_bias":{"a":1})", "logit_bias"},
    {R"("logit_bias":{"1":101})", "logit_bias"},
    {R"("logit_bias":{"1":null})", "logit_bias"},
    {R"("ignore_eos":0)", "ignore_eos"},
    {R"("priority":3000000000)", "priority"},
    {R"("response_format":"json")", "response_format"},
    {R"("response_format":{"type":"json_object"})", "response_format"},
    {R"("grammar":"root ::= x")", "grammar"},
    {R"("model":7)", "model"},
    {R"("model":"other")", "model", 404},
};

template <class Parse> void expectBad(Parse parse, const std::string &good, const std::vector<Bad> &cases) {
  ASSERT_FALSE(cases.empty());
  EXPECT_EQ(parse('{' + good + '}').index(), 0U);
  for (const Bad &bad : cases) {
    const auto parsed = parse('{' + good + ',' + bad.fields + '}');
    const auto *failure = std::get_if<Failure>(&parsed);
    ASSERT_TRUE(failure) << bad.fields;
    EXPECT_EQ(failure->param, bad.param) << bad.fields << ": " << failure->message;
    EXPECT_EQ(failure->status, bad.status) << bad.fields;
    EXPECT_NE(failure->message.find(bad.status == 404 ? "other" : "'" + std::string(bad.param)),
              std::string::npos)
        << failure->message;
  }
}

TEST(RequestsTest, BadFieldsOfChat) {
  const auto parse = [](const std::string &body) { return parseChat(body, kFacts); };
  const std::string good = R"("messages":[{"role":"user","content":"Hi"}])";
  expectBad(parse, good, kBadCommon);
  expectBad(parse, good,
            {{R"("logprobs":1)", "logprobs"},
             {R"("top_logprobs":1)", "top_logprobs"},
             {R"("logprobs":true,"top_logprobs":21)", "top_logprobs"},
             {R"("max_tokens":0)", "max_tokens"},
             {R"("max_completion_tokens":-1)", "max_completion_tokens"},
             {R"("tools":[{"type":"function"}])", "tools"},
             {R"("functions":[{}])", "functions"},
             {R"("audio":{"voice":"x"})", "audio"},
             {R"("modalities":["text","audio"])", "modalities"},
             {R"("reasoning_effort":"maximal")", "reasoning_effort"},
             {R"("enable_thinking":1)", "enable_thinking"},
             {R"("chat_template_kwargs":[])", "chat_template_kwargs"},
             {R"("chat_template_kwargs":{"enable_thinking":1})", "chat_template_kwargs.enable_thinking"},
             {R"("chat_template_kwargs":{"messages":[]})", "chat_template_kwargs.messages"},
             {R"("messages":[])", "messages"}, // of equal names the last counts
             {R"("messages":"Hi")", "messages"}});
  EXPECT_EQ(std::get<Failure>(parse("{}")).param, "messages");
}

TEST(RequestsTest, BadFieldsOfCompletions) {
  const auto parse = [](const std::string &body) { return parseCompletion(body, kFacts); };
  expectBad(parse, R"("prompt":"Hi")", kBadCommon);
  expectBad(parse, R"("prompt":["a","b"])",
            {{R"("logprobs":true)", "logprobs"},
             {R"("logprobs":21)", "logprobs"},
             {R"("max_tokens":-1)", "max_tokens"},
             {R"("echo":"yes")", "echo"},
             {R"("n":2,"best_of":3)", "best_of"},
             {R"("n":65)", "n"},
             {R"("suffix":"end")", "suffix"},
             {R"("prompt":7)", "prompt"},
             {R"("prompt":[])", "prompt"},
             {R"("prompt":[[]])", "prompt"},
             {R"("prompt":[1,"a"])", "prompt"},
             {R"("prompt":[1,100])", "prompt"},
             {R"("prompt":[-1])", "prompt"},
             {R"("prompt":[1.5])", "prompt"},
             {R"("prompt":[{"a":1}])", "prompt"}});
  EXPECT_EQ(std::get<Failure>(parse("{}")).param, "prompt");
}

TEST(RequestsTest, Tokens) {
  const auto tokenize = [](const char *body) { return parseTokenize(body, kFacts); };
  EXPECT_EQ(std::get<0>(tokenize(R"({"prompt":"x","add_special_tokens":false,"with_pieces":true})")).text,
            "x");
  EXPECT_EQ(std::get<0>(tokenize(R"({"content":"x"})")).text, "x");
  EXPECT_FALSE(std::get<0>(tokenize(R"({"messages":[{"role":"user","content":"x"}]})")).conversation.empty());
  for (const char *bad : {"{}", R"({"prompt":1})", R"({"prompt":"a","content":"b"})"})
    EXPECT_EQ(std::get<Failure>(tokenize(bad)).param, "prompt") << bad;
  const auto detokenize = [](const char *body) { return parseDetokenize(body, kFacts); };
  EXPECT_EQ(std::get<0>(detokenize(R"({"tokens":[1,99]})")), (std::vector<int32_t>{1, 99}));
  EXPECT_EQ(std::get<0>(detokenize(R"({"tokens":[]})")), std::vector<int32_t>());
  for (const char *bad : {"{}", R"({"tokens":"1"})", R"({"tokens":[100]})", R"({"tokens":[null]})"})
    EXPECT_EQ(std::get<Failure>(detokenize(bad)).param, "tokens") << bad;
}

} // namespace
} // namespace g4::server
