#include "runtime/base/Text.h"

#include <system_error>

namespace g4 {

namespace {

std::string escaped(unsigned char byte) {
  constexpr char kDigits[] = "0123456789abcdef";
  return {'\\', 'x', kDigits[byte >> 4], kDigits[byte & 15]};
}

/// Bytes of the UTF-8 character at the start of `text` (Unicode 15, table 3-7), or 0: no character, or one that
/// controls the terminal.
size_t printable(std::string_view text) {
  const auto at = [&](size_t i) { return i < text.size() ? static_cast<unsigned char>(text[i]) : 0u; };
  const auto follows = [&](size_t i, unsigned low = 0x80, unsigned high = 0xbf) { return at(i) >= low && at(i) <= high; };
  const unsigned lead = at(0);
  if (lead < 0x80)
    return lead >= 0x20 && lead < 0x7f;
  if (lead >= 0xc2 && lead <= 0xdf) // U+0080 to U+009F are controls
    return follows(1, lead == 0xc2 ? 0xa0 : 0x80) ? 2 : 0;
  if (lead >= 0xe0 && lead <= 0xef)
    return follows(1, lead == 0xe0 ? 0xa0 : 0x80, lead == 0xed ? 0x9f : 0xbf) && follows(2) ? 3 : 0;
  if (lead >= 0xf0 && lead <= 0xf4)
    return follows(1, lead == 0xf0 ? 0x90 : 0x80, lead == 0xf4 ? 0x8f : 0xbf) && follows(2) && follows(3) ? 4 : 0;
  return 0;
}

} // namespace

std::string quotedName(std::string_view text) {
  constexpr size_t kMaxBytes = 80;
  const bool cut = text.size() > kMaxBytes;
  std::string out = "'";
  for (char c : text.substr(0, kMaxBytes)) {
    const auto byte = static_cast<unsigned char>(c);
    if (byte >= 0x20 && byte < 0x7f)
      out += c;
    else
      out += escaped(byte);
  }
  out += cut ? "...'" : "'";
  return out;
}

std::string quotedPath(std::string_view path) {
  std::string out = "'";
  while (!path.empty()) {
    const size_t bytes = printable(path);
    out += bytes ? std::string(path.substr(0, bytes)) : escaped(static_cast<unsigned char>(path.front()));
    path.remove_prefix(bytes ? bytes : 1);
  }
  return out + "'";
}

std::string errnoText(int error) { return std::generic_category().message(error); }

} // namespace g4
