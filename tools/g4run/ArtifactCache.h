/// Artifacts compiled from GGUF files on first use.
///
/// A folder of files NAME-KEY.g4m. The key is a hash of everything that decides what the artifact is: the
/// GGUF file or files (path, size, time, inode, the first bytes), the compiler, the machine's CPU features,
/// the options and the files that they name. Beside each lies NAME-KEY.lock, locked exclusively while it is
/// made or removed and shared while it is used; a file's time of modification is when it was last used.
/// A folder that cannot be written gives what is in it, without locks.
#pragma once

#include "runtime/base/Status.h"
#include "tools/common/CommandLine.h"
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

  /// Makes the file if need be. Empty when somebody else has it. Errors: kInvalidArgument.
  static Result<std::optional<CacheLock>> tryLock(const std::string &path, Mode mode);
  /// Waits. `waiting` names what for, to a person. Errors: also kCancelled.
  static Result<CacheLock> wait(const std::string &path, Mode mode, const std::string &waiting,
                                const Interrupted &interrupted);

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
  /// Where the artifact for a GGUF file is, or will be. Errors: kInvalidArgument (no file; no compiler).
  Result<std::string> pathFor(const Request &request) const;
  /// The artifact for a GGUF file. Of processes that ask at once, one compiles. An artifact that does not
  /// load is made anew. Errors: kInvalidArgument (also: g4c failed, with an empty message, since it said
  /// why; kInternal when it has a bug), kCancelled, soon after `interrupted`; g4c is ended then and nothing left.
  /// Throws BadUsage when g4c does not take the options.
  Result<CachedArtifact> compiled(const Request &request, const Interrupted &interrupted) const;

  /// The artifacts, last used first. Other files in the folder are none of the cache's business.
  std::vector<CacheEntry> entries() const;
  struct Shrunk {
    std::vector<CacheEntry> removed, inUse;
    Status failed; ///< why one that is not in use could not be removed
  };
  /// Removes least recently used artifacts, none that is in use, until at most `limit` bytes are left; 0: all.
  Shrunk shrink(uint64_t limit) const;

private:
  Result<std::string> keyOf(const Request &request) const;
  /// g4c's exit code. Errors: those of `compiled` with something to say.
  Result<int> compile(const Request &request, const std::string &output, const Interrupted &interrupted) const;
  /// What processes left that were killed while they compiled.
  void removeLeftovers() const;

  std::string folder_, compiler_;
};

/// The files that g4c reads when it is given this one: all parts of a split model, by their names, or itself.
std::vector<std::string> partsOf(const std::string &gguf);

} // namespace g4::tool
