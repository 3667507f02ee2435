/// A file that appears complete under its name or not at all.
#pragma once

#include "runtime/base/Status.h"

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>

namespace g4 {

/// Writes a file beside its destination and puts it in place with `commit`. Destroyed before that, nothing is
/// left and an older file of that name is untouched. Where the file system has unnamed files (O_TMPFILE:
/// ext4, xfs, btrfs, tmpfs), that holds for a killed process too; elsewhere a kill leaves a file
/// ".<name>.<hex>.tmp". (So can a kill in the moment of replacing an older file; what it leaves is complete.)
/// A symbolic link stays: the file that it leads to, there already or not, is the one written.
/// Threads: one at a time.
/// Errors of all calls: kInvalidArgument when the destination cannot be written (missing folder, no
/// permission, not a regular file); kResourceExhausted when the disk or a limit is full. After an error only
/// destruction is useful.
class AtomicFile {
public:
  struct Options {
    /// Use an unnamed file where the file system has them. Off: for tests of the other way.
    bool unnamed = true;
    /// Wait in commit() until the bytes are on the disk. Off: a crash of the machine may leave the file
    /// empty.
    bool durable = true;
  };
  static Result<std::unique_ptr<AtomicFile>> create(const std::string &path, Options options);
  static Result<std::unique_ptr<AtomicFile>> create(const std::string &path) {
    return create(path, Options());
  }
  ~AtomicFile();
  AtomicFile(const AtomicFile &) = delete;
  AtomicFile &operator=(const AtomicFile &) = delete;

  /// Writes all of `bytes` at `offset` from the start of the file; gaps read as zeros.
  Status writeAt(uint64_t offset, std::span<const std::byte> bytes);
  /// Makes the bytes durable (see Options), then visible under the name, replacing what was there. Call once,
  /// last.
  Status commit();
  const std::string &path() const { return path_; }

private:
  explicit AtomicFile(std::string path) : path_(std::move(path)) {}

  int fd_ = -1;
  bool durable_ = true;
  std::string path_;
  std::string temporary_; ///< name of the file meanwhile; empty while it has none
};

} // namespace g4
