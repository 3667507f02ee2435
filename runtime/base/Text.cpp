#include "runtime/base/Text.h"

#include <system_error>

namespace g4 {

std::string quotedName(std::string_view text) {
  constexpr size_t kMaxBytes = 80;
  constexpr char kDigits[] = "0123456789abcdef";
  const bool cut = text.size() > kMaxBytes;
  std::string out = "'";
  for (char c : text.substr(0, kMaxBytes)) {
    const auto byte = static_cast<unsigned char>(c);
    if (byte >= 0x20 && byte < 0x7f)
      out += c;
    else
      out.append({'\\', 'x', kDigits[byte >> 4], kDigits[byte & 15]});
  }
  out += cut ? "...'" : "'";
  return out;
}

std::string errnoText(int error) { return std::generic_category().message(error); }

} // namespace g4
