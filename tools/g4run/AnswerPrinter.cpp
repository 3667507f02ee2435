#include "tools/g4run/AnswerPrinter.h"
#include "runtime/text/Utf8.h"

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <unistd.h>

namespace g4::tool {

Style::Style() : terminal(isatty(STDOUT_FILENO) == 1) {
  const char *noColour = std::getenv("NO_COLOR"), *term = std::getenv("TERM");
  colour = terminal && !(noColour && *noColour) && term && std::string_view(term) != "dumb";
}

std::string withoutControls(std::string_view text) {
  std::string out;
  while (!text.empty()) {
    const size_t length = std::max<size_t>(text::readUtf8(text).bytes, 1);
    const auto first = uint8_t(text[0]), second = uint8_t(length > 1 ? text[1] : 0);
    const bool control = (first < 0x20 && first != '\n' && first != '\t') || first == 0x7f ||
                         (first == 0xc2 && second >= 0x80 && second < 0xa0);
    if (!control)
      out += text.substr(0, length);
    text.remove_prefix(length);
  }
  return out;
}

bool AnswerPrinter::print(api::Part part, std::string_view text) {
  if (text.empty())
    return true;
  if (part != part_) {
    const bool first = !part_.has_value();
    if (!first && last_ != '\n')
      std::printf("\n");
    if (part == api::Part::kThought)
      std::printf("%s", style_.colour ? style_.dim() : "[thought]\n");
    else if (!first)
      std::printf("%s\n", style_.colour ? style_.off() : "[answer]");
    part_ = part;
  }
  const std::string printable = style_.terminal ? withoutControls(text) : std::string(text);
  if (!printable.empty())
    last_ = printable.back();
  return std::fwrite(printable.data(), 1, printable.size(), stdout) == printable.size() &&
         std::fflush(stdout) == 0;
}

void AnswerPrinter::finish() {
  std::printf("%s%s", part_ == api::Part::kThought ? style_.off() : "", last_ == '\n' ? "" : "\n");
  std::fflush(stdout); // before what goes to standard error
}

} // namespace g4::tool
