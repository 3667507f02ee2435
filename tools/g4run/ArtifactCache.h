/// Artifacts compiled from GGUF files on first use.
///
/// A folder of files NAME-KEY.g4m. The key is a hash of everything that decides what the artifact is: the
/// GGUF file or files (path, size, time, inode, the first bytes), the compiler, the machine's CPU features
/// and the options. Beside each lies NAME-KEY.lock, locked exclusively while it is made or removed and shared
/// while it is used; a file's time of modification is when it was last used.
#pragma once

#include "runtime/base/Status.h"
#include "tools/g4run/Commands.h"

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace g4::tool {

/// A lock on a file of its own, held by this process until destroyed.
class CacheLock {
public:
  enum class Mode { kShared, kExclusive };
  CacheLock() = default;
  CacheLock(CacheLock &&other) noexcept;
  CacheLock &operator=(CacheLock &&other) noexcept;
  ~CacheLock();

  /// Makes the file if need be and waits. Errors: kInvalidArgument.
  static Result<CacheLock> wait(const std::string &path, Mode mode);
  /// Empty when somebody else has it.
  static std::optional<CacheLock> tryExclusive(const std::string &path);

private:
  int fd_ = -1;
};

struct CachedArtifact {
  std::string path;
  CacheLock lock;
};

struct CacheEntry {
  std::string path;
  uint64_t bytes;
  int64_t lastUse; ///< nanoseconds since 1970
};

class ArtifactCache {
public:
  /// `folder` need not exist. `compiler`: path of g4c; empty: there is none.
  ArtifactCache(std::string folder, std::string compiler);
  /// The user's: $XDG_CACHE_HOME/g4 or ~/.cache/g4, and the g4c beside this program or in PATH.
  /// Errors: kInvalidArgument when there is no home.
  static Result<ArtifactCache> open();

  const std::string &folder() const { return folder_; }

  struct Request {
    std::string gguf;                 ///< the file, or one part of a split one
    std::vector<std::string> options; ///< for g4c, after --cpu=host
    uint64_t limit; ///< bytes the cache may have afterwards, but for this artifact and those in use
  };
  /// The artifact for a GGUF file. Of processes that ask at once, one compiles. An artifact that does not
  /// load is made anew. Errors: kInvalidArgument (no file; no compiler; g4c failed, with an empty message,
  /// since it said why), kCancelled.
  Result<CachedArtifact> compiled(const Request &request, const Interrupted &interrupted) const;

  /// Last used first.
  std::vector<CacheEntry> entries() const;
  /// Removes least recently used artifacts, none that is in use, until at most `limit` bytes are left.
  /// Returns those removed.
  std::vector<CacheEntry> shrink(uint64_t limit) const;

private:
  Result<std::string> keyOf(const Request &request) const;
  Status compile(const Request &request, const std::string &output, const Interrupted &interrupted) const;
  /// Of artifacts that were never made, or are gone.
  void removeStaleLocks() const;

  std::string folder_, compiler_;
};

} // namespace g4::tool
