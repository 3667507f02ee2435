#include "runtime/api/Vocabulary.h"
#include "runtime/base/Guard.h"
#include "runtime/module/Module.h"
#include "runtime/text/Tokenizer.h"

#include <optional>

namespace g4::api {

struct Vocabulary::Impl {
  std::shared_ptr<const module::Module> module;
  std::optional<text::Tokenizer> tokenizer; // a view of the module
};

Vocabulary::Vocabulary(std::unique_ptr<Impl> impl) : impl_(std::move(impl)) {}
Vocabulary::~Vocabulary() = default;

Result<std::unique_ptr<Vocabulary>> Vocabulary::open(const std::string &path) {
  return guarded([&]() -> Result<std::unique_ptr<Vocabulary>> {
    auto impl = std::make_unique<Impl>();
    G4_ASSIGN_OR_RETURN(impl->module, module::Module::load(path));
    if (impl->module->tokenizer().empty())
      return invalidArgument(path + ": the artifact has no tokenizer");
    auto tokenizer = text::Tokenizer::create(impl->module->tokenizer());
    if (!tokenizer.ok())
      return Status(tokenizer.status()).withContext(path);
    impl->tokenizer = *tokenizer;
    return std::unique_ptr<Vocabulary>(new Vocabulary(std::move(impl)));
  });
}

uint32_t Vocabulary::size() const { return impl_->tokenizer->size(); }

Result<std::vector<int32_t>> Vocabulary::encode(std::string_view text, EncodeOptions options) const {
  return guarded([&]() -> Result<std::vector<int32_t>> {
    const auto match = options.special ? text::Match::kSpecial : text::Match::kPlain;
    return options.bos ? impl_->tokenizer->encodePrompt(text, match) : impl_->tokenizer->encode(text, match);
  });
}

Result<std::string> Vocabulary::decode(std::span<const int32_t> ids) const {
  return guarded([&]() -> Result<std::string> {
    for (int32_t id : ids)
      if (!impl_->tokenizer->contains(id))
        return invalidArgument("token " + std::to_string(id) + " is not in a vocabulary of " +
                               std::to_string(size()));
    return impl_->tokenizer->decodeBytes(ids, /*skipSpecial=*/false);
  });
}

std::string_view Vocabulary::piece(int32_t id) const { return impl_->tokenizer->tokenText(id); }

} // namespace g4::api
