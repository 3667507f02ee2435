#include "runtime/base/MappedFile.h"

#include "runtime/base/Guard.h"
#include "runtime/base/Text.h"

#include <cerrno>
#include <cstdint>
#include <fcntl.h>
#include <limits>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>
#include <utility>

namespace g4 {
namespace {

Status openError(const std::string &path, int error) {
  const bool scarce = error == EMFILE || error == ENFILE || error == ENOMEM;
  return {scarce ? Code::kResourceExhausted : Code::kInvalidArgument,
          "cannot read " + quotedPath(path) + ": " + errnoText(error)};
}

/// Maps what `fd` names; the caller closes it.
Result<std::span<const std::byte>> map(int fd, const std::string &path) {
  struct stat info {};
  if (fstat(fd, &info) != 0)
    return openError(path, errno);
  if (!S_ISREG(info.st_mode))
    return invalidArgument("cannot read " + quotedPath(path) + ": not a regular file");
  if (info.st_size == 0)
    return invalidArgument("cannot read " + quotedPath(path) + ": the file is empty");
  if (static_cast<uint64_t>(info.st_size) > std::numeric_limits<size_t>::max())
    return resourceExhausted("cannot map " + quotedPath(path) + ": larger than the address space");
  const size_t size = static_cast<size_t>(info.st_size);
  void *address = mmap(nullptr, size, PROT_READ, MAP_SHARED, fd, 0);
  if (address == MAP_FAILED)
    return openError(path, errno);
  return std::span(static_cast<const std::byte *>(address), size);
}

} // namespace

MappedFile::MappedFile(MappedFile &&other) noexcept : bytes_(std::exchange(other.bytes_, {})) {}

MappedFile &MappedFile::operator=(MappedFile &&other) noexcept {
  std::swap(bytes_, other.bytes_);
  return *this;
}

MappedFile::~MappedFile() {
  if (!bytes_.empty())
    munmap(const_cast<std::byte *>(bytes_.data()), bytes_.size());
}

Result<MappedFile> MappedFile::open(const std::string &path) {
  // Opened without blocking: a FIFO must become an error, not a hang.
  const int fd = ::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK);
  const int error = errno;
  auto result = guarded([&]() -> Result<MappedFile> {
    if (fd < 0)
      return openError(path, error);
    G4_ASSIGN_OR_RETURN(std::span<const std::byte> bytes, map(fd, path));
    MappedFile file;
    file.bytes_ = bytes;
    return file;
  });
  if (fd >= 0)
    ::close(fd);
  return result;
}

bool MappedFile::advise(std::span<const std::byte> range, int advice) const {
  // Only ever our own file: other memory could be erased.
  if (range.empty() || range.data() < bytes_.data() ||
      range.data() + range.size() > bytes_.data() + bytes_.size())
    return true;
  const auto page = static_cast<uintptr_t>(sysconf(_SC_PAGESIZE));
  const auto begin = reinterpret_cast<uintptr_t>(range.data()) & ~(page - 1);
  const auto end = reinterpret_cast<uintptr_t>(range.data() + range.size());
  return madvise(reinterpret_cast<void *>(begin), end - begin, advice) == 0;
}

bool MappedFile::load(std::span<const std::byte> range) const {
  // EFAULT: the pages are not there. Other errors: a system that does not know this advice.
  return advise(range, MADV_POPULATE_READ) || errno != EFAULT;
}

// Advice only: a failure costs memory, nothing else.
void MappedFile::release(std::span<const std::byte> range) const { (void)advise(range, MADV_DONTNEED); }

} // namespace g4
