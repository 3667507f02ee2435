#include "runtime/text/ChatTemplate.h"

#include "runtime/base/Text.h"
#include "runtime/text/GemmaTemplate.h"
#include "runtime/text/TemplateMessages.h"
#include "test/unit/text/TextTestSupport.h"

#include <sstream>

namespace g4::text::test {
namespace {

std::string readFile(const std::string &path) {
  std::ifstream in(path);
  EXPECT_TRUE(in.good()) << path;
  std::ostringstream out;
  out << in.rdbuf();
  return out.str();
}

ChatTemplate compile(const std::string &source) {
  auto compiled = ChatTemplate::compile(source);
  EXPECT_TRUE(compiled.ok()) << compiled.status().message();
  return *std::move(compiled);
}

std::string render(const std::string &source, const Json &options = Json::object()) {
  auto prompt = compile(source).render(Json::array(), nullptr, options);
  return prompt.ok() ? *prompt : "error: " + prompt.status().message();
}

TEST(ChatTemplateTest, EveryReferenceCaseRendersByteForByte) {
  const std::pair<const char *, ChatTemplate> templates[] = {
      {"vocab_gguf", compile(realVocabulary().chatTemplate)},
      {"it", compile(readFile(G4_JINJA_TEMPLATES "/google-gemma-4-31B-it.jinja"))},
      {"interleaved", compile(readFile(G4_JINJA_TEMPLATES "/google-gemma-4-31B-it-interleaved.jinja"))}};
  int rendered = 0, failed = 0;
  for (const Json &row : readJsonLines(G4_TEST_DATA "/text/chat_cases.jsonl")) {
    for (const auto &[name, chatTemplate] : templates) {
      SCOPED_TRACE(row["name"].get<std::string>() + " / " + name);
      auto prompt = chatTemplate.render(row["messages"], row["tools"], row["options"]);
      const Json &expected = row["rendered"][name];
      if (expected.is_null()) {
        ++failed;
        EXPECT_FALSE(prompt.ok()) << *prompt;
        continue;
      }
      ++rendered;
      ASSERT_TRUE(prompt.ok()) << prompt.status().message();
      EXPECT_EQ(*prompt, expected.get<std::string>());
    }
  }
  EXPECT_EQ(rendered, 155);
  EXPECT_EQ(failed, 1);
}

TEST(ChatTemplateTest, NanoMessagesBecomeTheReferencePrompts) {
  const Vocabulary &vocabulary = nanoVocabulary();
  const ChatTemplate chatTemplate = compile(vocabulary.chatTemplate);
  int cases = 0;
  for (const Json &row : readJsonLines(G4_MODELS "/gemma4-nano/expected.jsonl")) {
    SCOPED_TRACE(row["id"].get<std::string>());
    ++cases;
    auto messages = toTemplateMessages(row["messages"]);
    ASSERT_TRUE(messages.ok()) << messages.status().message();
    EXPECT_EQ(*messages, row["template_messages"]);
    auto prompt =
        chatTemplate.render(*messages, row["tools"],
                            {{"add_generation_prompt", true}, {"enable_thinking", row["enable_thinking"]}});
    ASSERT_TRUE(prompt.ok()) << prompt.status().message();
    EXPECT_EQ(*prompt, row["prompt"].get<std::string>());
    auto tokens = vocabulary.tokenizer->encodePrompt(*prompt, Match::kSpecial);
    ASSERT_TRUE(tokens.ok());
    EXPECT_EQ(*tokens, ids(row["prompt_ids"]));
  }
  EXPECT_EQ(cases, 50);
}

TEST(ChatTemplateTest, RenderedPromptNeverHasTwoBos) {
  const Vocabulary &vocabulary = realVocabulary();
  const ChatTemplate chatTemplate = compile(vocabulary.chatTemplate);
  for (const char *content : {"hello", "<bos>hello", "<bos><bos>"}) {
    auto prompt = chatTemplate.render({{{"role", "user"}, {"content", content}}}, nullptr, {});
    ASSERT_TRUE(prompt.ok());
    auto tokens = vocabulary.tokenizer->encodePrompt(*prompt, Match::kSpecial);
    ASSERT_TRUE(tokens.ok());
    ASSERT_GE(tokens->size(), 2u);
    EXPECT_EQ((*tokens)[0], 2);
    EXPECT_NE((*tokens)[1], 2);
  }
}

TEST(GemmaTemplateTest, PlainChatsAreWrittenAsByTheTemplateOfTheFile) {
  const ChatTemplate own = compile(std::string(kGemmaTemplate));
  int cases = 0;
  for (const Json &row : readJsonLines(G4_TEST_DATA "/text/chat_cases.jsonl")) {
    SCOPED_TRACE(row["name"].get<std::string>());
    const bool tools = row["messages"].dump().find("\"tool") != std::string::npos || !row["tools"].is_null();
    // The file's template prints a system message in parts as Python would.
    if (tools || !checkConversation(row).ok() || row["name"] == "system_parts")
      continue;
    ++cases;
    auto prompt = own.render(row["messages"], row["tools"], row["options"]);
    ASSERT_TRUE(prompt.ok()) << prompt.status().message();
    EXPECT_EQ(*prompt, row["rendered"]["vocab_gguf"].get<std::string>());
  }
  EXPECT_EQ(cases, 22);
}

TEST(GemmaTemplateTest, PlainChatsHaveTheIdsThatTheNanoModelWasTrainedOn) {
  const ChatTemplate own = compile(std::string(kGemmaTemplate));
  EXPECT_TRUE(hasGemmaTurns(*nanoVocabulary().tokenizer));
  int thinking = 0, plain = 0;
  for (const Json &row : readJsonLines(G4_MODELS "/gemma4-nano/expected.jsonl")) {
    SCOPED_TRACE(row["id"].get<std::string>());
    if (!row["tools"].is_null())
      continue;
    ++(row["enable_thinking"] ? thinking : plain);
    auto prompt = own.render(row["messages"], nullptr,
                             {{"add_generation_prompt", true}, {"enable_thinking", row["enable_thinking"]}});
    ASSERT_TRUE(prompt.ok()) << prompt.status().message();
    auto tokens = nanoVocabulary().tokenizer->encodePrompt(*prompt, Match::kSpecial);
    ASSERT_TRUE(tokens.ok());
    EXPECT_EQ(*tokens, ids(row["prompt_ids"]));
  }
  EXPECT_GT(thinking, 4);
  EXPECT_GT(plain, 4);
}

TEST(GemmaTemplateTest, PartsOfASystemMessageAreText) {
  auto prompt =
      compile(std::string(kGemmaTemplate))
          .render(Json::parse(R"([{"role": "developer", "content": [{"type": "text", "text": " be "},
                                             {"type": "text", "text": "brief"}]}])"),
                  nullptr, {{"enable_thinking", true}});
  ASSERT_TRUE(prompt.ok()) << prompt.status().message();
  EXPECT_EQ(*prompt, "<bos><|turn>system\n<|think|>bebrief<turn|>\n");
}

