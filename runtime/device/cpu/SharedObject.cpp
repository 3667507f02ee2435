#include "runtime/device/cpu/SharedObject.h"

#include <cerrno>
#include <cstring>
#include <dlfcn.h>
#include <fcntl.h>
#include <sys/mman.h>
#include <unistd.h>

namespace g4::device {
namespace {

bool writeAll(int fd, std::span<const std::byte> bytes) {
  while (!bytes.empty()) {
    const ssize_t n = write(fd, bytes.data(), bytes.size());
    if (n < 0 && errno == EINTR)
      continue;
    if (n <= 0)
      return false;
    bytes = bytes.subspan(size_t(n));
  }
  return true;
}

std::string procPath(int fd) { return "/proc/self/fd/" + std::to_string(fd); }

/// An open file with `image` in it and the path to load it by; -1 if that cannot be had.
int openMemory(std::span<const std::byte> image, std::string &path) {
  const int fd = memfd_create("g4-code", MFD_CLOEXEC);
  if (fd < 0)
    return -1;
  if (!writeAll(fd, image)) {
    close(fd);
    return -1;
  }
  path = procPath(fd);
  return fd;
}

int openTemporary(std::span<const std::byte> image, const std::string &folder, std::string &path) {
  path = folder + "/g4-code-XXXXXX";
  const int fd = mkostemp(path.data(), O_CLOEXEC); // mode 0600
  if (fd < 0)
    return -1;
  if (!writeAll(fd, image)) {
    unlink(path.c_str());
    close(fd);
    return -1;
  }
  return fd;
}

} // namespace

Result<std::unique_ptr<SharedObject>> SharedObject::load(std::span<const std::byte> image,
                                                         const SharedObjectOptions &options) {
  std::string path, reason = "no memfd";
  if (!options.useTemporaryFile) {
    if (int fd = openMemory(image, path); fd >= 0) {
      if (void *handle = dlopen(path.c_str(), RTLD_NOW | RTLD_LOCAL))
        return std::unique_ptr<SharedObject>(new SharedObject(fd, path, handle));
      reason = dlerror();
      close(fd);
    }
  }
  const int fd = openTemporary(image, options.temporaryFolder, path);
  if (fd < 0)
    return resourceExhausted("cannot write code to " + options.temporaryFolder + ": " + std::strerror(errno) +
                             " (and as a memfd: " + reason + ")");
  void *handle = dlopen(path.c_str(), RTLD_NOW | RTLD_LOCAL);
  if (!handle)
    reason = dlerror();
  unlink(path.c_str());
  if (!handle) {
    close(fd);
    return incompatible("code does not load: " + reason);
  }
  return std::unique_ptr<SharedObject>(new SharedObject(fd, path, handle));
}

SharedObject::~SharedObject() {
  dlclose(handle_);
  if (void *still = dlopen(path_.c_str(), RTLD_NOW | RTLD_NOLOAD)) {
    dlclose(still);
    return; // still resident: its descriptor, and with it the name and the inode, must never be reused
  }
  close(fd_);
}

void *SharedObject::symbol(const std::string &name) const { return dlsym(handle_, name.c_str()); }

} // namespace g4::device
