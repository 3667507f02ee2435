#include "tools/g4run/EditBuffer.h"
#include "tools/g4run/History.h"

#include <gtest/gtest.h>

#include <clocale>
#include <filesystem>
#include <sys/stat.h>
#include <unistd.h>

namespace g4::tool {
namespace {

class EditBufferTest : public testing::Test {
protected:
  EditBufferTest() { std::setlocale(LC_CTYPE, "C.UTF-8"); } // wcwidth
  EditBuffer buffer;
};

TEST_F(EditBufferTest, TextIsInsertedAndErasedAtTheCursor) {
  buffer.set("one three");
  buffer.wordLeft();
  buffer.insert(U"two ");
  EXPECT_EQ(buffer.utf8(), "one two three");
  buffer.eraseWordBefore();
  EXPECT_EQ(buffer.utf8(), "one three");
  buffer.home();
  buffer.eraseAfter();
  buffer.wordRight();
  buffer.eraseToEnd();
  EXPECT_EQ(buffer.utf8(), "ne");
  buffer.left();
  buffer.eraseToStart();
  EXPECT_EQ(buffer.utf8(), "e");
  buffer.right();
  buffer.right();
  buffer.eraseBefore();
  buffer.eraseBefore();
  EXPECT_EQ(buffer.utf8(), "");
}

TEST_F(EditBufferTest, ACharacterGoesAsAWhole) {
  for (const char *one :
       {"a", "\xc3\xa9", "e\xcc\x81" /* with a combining accent */, "\xe6\x97\xa5", "\xf0\x9f\x91\x8d",
        "\xf0\x9f\x91\xa9\xe2\x80\x8d\xf0\x9f\x92\xbb" /* two emoji joined */}) {
    buffer.set(std::string("x") + one + "y");
    buffer.left();
    buffer.eraseBefore();
    EXPECT_EQ(buffer.utf8(), "xy") << one;
    buffer.set(std::string("x") + one + "y");
    buffer.home();
    buffer.right();
    buffer.eraseAfter();
    EXPECT_EQ(buffer.utf8(), "xy") << one;
  }
}

TEST_F(EditBufferTest, Utf8SurvivesAndOtherBytesAreReplaced) {
  for (const char *text : {"", "abc", "\xc2\x80", "\xe2\x82\xac", "\xf0\x90\x80\x80\xf4\x8f\xbf\xbf"})
    EXPECT_EQ(toUtf8(fromUtf8(text)), text);
  EXPECT_EQ(toUtf8(fromUtf8("a\xff\xc3")), "a\xef\xbf\xbd\xef\xbf\xbd");
}

TEST_F(EditBufferTest, RowsAreCutAtTheWidth) {
  buffer.set("abcdefgh");
  auto layout = buffer.layout(5, 2);
  EXPECT_EQ(layout.rows,
            (std::vector<std::string>{"abc", "defgh", ""})); // the cursor has no room after the h
  EXPECT_EQ(layout.cursor.row, 2u);
  EXPECT_EQ(layout.cursor.column, 0u);
  buffer.home();
  layout = buffer.layout(5, 2);
  EXPECT_EQ(layout.cursor.row, 0u);
  EXPECT_EQ(layout.cursor.column, 2u);
}

TEST_F(EditBufferTest, WideCharactersAreNotCutInHalf) {
  buffer.set("a\xe6\x97\xa5\xe6\x9c\xac"); // columns 1, 2, 2
  const auto layout = buffer.layout(4, 0);
  EXPECT_EQ(layout.rows, (std::vector<std::string>{"a\xe6\x97\xa5", "\xe6\x9c\xac"}));
  EXPECT_EQ(layout.cursor.row, 1u);
  EXPECT_EQ(layout.cursor.column, 2u);
}

TEST_F(EditBufferTest, LineBreaksAndTabsTakeTheirRoom) {
  buffer.set("a\n\tb\n");
  const auto layout = buffer.layout(20, 2);
  EXPECT_EQ(layout.rows, (std::vector<std::string>{"a", "        b", ""}));
  EXPECT_EQ(layout.cursor.row, 2u);
  EXPECT_EQ(layout.cursor.column, 0u);
}

TEST(HistoryTest, LinesComeBackNewestFirstAndTheDraftLast) {
  History history("");
  for (const char *line : {"one", "two", "two", " ", "three"})
    history.add(line);
  history.rewind();
  EXPECT_EQ(history.newer(), nullptr);
  EXPECT_EQ(*history.older("draft"), "three");
  EXPECT_EQ(*history.older("x"), "two");
  EXPECT_EQ(*history.older("x"), "one");
  EXPECT_EQ(history.older("x"), nullptr);
  EXPECT_EQ(*history.newer(), "two");
  EXPECT_EQ(*history.newer(), "three");
  EXPECT_EQ(*history.newer(), "draft");
  EXPECT_EQ(history.newer(), nullptr);
}

TEST(HistoryTest, AFileKeepsTheLastThousandForThisPersonOnly) {
  const std::string file =
      std::filesystem::temp_directory_path() / ("g4-history-" + std::to_string(getpid()));
  {
    History history(file);
    for (int i = 0; i < 1500; ++i)
      history.add("line " + std::to_string(i));
    history.add("two\nlines and a \\n");
  }
  for (int twice = 0; twice < 2; ++twice) {
    History history(file);
    history.rewind();
    EXPECT_EQ(*history.older(""), "two\nlines and a \\n");
    size_t count = 1;
    while (history.older(""))
      ++count;
    EXPECT_EQ(count, 1000u);
    struct stat info {};
    ASSERT_EQ(stat(file.c_str(), &info), 0);
    EXPECT_EQ(info.st_mode & 0777, 0600u);
  }
  std::filesystem::remove(file);
  History("/nonexistent/history").add("no error");
}

} // namespace
} // namespace g4::tool