TEST(GemmaTemplateTest, WhatItDoesNotKnowIsRefused) {
  const ChatTemplate own = compile(std::string(kGemmaTemplate));
  const auto error = [&](const char *messages, const Json &tools = nullptr) {
    auto prompt = own.render(*toTemplateMessages(Json::parse(messages)), tools, {});
    return prompt.ok() ? *prompt : prompt.status().message();
  };
  const char *const hello = R"([{"role": "user", "content": "x"}])";
  EXPECT_NE(error(hello, Json::array({{{"type", "function"}}})).find("tools need the chat template"),
            std::string::npos);
  EXPECT_NE(error(R"([{"role": "alien", "content": "x"}])").find("no role 'alien'"), std::string::npos);
  EXPECT_NE(error(R"([{"role": "assistant", "tool_calls": [{"function": {"name": "f"}}]}])")
                .find("tool calls need"),
            std::string::npos);
  EXPECT_TRUE(error(hello, Json::array()).starts_with("<bos>"));
  EXPECT_FALSE(hasGemmaTurns(*fromSource(tinySource())->tokenizer)) << "a vocabulary without <|turn>";
}

TEST(ChatTemplateTest, ValuesPrintAsInPython) {
  const Json values = {{"f", 2.5},         {"big", 1e20}, {"small", 1.5e-7}, {"neg", -0.0},  {"one", 1.0},
                       {"third", 1.0 / 3}, {"e16", 1e16}, {"b", true},       {"n", nullptr}, {"i", 7}};
  EXPECT_EQ(render("{{ f }} {{ big }} {{ small }} {{ neg }} {{ one }} {{ third }} {{ e16 }}", values),
            "2.5 1e+20 1.5e-07 -0.0 1.0 0.3333333333333333 1e+16");
  EXPECT_EQ(render("{{ b }} {{ n }} {{ i }} {{ missing }}|", values), "True None 7 |");
}

