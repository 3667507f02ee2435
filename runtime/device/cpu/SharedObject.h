/// Loads an ELF shared object that lies in memory.
#pragma once

#include "runtime/base/Status.h"

#include <cstddef>
#include <memory>
#include <span>
#include <string>

namespace g4::device {

struct SharedObjectOptions {
  /// Skips the memfd. For tests, and for systems that forbid executable memfds.
  bool useTemporaryFile = false;
  /// Where a temporary file goes when one is needed; it is private and unlinked as soon as it is open.
  std::string temporaryFolder = "/tmp";
};

/// The object stays loaded as long as this lives.
///
/// glibc recognises loaded objects by path, then by device and inode. "/proc/self/fd/7" of a closed and
/// reused descriptor 7 would silently give the old object, and so would a recycled inode. Hence the
/// descriptor stays open until after dlclose, and for ever if the object turns out to be still resident then.
class SharedObject {
public:
  /// Errors: kIncompatible with the loader's words when it does not load here; kResourceExhausted when
  /// neither a memfd nor a file can be made.
  static Result<std::unique_ptr<SharedObject>> load(std::span<const std::byte> image,
                                                    const SharedObjectOptions &options = {});
  ~SharedObject();
  SharedObject(const SharedObject &) = delete;
  SharedObject &operator=(const SharedObject &) = delete;

  /// Null when there is no such symbol.
  void *symbol(const std::string &name) const;

private:
  SharedObject(int fd, std::string path, void *handle) : fd_(fd), path_(std::move(path)), handle_(handle) {}
  int fd_;
  std::string path_; // as given to dlopen
  void *handle_;
};

} // namespace g4::device
