// Bytes from anywhere as a vocabulary. Byte 0 says how the rest is taken: as tables of an artifact, or as a
// model file from which tables are built. Whatever is accepted then encodes a text.
#include "compiler/emit/tokenizer/TokenizerTables.h"
#include "compiler/import/gguf/Gguf.h"
#include "runtime/text/Tokenizer.h"

#include <algorithm>
#include <cstdlib>

namespace {

void require(bool condition) {
  if (!condition)
    std::abort();
}

void use(const g4::text::Tokenizer &tokenizer, std::string_view text) {
  using g4::text::Match;
  for (Match match : {Match::kPlain, Match::kUser, Match::kSpecial}) {
    const auto ids = tokenizer.encodePrompt(text, match);
    require(ids.ok());
    for (int32_t id : *ids)
      require(tokenizer.contains(id));
    (void)tokenizer.decodeBytes(*ids, match == Match::kPlain);
  }
  for (uint32_t id = 0; id < tokenizer.size(); id += 1 + tokenizer.size() / 64)
    (void)tokenizer.find(tokenizer.tokenText(static_cast<int32_t>(id)));
}

} // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
  if (size == 0)
    return 0;
  const auto bytes = std::as_bytes(std::span(data + 1, size - 1));
  // Some of the input itself is the text: mutations of tables and text go together.
  const std::string_view text(
      reinterpret_cast<const char *>(bytes.last(std::min<size_t>(bytes.size(), 200)).data()),
      std::min<size_t>(bytes.size(), 200));
  if (data[0] & 1) {
    const auto file = g4::gguf::File::parse(bytes, {.allowMissingData = true});
    if (!file.ok())
      return 0;
    const auto source = g4::emit::tokenizerSourceFromGguf(**file);
    if (!source.ok())
      return 0;
    const auto blob = g4::emit::buildTokenizerTables(*source);
    if (!blob.ok())
      return 0;
    const auto tokenizer = g4::text::Tokenizer::create(*blob);
    require(tokenizer.ok()); // what the compiler writes, the runtime accepts
    use(*tokenizer, text);
    return 0;
  }
  const std::vector<std::byte> blob(bytes.begin(), bytes.end()); // aligned, and exactly as long
  const auto tokenizer = g4::text::Tokenizer::create(blob);
  if (tokenizer.ok())
    use(*tokenizer, text);
  return 0;
}
