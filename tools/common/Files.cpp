#include "tools/common/Files.h"
#include "runtime/base/Text.h"

#include <cerrno>
#include <fcntl.h>
#include <filesystem>
#include <fstream>
#include <sys/stat.h>
#include <unistd.h>

namespace g4::tool {
namespace {

Status writeError(const std::string &path, int error) {
  const std::string message = "cannot write " + quotedPath(path) + ": " + errnoText(error);
  return error == ENOSPC || error == EDQUOT ? resourceExhausted(message) : invalidArgument(message);
}

Status readAll(int fd, const std::string &name, std::string &out) {
  char piece[1 << 16];
  for (;;) {
    const ssize_t got = ::read(fd, piece, sizeof piece);
    if (got < 0 && errno == EINTR)
      return {Code::kCancelled, "interrupted"};
    if (got < 0)
      return invalidArgument("cannot read " + name + ": " + errnoText(errno));
    if (got == 0)
      return {};
    out.append(piece, size_t(got));
  }
}

/// Whether two paths lead to one file that has, or will have, contents of its own.
bool sameFile(const std::string &a, const std::string &b) {
  struct stat first {
  }, second{};
  const bool there = ::stat(a.c_str(), &first) == 0;
  if (there != (::stat(b.c_str(), &second) == 0))
    return false;
  if (there)
    return S_ISREG(first.st_mode) && first.st_dev == second.st_dev && first.st_ino == second.st_ino;
  namespace fs = std::filesystem;
  std::error_code error;
  const auto place = [&](const std::string &path) {
    return fs::weakly_canonical(fs::absolute(path, error), error);
  };
  return place(a) == place(b);
}

} // namespace

Result<std::string> readFile(const std::string &path) {
  const bool standard = path == "-";
  const std::string name = standard ? "standard input" : quotedPath(path);
  const int fd = standard ? STDIN_FILENO : ::open(path.c_str(), O_RDONLY | O_CLOEXEC);
  if (fd < 0)
    return invalidArgument("cannot read " + name + ": " + errnoText(errno));
  std::string text;
  const Status status = readAll(fd, name, text);
  if (!standard)
    ::close(fd);
  return status.ok() ? Result<std::string>(std::move(text)) : status;
}

bool isGguf(const std::string &path) {
  char magic[4] = {};
  std::ifstream file(path, std::ios::binary);
  return file.read(magic, sizeof magic) && std::string_view(magic, sizeof magic) == "GGUF";
}

//===- FileUses

FileUses::FileUses(std::initializer_list<std::string> inputs) {
  for (const std::string &path : inputs)
    reads(path);
}

void FileUses::reads(std::string path) {
  if (!path.empty())
    inputs_.push_back(std::move(path));
}

Status FileUses::writes(const std::string &path) {
  for (const std::string &input : inputs_)
    if (sameFile(path, input))
      return invalidArgument("cannot write " + quotedPath(path) + ": it is the input " + quotedPath(input));
  for (const std::string &output : outputs_)
    if (sameFile(path, output))
      return invalidArgument("cannot write " + quotedPath(path) + ": it is another output too");
  outputs_.push_back(path);
  return {};
}

//===- OutputFile

Result<OutputFile> OutputFile::create(const std::string &path, FileUses &uses) {
  struct stat info {};
  if (::stat(path.c_str(), &info) != 0) {
    if (errno != ENOENT) // found out now and not in the end, such as a name that is too long
      return writeError(path, errno);
  } else if (!S_ISREG(info.st_mode)) {
    return stream(path, uses);
  }
  G4_RETURN_IF_ERROR(uses.writes(path));
  OutputFile out;
  out.path_ = path;
  G4_ASSIGN_OR_RETURN(out.whole_, AtomicFile::create(path, {.durable = false}));
  return out;
}

Result<OutputFile> OutputFile::stream(const std::string &path, FileUses &uses) {
  G4_RETURN_IF_ERROR(uses.writes(path));
  OutputFile out;
  out.path_ = path;
  out.stream_.reset(std::fopen(path.c_str(), "we"));
  return out.stream_ ? Result<OutputFile>(std::move(out)) : writeError(path, errno);
}

OutputFile OutputFile::standardOutput() {
  OutputFile out;
  out.stream_.reset(stdout);
  return out;
}

Status OutputFile::append(std::span<const std::byte> bytes) {
  if (whole_) {
    G4_RETURN_IF_ERROR(whole_->writeAt(size_, bytes));
    size_ += bytes.size();
    return {};
  }
  const bool written = std::fwrite(bytes.data(), 1, bytes.size(), stream_.get()) == bytes.size();
  if (stream_.get() == stdout)
    return flushOutput();
  return written && std::fflush(stream_.get()) == 0 ? Status() : writeError(path_, errno);
}

Status OutputFile::finish() { return whole_ ? whole_->commit() : Status(); }

Status flushOutput() {
  const bool failed = std::ferror(stdout) != 0;
  errno = 0;
  if (failed)
    std::fputc('\n', stdout); // what failed before fails once more, and that tells why
  if (std::fflush(stdout) == 0 && !failed)
    return {};
  if (errno == EPIPE)
    return resourceExhausted("");
  return resourceExhausted("cannot write to standard output" + (errno ? ": " + errnoText(errno) : ""));
}

void reserveStandardStreams() {
  for (const int fd : {STDIN_FILENO, STDOUT_FILENO, STDERR_FILENO})
    if (::fcntl(fd, F_GETFD) < 0 && errno == EBADF) // the lowest one that is free, so open() gives this one
      (void)!::open("/dev/null", fd == STDIN_FILENO ? O_WRONLY : O_RDONLY);
}

} // namespace g4::tool
