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
  /// Drops the pages that hold `range` (part of `bytes()`) from this process; they come back when touched.
  void release(std::span<const std::byte> range) const;

private:
  std::span<const std::byte> bytes_;
};

} // namespace g4