TEST(ChatTemplateTest, NumbersOutOfRangeAreSafe) {
  EXPECT_EQ(render("{{ [0.1, big] | tojson }} {{ 9223372036854775807 * 9223372036854775807 }} {{ 5 % 0 }}",
                   {{"big", 1e20}}),
            "[0.1, 1e+20] 9223372036854775807 0");
}

TEST(ChatTemplateTest, UnsetOptionsAreUndefinedAndBosIsSet) {
  EXPECT_EQ(render("{{ bos_token }}{{ enable_thinking is defined }}{{ tools is none }}"), "<bos>FalseTrue");
  EXPECT_EQ(render("{{ enable_thinking }}", {{"enable_thinking", true}}), "True");
}

TEST(ChatTemplateTest, LoopControlsWork) {
  EXPECT_EQ(render("{% for i in range(9) %}{% if i == 1 %}{% continue %}{% endif %}{% if i == 4 %}{% break %}"
                   "{% endif %}{{ i }}{% endfor %}"),
            "023");
}

TEST(ChatTemplateTest, BadTemplatesAreOneLineErrors) {
  for (const char *source :
       {"{% if %}", "{{ (1 }}", "{% for x in %}{% endfor %}", "{{ 'open", "{% endfor %}", "{% if x %}"}) {
    auto compiled = ChatTemplate::compile(source);
    ASSERT_FALSE(compiled.ok()) << source;
    EXPECT_EQ(compiled.status().code(), Code::kInvalidArgument);
    EXPECT_TRUE(compiled.status().message().starts_with("chat template: ")) << compiled.status().message();
    EXPECT_EQ(compiled.status().message().find('\n'), std::string::npos) << compiled.status().message();
  }
}

TEST(ChatTemplateTest, FailingTemplatesSayWhere) {
  const std::string refused = render("line one\n{{ raise_exception('roles must alternate') }}");
  EXPECT_NE(refused.find("roles must alternate"), std::string::npos) << refused;
  EXPECT_NE(refused.find("line 2"), std::string::npos) << refused;
  EXPECT_EQ(refused.find('\n'), std::string::npos) << refused;
  EXPECT_TRUE(render("{{ 'a' + none }}").starts_with("error: "));
  EXPECT_TRUE(render("{{ undefined_function() }}").starts_with("error: "));
  EXPECT_TRUE(render("{% break %}").starts_with("error: "));
}

TEST(ChatTemplateTest, MessagesOfTheWrongShapeAreErrors) {
  const ChatTemplate chatTemplate = compile(realVocabulary().chatTemplate);
  EXPECT_FALSE(chatTemplate.render("text", nullptr, {}).ok());
  EXPECT_FALSE(chatTemplate.render(Json::array(), 3, {}).ok());
  EXPECT_FALSE(chatTemplate.render(Json::array(), nullptr, 3).ok());
}

