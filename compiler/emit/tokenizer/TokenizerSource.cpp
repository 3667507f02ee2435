#include "compiler/emit/tokenizer/TokenizerTables.h"

#include "runtime/base/Text.h"

#include <algorithm>
#include <limits>

namespace g4::emit {
namespace {

Status missing(const char *key) {
  return invalidArgument(std::string("metadata key '") + key + "' is absent or has another type");
}

Result<std::optional<uint32_t>> optionalId(const gguf::File &file, const char *key) {
  if (!file.find(key))
    return std::optional<uint32_t>();
  std::optional<uint64_t> value = file.getUint(key);
  if (!value || *value > std::numeric_limits<uint32_t>::max())
    return invalidArgument(std::string("metadata key '") + key + "' is not a token id");
  return std::optional<uint32_t>(uint32_t(*value));
}

} // namespace

Result<TokenizerSource> tokenizerSourceFromGguf(const gguf::File &file) {
  const std::string *model = file.getString("tokenizer.ggml.model");
  if (!model)
    return missing("tokenizer.ggml.model");
  // Ollama's converter calls every merge vocabulary "llama" and says in "pre" how to split.
  const std::string *pre = file.getString("tokenizer.ggml.pre");
  if (*model != "gemma4" && !(*model == "llama" && pre && *pre == "gemma4"))
    return invalidArgument("tokenizer.ggml.model is " + quotedName(*model) + "; only 'gemma4' is supported");
  const std::vector<std::string> *tokens = file.getStrings("tokenizer.ggml.tokens");
  if (!tokens)
    return missing("tokenizer.ggml.tokens");
  const std::vector<std::string> *merges = file.getStrings("tokenizer.ggml.merges");
  if (!merges)
    return missing("tokenizer.ggml.merges");
  std::optional<std::vector<uint64_t>> types = file.getUints("tokenizer.ggml.token_type");
  if (!types)
    return missing("tokenizer.ggml.token_type");

  TokenizerSource source;
  source.tokens = *tokens;
  source.merges = *merges;
  source.types.reserve(types->size());
  for (uint64_t type : *types)
    source.types.push_back(type <= 255 ? int32_t(type) : 0);
  G4_ASSIGN_OR_RETURN(source.bos, optionalId(file, "tokenizer.ggml.bos_token_id"));
  G4_ASSIGN_OR_RETURN(source.eos, optionalId(file, "tokenizer.ggml.eos_token_id"));
  G4_ASSIGN_OR_RETURN(source.unknown, optionalId(file, "tokenizer.ggml.unknown_token_id"));
  G4_ASSIGN_OR_RETURN(source.pad, optionalId(file, "tokenizer.ggml.padding_token_id"));
  G4_ASSIGN_OR_RETURN(source.mask, optionalId(file, "tokenizer.ggml.mask_token_id"));
  if (file.find("tokenizer.ggml.suppress_tokens")) {
    std::optional<std::vector<uint64_t>> ids = file.getUints("tokenizer.ggml.suppress_tokens");
    if (!ids)
      return missing("tokenizer.ggml.suppress_tokens");
    for (uint64_t id : *ids)
      source.suppress.push_back(uint32_t(std::min<uint64_t>(id, std::numeric_limits<uint32_t>::max())));
  }
  return source;
}

} // namespace g4::emit
