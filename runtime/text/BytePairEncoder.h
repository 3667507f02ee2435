/// The merging half of Tokenizer::encode. Internal to runtime/text.
#pragma once

#include "runtime/text/Tokenizer.h"

#include <cstdint>
#include <string_view>
#include <vector>

namespace g4::text {

/// Appends the tokens of parts of one text to one list of ids. Lives for one call of Tokenizer::encode.
class BytePairEncoder {
public:
  BytePairEncoder(const Tokenizer &tokenizer, std::string_view text, std::vector<int32_t> &ids)
      : tokenizer_(tokenizer), text_(text), ids_(ids) {}

  /// Encodes text[begin, end), in which no special token is to be recognised.
  void encode(size_t begin, size_t end);

private:
  /// One step of the text between two cuts that no merge crosses: a word, a line or a run of newlines.
  void encodeWord(size_t begin, size_t end);
  void readSymbols(std::string_view word);
  void mergeShort();
  void mergeLong();
  /// Rank and result of the pair that begins at symbol `i` of a long word.
  void rankPair(uint32_t i);

  const Tokenizer &tokenizer_;
  std::string_view text_;
  std::vector<int32_t> &ids_;

  /// The symbols of the word at hand, in order of text. A symbol merged into its left neighbour stays, unlinked.
  std::vector<uint32_t> symbols_, next_, previous_, rank_, result_;
  std::vector<uint64_t> queue_; ///< rank << 32 | left symbol, a min-heap

  /// Where a word was seen before and where its ids are: natural text repeats its words.
  struct Seen {
    uint64_t hash = 0;
    uint32_t begin = 0, length = 0; ///< in the text
    uint32_t firstId = 0, idCount = 0;
  };
  std::vector<Seen> cache_;
};

} // namespace g4::text