/// What a hostile template may try; each must end in an error, soon.
TEST(ChatTemplateTest, RunawayTemplatesAreStopped) {
  const char *sources[] = {
      "{% for i in range(1000000000000) %}{% endfor %}",
      "{% for i in range(3000) %}{% for j in range(3000) %}x{% endfor %}{% endfor %}",
      "{% macro f() %}{{ f() }}{% endmacro %}{{ f() }}",
      "{{ 'x' * 1000000000000 }}",
      "{% set ns = namespace(s='xxxxxxxx') %}{% for i in range(100) %}{% set ns.s = ns.s + ns.s %}{% endfor "
      "%}",
      "{% set ns = namespace(s='xxxxxxxx') %}{% for i in range(100) %}{% set ns.s = ns.s | replace('x', "
      "'xx') %}{% endfor %}",
      "{% set ns = namespace(s=[1]) %}{% for i in range(100) %}{% set ns.s = ns.s + ns.s %}{% endfor %}",
      "{% for i in range(6000) %}{{ 'x' * 100000 }}{% endfor %}",
      "{% set ns = namespace() %}{% set ns.a = ns %}{{ ns | tojson }}",
      "{% set l = [] %}{% set l = l.append([l]) %}{{ l }}",
      "{% set ns = namespace(x=[1]) %}{% for i in range(60) %}{% set ns.x = [ns.x, ns.x] %}{% endfor %}{{ "
      "ns.x | string }}",
      "{% set ns = namespace(x=[]) %}{% for i in range(1000) %}{% for j in range(1000) %}{% set ns.x = "
      "[ns.x] %}{% endfor %}{% endfor %}{{ ns.x | string }}",
  };
  for (const char *source : sources) {
    ChatTemplate::Limits limits;
    limits.time = std::chrono::milliseconds(300);
    const auto start = std::chrono::steady_clock::now();
    auto answer = compile(source).render(Json::array(), nullptr, {}, limits);
    ASSERT_FALSE(answer.ok()) << source;
    EXPECT_EQ(answer.status().code(), Code::kInvalidArgument);
    EXPECT_EQ(answer.status().message().find('\n'), std::string::npos) << answer.status().message();
    EXPECT_LT(std::chrono::steady_clock::now() - start, std::chrono::seconds(20)) << source;
  }
}

TEST(ChatTemplateTest, DeeplyNestedTemplatesAreRefused) {
  const auto repeat = [](const char *text, int count) {
    std::string out;
    for (int i = 0; i < count; ++i)
      out += text;
    return out;
  };
  for (const std::string &source :
       {"{{ " + repeat("(", 100000) + "1" + repeat(")", 100000) + " }}",
        "{{ " + repeat("not ", 100000) + "1 }}", "{{ 1" + repeat(" + 1", 100000) + " }}",
        repeat("{% if x %}", 100000) + repeat("{% endif %}", 100000),
        "{% if x %}" + repeat("{% elif y %}", 100000) + "{% endif %}",
        "{{ x" + repeat("|upper", 100000) + " }}", std::string(2 << 20, 'x')})
    EXPECT_FALSE(ChatTemplate::compile(source).ok()) << source.substr(0, 40);
  Json deep = 1;
  for (int i = 0; i < 1000; ++i)
    deep = Json::array({std::move(deep)});
  EXPECT_TRUE(render("x", {{"deep", std::move(deep)}}).starts_with("error: "));
}

TEST(ChatTemplateTest, LimitsCanBeTightened) {
  const ChatTemplate chatTemplate = compile("{% for i in range(100) %}{{ i }}{% endfor %}");
  ChatTemplate::Limits limits;
  limits.steps = 50;
  auto prompt = chatTemplate.render(Json::array(), nullptr, {}, limits);
  ASSERT_FALSE(prompt.ok());
  EXPECT_EQ(prompt.status().message(), "chat template: takes too many steps");
}

