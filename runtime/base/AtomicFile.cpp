#include "runtime/base/AtomicFile.h"

#include "runtime/base/Guard.h"
#include "runtime/base/Text.h"

#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <fcntl.h>
#include <filesystem>
#include <random>
#include <sys/stat.h>
#include <unistd.h>

namespace g4 {
namespace {

constexpr int kNameAttempts = 16;
constexpr int kMaxLinks = 40; // as many as Linux follows

std::string folderOf(const std::string &path) {
  const size_t slash = path.rfind('/');
  if (slash == std::string::npos)
    return ".";
  return slash == 0 ? "/" : path.substr(0, slash);
}

/// A hidden name beside `path` that nothing else is likely to use.
std::string temporaryName(const std::string &path) {
  std::random_device random;
  char suffix[32];
  std::snprintf(suffix, sizeof suffix, ".%08x%08x.tmp", random(), random());
  const size_t slash = path.rfind('/');
  const size_t start = slash == std::string::npos ? 0 : slash + 1;
  return path.substr(0, start) + "." + path.substr(start) + suffix;
}

/// What `path` leads to, whether or not it exists; `path` itself when it is no link. Empty, with errno set, when
/// the links cannot be followed.
std::string followLinks(std::string path) {
  for (int links = 0; links <= kMaxLinks; ++links) {
    struct stat info {};
    if (lstat(path.c_str(), &info) != 0 || !S_ISLNK(info.st_mode))
      return path;
    std::error_code failed;
    const std::filesystem::path target = std::filesystem::read_symlink(path, failed);
    if (failed) {
      errno = failed.value();
      return {};
    }
    path = (std::filesystem::path(path).parent_path() / target).string(); // an absolute target stands alone
  }
  errno = ELOOP;
  return {};
}

Status writeError(const std::string &path, int code) {
  const bool scarce =
      code == ENOSPC || code == EDQUOT || code == EFBIG || code == EMFILE || code == ENFILE || code == ENOMEM;
  return {scarce ? Code::kResourceExhausted : Code::kInvalidArgument,
          "cannot write " + quotedPath(path) + ": " + errnoText(code)};
}

} // namespace

Result<std::unique_ptr<AtomicFile>> AtomicFile::create(const std::string &destination, Options options) {
  return guarded([&]() -> Result<std::unique_ptr<AtomicFile>> {
    // Replaced is what a link leads to, or will lead to, not the link.
    std::string path = followLinks(destination);
    if (path.empty() && !destination.empty())
      return writeError(destination, errno);
    struct stat info {};
    // A rename would replace a device such as /dev/null by a file.
    if (stat(path.c_str(), &info) == 0 && !S_ISREG(info.st_mode))
      return invalidArgument("cannot write " + quotedPath(path) + ": not a regular file");
    if (path.empty() || path.back() == '/')
      return invalidArgument("cannot write " + quotedPath(path) + ": not a file name");

    // Made before the file, so that running out of memory cannot leave a file behind.
    std::unique_ptr<AtomicFile> file(new AtomicFile(std::move(path)));
    file->durable_ = options.durable;
    if (options.unnamed)
      file->fd_ = ::open(folderOf(file->path_).c_str(), O_TMPFILE | O_WRONLY | O_CLOEXEC, 0666);
    if (file->fd_ >= 0)
      return file;
    for (int attempt = 0; attempt < kNameAttempts; ++attempt) {
      std::string name = temporaryName(file->path_);
      file->fd_ = ::open(name.c_str(), O_CREAT | O_EXCL | O_WRONLY | O_CLOEXEC, 0666);
      if (file->fd_ >= 0) {
        file->temporary_ = std::move(name);
        return file;
      }
      if (errno != EEXIST)
        break;
    }
    return writeError(file->path_, errno);
  });
}

AtomicFile::~AtomicFile() {
  if (fd_ >= 0)
    ::close(fd_);
  if (!temporary_.empty())
    ::unlink(temporary_.c_str());
}

Status AtomicFile::writeAt(uint64_t offset, std::span<const std::byte> bytes) {
  return guarded([&]() -> Status {
    while (!bytes.empty()) {
      const ssize_t written = ::pwrite(fd_, bytes.data(), bytes.size(), static_cast<off_t>(offset));
      if (written < 0 && errno == EINTR)
        continue;
      if (written <= 0)
        return writeError(path_, written < 0 ? errno : ENOSPC);
      bytes = bytes.subspan(static_cast<size_t>(written));
      offset += static_cast<uint64_t>(written);
    }
    return {};
  });
}

Status AtomicFile::commit() {
  return guarded([&]() -> Status {
    const std::string folder = folderOf(path_);
    if (durable_ && ::fsync(fd_) != 0)
      return writeError(path_, errno);
    if (temporary_.empty()) {
      // An unnamed file gets its name through /proc. Linking cannot replace, so an existing destination is
      // replaced in two steps: a temporary name, then a rename.
      const std::string self = "/proc/self/fd/" + std::to_string(fd_);
      if (::linkat(AT_FDCWD, self.c_str(), AT_FDCWD, path_.c_str(), AT_SYMLINK_FOLLOW) != 0) {
        if (errno != EEXIST)
          return writeError(path_, errno);
        std::string name = temporaryName(path_);
        if (::linkat(AT_FDCWD, self.c_str(), AT_FDCWD, name.c_str(), AT_SYMLINK_FOLLOW) != 0)
          return writeError(path_, errno);
        temporary_ = std::move(name);
      }
    }
    if (!temporary_.empty()) {
      if (::rename(temporary_.c_str(), path_.c_str()) != 0)
        return writeError(path_, errno);
      temporary_.clear();
    }
    if (!durable_)
      return {};
    // The name itself is durable once the folder is. Some file systems refuse this; the file is complete
    // anyway.
    if (const int fd = ::open(folder.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC); fd >= 0) {
      (void)::fsync(fd);
      ::close(fd);
    }
    return {};
  });
}

} // namespace g4
