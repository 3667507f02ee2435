/// A chat template for Gemma 4 files that come without one, as some converters make them.
#pragma once

#include "runtime/text/Tokenizer.h"

#include <string_view>

namespace g4::text {

/// Jinja source for ChatTemplate::compile: turns of system, user and assistant (text only), thinking on and
/// off (`enable_thinking`), thoughts left out of earlier turns. It writes them as the templates in model
/// files do, and refuses tools and roles that it does not know.
extern const std::string_view kGemmaTemplate;

/// Whether the vocabulary has the tokens that kGemmaTemplate writes. Base and instruction-tuned models both
/// have them; nothing in a file tells the two apart.
bool hasGemmaTurns(const Tokenizer &tokenizer);

} // namespace g4::text
