/// A line being edited, and how it lies on the screen. Knows no terminal.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>
#include <vector>

namespace g4::tool {

/// Characters are code points; a cursor stands before one that takes room, never inside what a terminal shows
/// as one (a letter with its accents, an emoji with its modifiers).
class EditBuffer {
public:
  const std::u32string &text() const { return text_; }
  size_t cursor() const { return cursor_; }
  std::string utf8() const;

  void set(const std::string &utf8); ///< and the cursor to the end
  void insert(std::u32string_view text);
  void eraseBefore(); ///< the character before the cursor
  void eraseAfter();
  void eraseWordBefore();
  void eraseToStart();
  void eraseToEnd();
  void left();
  void right();
  void wordLeft();
  void wordRight();
  void home() { cursor_ = 0; }
  void end() { cursor_ = text_.size(); }

  struct Place {
    size_t row, column;
  };
  struct Layout {
    std::vector<std::string> rows; ///< UTF-8; the first one leaves room for the prompt
    Place cursor;
  };
  /// Rows of a screen `width` columns wide on whose first row `indent` columns are taken.
  Layout layout(size_t width, size_t indent) const;

private:
  size_t before(size_t at) const;
  size_t after(size_t at) const;
  void erase(size_t begin, size_t end);

  std::u32string text_;
  size_t cursor_ = 0;
};

/// Whole UTF-8 as code points, what is none as U+FFFD.
std::u32string fromUtf8(std::string_view bytes);
std::string toUtf8(std::u32string_view text);
/// Columns on a terminal: 0 for what joins the character before it. Needs a UTF-8 locale for more than ASCII.
size_t columnsOf(char32_t c);

} // namespace g4::tool
