#include "tools/g4run/AnswerPrinter.h"
#include "tools/g4run/Chat.h"

#include <gtest/gtest.h>

namespace g4::tool {
namespace {

using Kind = ChatCommand::Kind;

TEST(ChatTest, LinesAreMessagesOrCommands) {
  EXPECT_EQ(parseChatLine("  Hello there \n").text, "Hello there");
  EXPECT_EQ(parseChatLine("Hello").kind, Kind::kMessage);
  EXPECT_EQ(parseChatLine(" \t\n").kind, Kind::kNothing);
  EXPECT_EQ(parseChatLine("/help").kind, Kind::kHelp);
  EXPECT_EQ(parseChatLine("/quit ").kind, Kind::kQuit);
  EXPECT_EQ(parseChatLine("/system Be  brief.").text, "Be  brief.");
  EXPECT_EQ(parseChatLine("/system").kind, Kind::kSystem);
  EXPECT_TRUE(parseChatLine("/think on").on);
  EXPECT_FALSE(parseChatLine("/think off").on);
  EXPECT_EQ(parseChatLine("/save a b.json").text, "a b.json");
  EXPECT_EQ(parseChatLine("//etc is a folder").text, "/etc is a folder");
  EXPECT_EQ(parseChatLine("/reset\nis what I typed").kind, Kind::kMessage);
}

TEST(ChatTest, WhatIsWrongIsSaid) {
  for (const auto &[line, reason] :
       {std::pair("/rest", "did you mean /reset?"), std::pair("/hlep", "did you mean /help?"),
        std::pair("/think", "usage: /think on|off"), std::pair("/think 1", "usage: /think on|off"),
        std::pair("/save", "usage: /save FILE"), std::pair("/reset now", "usage: /reset")}) {
    const ChatCommand command = parseChatLine(line);
    EXPECT_EQ(command.kind, Kind::kBad) << line;
    EXPECT_NE(command.text.find(reason), std::string::npos) << command.text;
  }
  EXPECT_EQ(parseChatLine("/abcdefgh").text.find("did you mean"), std::string::npos);
}

TEST(ChatTest, AModelsTextCannotDriveTheTerminal) {
  EXPECT_EQ(withoutControls("a\x1b[31mb\tc\nd\x07\x7f"), "a[31mb\tc\nd");
  EXPECT_EQ(withoutControls("\xc2\x9b"
                            "1m caf\xc3\xa9 \xf0\x9f\x91\x8d"),
            "1m caf\xc3\xa9 \xf0\x9f\x91\x8d"); // U+009B is a control sequence introducer
}

TEST(ChatTest, AConversationSurvivesItsFile) {
  Conversation conversation{"Be kind.", true, {{"user", "Hi\n\"there\""}, {"assistant", "Hello", "hm"}}};
  const auto again = Conversation::parse(conversation.json());
  ASSERT_TRUE(again.ok()) << again.status().message();
  EXPECT_EQ(again->system, "Be kind.");
  EXPECT_TRUE(again->thinking);
  ASSERT_EQ(again->messages.size(), 2u);
  EXPECT_EQ(again->messages[0].content, "Hi\n\"there\"");
  EXPECT_EQ(again->messages[1].thought, "hm");
  EXPECT_EQ(again->json(), conversation.json());
}

TEST(ChatTest, BytesThatAreNoTextAreReplaced) {
  const Conversation conversation{"", false, {{"user", "a\xff"}, {"assistant", "b"}}};
  const auto again = Conversation::parse(conversation.json());
  ASSERT_TRUE(again.ok());
  EXPECT_EQ(again->messages[0].content, "a\xef\xbf\xbd");
}

} // namespace
} // namespace g4::tool
