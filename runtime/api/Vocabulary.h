/// The tokenizer of an artifact by itself. Needs no machine that can run the artifact, and no weights.
#pragma once

#include "runtime/base/Status.h"

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace g4::api {

/// Immutable; share freely between threads.
class Vocabulary {
public:
  /// Errors: those of loading an artifact, and kInvalidArgument when it holds no tokenizer.
  static Result<std::unique_ptr<Vocabulary>> open(const std::string &path);
  ~Vocabulary();

  uint32_t size() const;

  struct EncodeOptions {
    bool special = true; ///< control tokens written out are recognised; else they are text
    bool bos = true;     ///< exactly one BOS in front, as models expect
  };
  Result<std::vector<int32_t>> encode(std::string_view text, EncodeOptions options) const;

  /// The bytes of a list of ids, control tokens as they are written; not always UTF-8.
  /// Errors: kInvalidArgument (an id outside the vocabulary).
  Result<std::string> decode(std::span<const int32_t> ids) const;
  /// A token as the model file spells it: a space is U+2581, a byte "<0x0A>"; empty outside the vocabulary.
  std::string_view piece(int32_t id) const;

private:
  struct Impl;
  explicit Vocabulary(std::unique_ptr<Impl> impl);
  std::unique_ptr<Impl> impl_;
};

} // namespace g4::api
