/// The merging half of Tokenizer::encode. Internal to runtime/text.
#pragma once

#include "runtime/text/Tokenizer.h"

#include <cstdint>
#include <string_view>
#include <vector>

namespace g4::text {

/// Pairs waiting to be merged: lowest rank first, then leftmost. A bucket per rank makes the usual case,
/// pairs that come from left to right, cost the same for each pair however many there are.
class PairQueue {
public:
  /// Ranks are less than `ranks`. Nothing is allocated before the first push.
  explicit PairQueue(size_t ranks) : ranks_(ranks) {}
  void push(uint32_t rank, uint32_t pair);
  /// False when empty. Afterwards the queue can be filled anew.
  bool pop(uint32_t &rank, uint32_t &pair);

private:
  struct Bucket {
    std::vector<uint32_t> pairs; ///< ascending from `head`; a min-heap once a pair came out of order
    size_t head = 0;
    bool heap = false;
  };
  size_t ranks_;
  std::vector<uint32_t> bucketOfRank_; ///< 0: none yet, else an index into buckets_ plus 1
  std::vector<Bucket> buckets_;
  std::vector<uint32_t> waiting_; ///< a min-heap of the ranks whose buckets are not empty
};

/// Appends the tokens of parts of one text to one list of ids. Lives for one call of Tokenizer::encode.
class BytePairEncoder {
public:
  BytePairEncoder(const Tokenizer &tokenizer, std::string_view text, std::vector<int32_t> &ids)
      : tokenizer_(tokenizer), text_(text), ids_(ids), queue_(tokenizer.merges_.size()) {}

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

  /// The symbols of the word at hand, in order of text. A symbol merged into its left neighbour stays,
  /// unlinked.
  std::vector<uint32_t> symbols_, next_, previous_, rank_, result_;
  PairQueue queue_; ///< pairs are named by their left symbol

  /// Where a word was seen before and where its ids are: natural text repeats its words.
  struct Seen {
    uint64_t hash = 0;
    uint32_t begin = 0, length = 0; ///< in the text
    uint32_t firstId = 0, idCount = 0;
  };
  std::vector<Seen> cache_;
};

} // namespace g4::text
