/// Reads importance matrices as llama.cpp's llama-imatrix writes them. No MLIR.
#pragma once

#include "compiler/import/gguf/Gguf.h"

#include <map>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace g4::quants {

/// How much each column of a weight matters: the mean square of what it was multiplied with on some text.
///
/// The file is a GGUF whose general.type is "imatrix". For a weight NAME it has the f32 tensors NAME.in_sum2,
/// [matrices, columns], and NAME.counts, [matrices, 1]: sums of squares, and how many rows were summed. An expert stack
/// has one matrix for each expert.
/// Immutable; share freely between threads.
class Imatrix {
public:
  /// A weight whose sums or counts are all 0, of which the text says nothing, is as one that the file does not have.
  /// Errors: kInvalidArgument for a file that is no importance matrix or is one of zeros alone, or whose numbers are
  /// negative or not finite.
  static Result<Imatrix> open(const std::string &path);
  static Result<Imatrix> parse(const gguf::File &file);

  /// The importance of each column for row `row` of `rows` of the weight, relative to the matrix' mean and above 0; empty
  /// where the file does not have the weight (every column counts alike). An expert that no token reached counts its
  /// columns alike too.
  /// Errors: kInvalidArgument, naming the file, when it has the weight with other sizes.
  Result<std::span<const float>> columns(std::string_view weight, uint64_t row, uint64_t rows, uint64_t columns) const;
  bool has(std::string_view weight) const { return entries_.find(weight) != entries_.end(); }
  size_t size() const { return entries_.size(); }

private:
  struct Entry {
    uint64_t matrices, columns;
    std::vector<float> importance; ///< [matrices, columns]
  };
  std::string source_ = "the importance matrix"; ///< for messages: the file
  std::map<std::string, Entry, std::less<>> entries_;
};

} // namespace g4::quants