TEST(TemplateMessagesTest, ToolResultsJoinTheirCallsWhateverTheirOrder) {
  const Json messages = Json::parse(R"([
    {"role": "user", "content": "Both?"},
    {"role": "assistant", "content": null, "tool_calls": [
      {"id": "a", "type": "function", "function": {"name": "first", "arguments": "{\"x\": 1}"}},
      {"id": "b", "type": "function", "function": {"name": "second", "arguments": ""}}]},
    {"role": "tool", "tool_call_id": "b", "content": "{\"y\": 2}"},
    {"role": "tool", "tool_call_id": "a", "content": [{"type": "text", "text": "plain"}]},
    {"role": "assistant", "content": "Done."}])");
  const Json expected = Json::parse(R"([
    {"role": "user", "content": "Both?"},
    {"role": "assistant", "tool_calls": [
      {"function": {"name": "first", "arguments": {"x": 1}}}, {"function": {"name": "second", "arguments": {}}}],
     "tool_responses": [{"name": "second", "response": {"y": 2}}, {"name": "first", "response": "plain"}]},
    {"role": "assistant", "content": "Done."}])");
  auto converted = toTemplateMessages(messages);
  ASSERT_TRUE(converted.ok()) << converted.status().message();
  EXPECT_EQ(*converted, expected);
  auto again = toTemplateMessages(*converted);
  ASSERT_TRUE(again.ok());
  EXPECT_EQ(*again, expected);
}

TEST(TemplateMessagesTest, TemplatesThatReadToolMessagesGetParsedArgumentsAndIds) {
  const ChatTemplate it = compile(readFile(G4_JINJA_TEMPLATES "/google-gemma-4-31B-it.jinja"));
  EXPECT_TRUE(it.readsToolMessages());
  EXPECT_FALSE(compile(realVocabulary().chatTemplate).readsToolMessages());
  auto messages = toTemplateMessages(Json::parse(R"([
    {"role": "user", "content": "x"},
    {"role": "assistant", "content": "", "tool_calls": [
      {"id": "c1", "type": "function", "function": {"name": "f", "arguments": "{\"city\": \"Rome\"}"}}]},
    {"role": "tool", "tool_call_id": "c1", "content": "ok"}])"),
                                     ToolResults::kOwnMessages);
  ASSERT_TRUE(messages.ok());
  auto prompt = it.render(*messages, nullptr, {{"add_generation_prompt", true}});
  ASSERT_TRUE(prompt.ok()) << prompt.status().message();
  EXPECT_EQ(*prompt,
            "<bos><|turn>user\nx<turn|>\n<|turn>model\n<|tool_call>call:f{city:<|\"|>Rome<|\"|>}<tool_call|>"
            "<|tool_response>response:f{value:<|\"|>ok<|\"|>}<tool_response|>");
}

TEST(TemplateMessagesTest, ReasoningMayBeTextAListOrNull) {
  const auto reasoning = [](Json value) {
    auto converted =
        toTemplateMessages({{{"role", "assistant"}, {"content", "x"}, {"reasoning_content", value}}});
    EXPECT_TRUE(converted.ok());
    return (*converted)[0].contains("reasoning_content") ? (*converted)[0]["reasoning_content"]
                                                         : Json("(dropped)");
  };
  EXPECT_EQ(reasoning("thought"), "thought");
  EXPECT_EQ(reasoning({"a", "", "b"}), "ab");
  EXPECT_EQ(reasoning(Json::array({{{"type", "text"}, {"text", "part"}}})), "part");
  EXPECT_EQ(reasoning(nullptr), "(dropped)");
  EXPECT_EQ(reasoning(Json::array()), "(dropped)");
}

TEST(TemplateMessagesTest, MediaPartsGetTheTemplatesNames) {
  auto converted = toTemplateMessages(Json::parse(R"([{"role": "user", "content": [
    {"type": "image_url", "image_url": {"url": "data:"}}, {"type": "input_audio"}, {"type": "text", "text": "what?"}]}])"));
  ASSERT_TRUE(converted.ok());
  EXPECT_EQ((*converted)[0]["content"][0]["type"], "image");
  EXPECT_EQ((*converted)[0]["content"][1]["type"], "audio");
  EXPECT_EQ((*converted)[0]["content"][2]["type"], "text");
}

