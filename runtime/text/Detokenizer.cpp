#include "runtime/text/Detokenizer.h"

#include "runtime/text/Utf8.h"

#include <algorithm>

namespace g4::text {
namespace {
constexpr std::string_view kReplacement = "\xef\xbf\xbd"; // U+FFFD
}

std::string Detokenizer::push(int32_t id) {
  tokenizer_.appendBytes(id, options_.skipSpecial, held_);
  return takeComplete(/*last=*/false);
}

std::string Detokenizer::finish() { return takeComplete(/*last=*/true); }

std::string Detokenizer::takeComplete(bool last) {
  std::string out;
  std::string_view rest = held_;
  while (!rest.empty()) {
    const Utf8Prefix prefix = readUtf8(rest);
    if (prefix.open && !last)
      break;
    const size_t length = std::max<size_t>(prefix.bytes, 1);
    out += prefix.complete ? rest.substr(0, length) : kReplacement;
    rest.remove_prefix(length);
  }
  held_.erase(0, held_.size() - rest.size());
  return out;
}

} // namespace g4::text
