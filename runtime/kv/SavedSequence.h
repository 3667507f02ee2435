/// A sequence's keys and values in a file.
///
/// All numbers as this machine stores them:
///
///   header       SavedHeader below
///   layers       one LayerRecord for each layer store
///   key          uint64 [length]
///   pages        for each layer store its pages, ascending: global ones from 0, sliding ones from
///   firstSliding hash         uint64: hash64 of everything before
///
/// The last page is stored whole: what it holds past `length` is whatever the page held before.
#pragma once

#include "runtime/base/MappedFile.h"
#include "runtime/kv/KvCache.h"

#include <span>
#include <string>
#include <vector>

namespace g4::kv {

/// Writes what `seq` holds to `path`, complete or not at all. `key` has one element for each position, as for
/// a PrefixTree; `modelHash` tells what computed the keys and values. Errors: kInvalidArgument (unknown
/// sequence; a key of another length; the path), kResourceExhausted (disk full).
Status saveSequence(const KvCache &cache, SeqId seq, std::span<const uint64_t> key, uint64_t modelHash,
                    const std::string &path);

/// A saved sequence, checked and ready to be restored. Threads: one at a time.
class SavedSequence {
public:
  /// The file is not trusted: nothing in it is believed before it was checked, and nothing is allocated by
  /// what it says alone. A key's elements are any numbers. Errors: kInvalidArgument (no such file, or empty),
  /// kDataLoss (not a saved sequence, truncated, damaged), kIncompatible (another version, model, or kind of
  /// pages). The message starts with the path.
  static Result<SavedSequence> open(const std::string &path, const Geometry &geometry, uint64_t modelHash);

  uint32_t length() const { return length_; }
  const std::vector<uint64_t> &key() const { return key_; }
  /// Pages that restore takes.
  PageCounts pages() const { return {last_ - firstSliding_, last_}; }

  /// A sequence with what was saved, bit for bit; `cache` is of the geometry that `open` got.
  /// Errors: kResourceExhausted (no pages; nothing taken), kIncompatible (another geometry).
  Result<SeqId> restore(KvCache &cache) const;

private:
  MappedFile file_;
  std::vector<LayerStore> layers_;
  std::vector<uint64_t> key_;
  uint32_t length_ = 0, firstSliding_ = 0, last_ = 0; // pages [firstSliding_, last_) and [0, last_)
};

} // namespace g4::kv