TEST(TemplateMessagesTest, TextsInAListArePartsOfText) {
  auto converted = toTemplateMessages(Json::parse(R"([{"role": "user", "content": ["one", "two"]}])"));
  ASSERT_TRUE(converted.ok());
  EXPECT_EQ((*converted)[0]["content"],
            Json::parse(R"([{"type": "text", "text": "one"}, {"type": "text", "text": "two"}])"));
}

TEST(TemplateMessagesTest, WhatATextModelCannotReadIsNamed) {
  const auto error = [](const std::string &content, const char *role = "user") {
    const Json messages = {{{"role", "user"}, {"content", "x"}},
                           {{"role", role}, {"content", Json::parse(content)}}};
    const Status status = checkConversation({{"messages", messages}});
    return status.ok() ? std::string() : status.message();
  };
  for (const char *type :
       {"image_url", "image", "input_audio", "audio", "video_url", "video", "file", "new\n"})
    EXPECT_EQ(error(Json::array({{{"type", "text"}, {"text", "x"}}, {{"type", type}}}).dump()),
              "message 2: part 2 is of type " + quotedName(type) + ", but the model reads only text");
  EXPECT_EQ(error(R"([{"text": "x"}])"), "message 2: part 1 has no type");
  EXPECT_EQ(error("[3]"), "message 2: part 1 has no type");
  EXPECT_EQ(error(R"([{"type": "text"}])"), "message 2: part 1 has no text");
  EXPECT_EQ(error("5"), "message 2: its content is neither a text nor a list of parts");
  EXPECT_EQ(error(R"({"text": "x"})"), "message 2: its content is neither a text nor a list of parts");
  EXPECT_EQ(error("null"), "message 2: it has no content");
  EXPECT_EQ(error("null", "assistant"), "");
  EXPECT_EQ(error(R"({"temperature": 21})", "tool"), "");
  EXPECT_EQ(error(R"(["x", {"type": "text", "text": "y"}, {"type": "input_text", "text": ""}])"), "");
}

TEST(TemplateMessagesTest, WhatIsNoConversationIsRefused) {
  const auto error = [](const char *text) { return checkConversation(Json::parse(text)).message(); };
  EXPECT_EQ(error("[]"), "no JSON object with a list 'messages'");
  EXPECT_EQ(error(R"({"messages": {}})"), "no JSON object with a list 'messages'");
  EXPECT_EQ(error(R"({"messages": [{"role": "user", "content": "x"}, 3]})"), "message 2: not an object");
  EXPECT_EQ(error(R"({"messages": [{"content": "x"}]})"), "message 1: it has no role");
  EXPECT_EQ(error(R"({"messages": [{"role": "zzz", "content": "x"}]})"),
            "message 1: its role is 'zzz', which no message has");
  EXPECT_EQ(error(R"({"messages": [], "enable_thinking": "yes"})"),
            "'enable_thinking' is neither true nor false");
  EXPECT_EQ(error(R"({"messages": [], "tools": [5]})"), "'tools' is no list of objects");
  EXPECT_EQ(error(R"({"messages": [{"role": "user", "content": "x"}, {"role": "user", "content": "y"}],
                      "tools": null, "enable_thinking": true})"),
            "");
}

TEST(TemplateMessagesTest, BrokenMessagesAreNamed) {
  const auto error = [](const char *text) {
    auto converted = toTemplateMessages(Json::parse(text));
    return converted.ok() ? std::string() : converted.status().message();
  };
  EXPECT_EQ(error(R"([{"role": "tool", "content": "x"}])"),
            "message 1: a tool result without a tool call before it");
  EXPECT_EQ(error(R"([{"role": "assistant", "tool_calls": [{"id": "a"}]}])"),
            "message 1: a tool call has no function name");
  EXPECT_EQ(error(R"({})"), "chat messages are not a list");
}

} // namespace
} // namespace g4::text::test
