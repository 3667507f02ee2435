/// A whole file mapped read-only.
#pragma once

#include "runtime/base/Status.h"

#include <cstddef>
#include <span>
#include <string>

namespace g4 {

/// Owns one read-only mapping; movable, unmaps when destroyed. Safe to share between threads.
/// A file that another process shortens while it is mapped ends this process with SIGBUS at the next touch of
/// the missing part, as with every mapped file; one that is replaced by rename stays as it was.
class MappedFile {
public:
  MappedFile() = default;
  MappedFile(MappedFile &&other) noexcept;
  MappedFile &operator=(MappedFile &&other) noexcept;
  ~MappedFile();

  /// Errors: kInvalidArgument when the path does not name a readable regular file or the file is empty;
  /// kResourceExhausted when there is no address space or no descriptor. The message includes the path.
  static Result<MappedFile> open(const std::string &path);

  std::span<const std::byte> bytes() const { return bytes_; }
  /// Reads `range` from the disk, in one go and not page by page as it is touched. False when the disk fails or the
  /// file has become shorter: touching it would end the process. A range of other memory is left alone: true.
  bool load(std::span<const std::byte> range) const;
  /// Drops the pages that hold `range` (part of `bytes()`) from this process; they come back when touched.
  void release(std::span<const std::byte> range) const;

private:
  /// Gives the pages of `range` this advice of madvise(2); true for a range of other memory.
  bool advise(std::span<const std::byte> range, int advice) const;
  std::span<const std::byte> bytes_;
};

} // namespace g4
