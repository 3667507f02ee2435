#include "tools/g4run/EditBuffer.h"
#include "runtime/text/Utf8.h"

#include <algorithm>
#include <cwchar>

namespace g4::tool {

std::u32string fromUtf8(std::string_view bytes) {
  std::u32string out;
  while (!bytes.empty()) {
    const text::Utf8Prefix prefix = text::readUtf8(bytes);
    const size_t length = std::max<size_t>(prefix.bytes, 1);
    char32_t c = U'\xfffd';
    if (prefix.complete) {
      const auto lead = uint8_t(bytes[0]);
      c = length == 1 ? lead : lead & (0x7f >> length);
      for (size_t i = 1; i < length; ++i)
        c = c << 6 | (uint8_t(bytes[i]) & 0x3f);
    }
    out += c;
    bytes.remove_prefix(length);
  }
  return out;
}

std::string toUtf8(std::u32string_view text) {
  std::string out;
  for (char32_t c : text) {
    if (c < 0x80) {
      out += char(c);
      continue;
    }
    const int rest = c < 0x800 ? 1 : c < 0x10000 ? 2 : 3;
    static constexpr uint8_t kLead[] = {0, 0xc0, 0xe0, 0xf0};
    out += char(kLead[rest] | c >> (6 * rest));
    for (int shift = 6 * (rest - 1); shift >= 0; shift -= 6)
      out += char(0x80 | (c >> shift & 0x3f));
  }
  return out;
}

size_t columnsOf(char32_t c) {
  if (c < 0x7f)
    return c < 0x20 ? 0 : 1;
  const int width = wcwidth(wchar_t(c));
  return width < 0 ? 0 : size_t(width);
}

std::string EditBuffer::utf8() const { return toUtf8(text_); }

void EditBuffer::set(const std::string &utf8) {
  text_ = fromUtf8(utf8);
  end();
}

void EditBuffer::insert(std::u32string_view text) {
  text_.insert(cursor_, text);
  cursor_ += text.size();
}

/// Start of the character that ends at `at`.
size_t EditBuffer::before(size_t at) const {
  while (at > 0) {
    --at;
    const char32_t c = text_[at];
    const bool joins = c >= 0x80 && columnsOf(c) == 0;
    const bool joined = at > 0 && text_[at - 1] == U'\x200d'; // zero-width joiner
    if (!joins && !joined)
      break;
  }
  return at;
}

size_t EditBuffer::after(size_t at) const {
  if (at >= text_.size())
    return at;
  size_t next = at + 1;
  while (next < text_.size() && before(next + 1) <= at)
    ++next;
  return next;
}

void EditBuffer::erase(size_t begin, size_t end) {
  text_.erase(begin, end - begin);
  cursor_ = begin;
}

void EditBuffer::eraseBefore() { erase(before(cursor_), cursor_); }
void EditBuffer::eraseAfter() { erase(cursor_, after(cursor_)); }
void EditBuffer::eraseToStart() { erase(0, cursor_); }
void EditBuffer::eraseToEnd() { erase(cursor_, text_.size()); }
void EditBuffer::left() { cursor_ = before(cursor_); }
void EditBuffer::right() { cursor_ = after(cursor_); }

namespace {
bool isSpace(char32_t c) { return c == U' ' || c == U'\n' || c == U'\t'; }
} // namespace

void EditBuffer::wordLeft() {
  while (cursor_ > 0 && isSpace(text_[cursor_ - 1]))
    --cursor_;
  while (cursor_ > 0 && !isSpace(text_[cursor_ - 1]))
    --cursor_;
}

void EditBuffer::wordRight() {
  while (cursor_ < text_.size() && isSpace(text_[cursor_]))
    ++cursor_;
  while (cursor_ < text_.size() && !isSpace(text_[cursor_]))
    ++cursor_;
}

void EditBuffer::eraseWordBefore() {
  const size_t end = cursor_;
  wordLeft();
  erase(cursor_, end);
}

EditBuffer::Layout EditBuffer::layout(size_t width, size_t indent) const {
  constexpr size_t kTab = 8;
  Layout out{{""}, {0, indent}};
  size_t column = indent;
  const auto nextRow = [&] {
    out.rows.emplace_back();
    column = 0;
  };
  for (size_t i = 0; i <= text_.size(); ++i) {
    const char32_t c = i < text_.size() ? text_[i] : U' ';
    const size_t columns = c == U'\t' ? kTab - column % kTab : columnsOf(c);
    if (columns > 0 && column + columns > width) // also where the cursor would stand after a full row
      nextRow();
    if (i == cursor_)
      out.cursor = {out.rows.size() - 1, column};
    if (i == text_.size())
      break;
    if (c == U'\n') {
      nextRow();
    } else if (c == U'\t') {
      out.rows.back().append(columns, ' ');
    } else if (c >= 0x20 && c != 0x7f) {
      out.rows.back() += toUtf8({&c, 1});
    }
    column += columns;
    if (c == U'\n')
      column = 0;
  }
  return out;
}

} // namespace g4::tool
