/// Builds the tokenizer tables of an artifact (runtime/text/TokenizerFormat.h) from a model file's
/// vocabulary. No MLIR, so that the runtime's tests build without it.
#pragma once

#include "compiler/import/gguf/Gguf.h"
#include "runtime/base/Status.h"

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace g4::emit {

/// What a model file says about its tokenizer. Ids count from 0; token texts write a space as U+2581.
struct TokenizerSource {
  std::vector<std::string> tokens;
  std::vector<int32_t> types;      ///< one per token; values of text::TokenType
  std::vector<std::string> merges; ///< "left right", best rank first
  std::optional<uint32_t> bos, eos, unknown, pad, mask;
  std::vector<uint32_t> suppress; ///< ids that must never be sampled
};

/// Reads the `tokenizer.ggml.*` keys. `add_bos_token` is not read: a Gemma 4 prompt begins with one BOS
/// whatever the file says or leaves out. Scores are not read: merge ranks alone decide. Errors:
/// kInvalidArgument naming the key (absent, of another type, or not a "gemma4" tokenizer, which is also written as "llama" with pre "gemma4").
Result<TokenizerSource> tokenizerSourceFromGguf(const gguf::File &file);

/// The blob, ready to be a segment of the artifact. The same source always gives the same bytes.
/// Errors: kInvalidArgument naming the token or merge (missing byte token, merge of unknown parts, id out of
/// range, special token too long).
Result<std::vector<std::byte>> buildTokenizerTables(const TokenizerSource &source);

} // namespace g4::emit
