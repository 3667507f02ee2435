#include "tools/g4run/ArtifactCache.h"
#include "runtime/api/Report.h"
#include "runtime/base/Hash.h"
#include "runtime/base/Text.h"

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <fcntl.h>
#include <filesystem>
#include <fstream>
#include <sys/file.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <thread>
#include <unistd.h>

namespace g4::tool {
namespace fs = std::filesystem;
namespace {

constexpr size_t kKeyDigits = 16;

std::string lockPath(const std::string &artifact) { return fs::path(artifact).replace_extension(".lock"); }

/// A wait for another process that asks now and then whether to go on: signals may reach any thread.
void pause() { std::this_thread::sleep_for(std::chrono::milliseconds(20)); }

/// Of a lock file; one that cannot be written, as in a read-only folder, can be locked all the same.
int openLock(const std::string &path) {
  const int fd = open(path.c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0600);
  if (fd >= 0 || (errno != EACCES && errno != EPERM && errno != EROFS))
    return fd;
  const int error = errno, readOnly = open(path.c_str(), O_RDONLY | O_CLOEXEC);
  if (readOnly < 0)
    errno = error; // not that the file is absent, but that it cannot be made
  return readOnly;
}

/// What tells one state of a file from another. Errors: kInvalidArgument when it is not there.
Result<std::string> identity(const std::string &path, bool place) {
  struct stat info {};
  if (stat(path.c_str(), &info) != 0)
    return invalidArgument("cannot read " + quotedPath(path) + ": " + errnoText(errno));
  std::string out = std::to_string(info.st_size) + " " + std::to_string(info.st_mtim.tv_sec) + "." +
                    std::to_string(info.st_mtim.tv_nsec);
  if (place)
    out += " " + std::to_string(info.st_dev) + ":" + std::to_string(info.st_ino) + " " +
           fs::absolute(path).string();
  return out + "\n";
}

/// The files that g4c's options name, such as that of --quantize-rules=FILE.
std::string optionFiles(const std::vector<std::string> &options) {
  std::string out;
  for (const std::string &option : options)
    for (const std::string &name : {option, option.substr(option.find('=') + 1)})
      if (auto file = identity(name, true); file.ok())
        out += *file;
  return out;
}

/// NAME of NAME-KEY.g4m, short enough for any file system.
std::string nameOf(const std::string &gguf) {
  std::string name = fs::path(gguf).stem();
  size_t end = std::min<size_t>(name.size(), 160);
  while (end > 0 && end < name.size() && (name[end] & 0xc0) == 0x80)
    --end; // not within a character
  return name.substr(0, end);
}

/// Whether a file is one of the cache's: NAME-KEY and `extension`.
bool isCacheName(const fs::path &path, std::string_view extension) {
  const std::string stem = path.stem();
  const size_t dash = stem.rfind('-');
  return path.extension() == extension && dash != std::string::npos && stem.size() - dash - 1 == kKeyDigits &&
         stem.find_first_not_of("0123456789abcdef", dash + 1) == std::string::npos;
}

/// What g4c left of an artifact where the file system has no unnamed files. For who holds its lock.
void removeTemporaries(const std::string &artifact) {
  const std::string start = "." + fs::path(artifact).filename().string() + ".";
  std::vector<fs::path> found;
  std::error_code error;
  for (const fs::directory_entry &file : fs::directory_iterator(fs::path(artifact).parent_path(), error))
    if (file.path().filename().string().starts_with(start))
      found.push_back(file.path());
  for (const fs::path &path : found)
    fs::remove(path, error);
}

bool loads(const std::string &artifact) { return fs::exists(artifact) && api::inspect(artifact, false).ok(); }

std::string findCompiler() {
  std::error_code error;
  const fs::path beside = fs::read_symlink("/proc/self/exe", error).parent_path() / "g4c";
  if (!error && access(beside.c_str(), X_OK) == 0)
    return beside;
  const char *path = std::getenv("PATH");
  for (std::string rest = path ? path : ""; !rest.empty();) {
    const size_t colon = std::min(rest.find(':'), rest.size());
    const fs::path candidate = fs::path(rest.substr(0, colon)) / "g4c";
    if (colon > 0 && access(candidate.c_str(), X_OK) == 0)
      return candidate;
    rest.erase(0, colon + 1);
  }
  return {};
}

} // namespace

//===- CacheLock

CacheLock::CacheLock(CacheLock &&other) noexcept : fd_(std::exchange(other.fd_, -1)) {}
CacheLock &CacheLock::operator=(CacheLock &&other) noexcept {
  std::swap(fd_, other.fd_);
  return *this;
}
CacheLock::~CacheLock() {
  if (fd_ >= 0)
    close(fd_);
}

Result<std::optional<CacheLock>> CacheLock::tryLock(const std::string &path, Mode mode) {
  for (;;) {
    CacheLock lock;
    lock.fd_ = openLock(path);
    if (lock.fd_ < 0)
      return invalidArgument("cannot write " + quotedPath(path) + ": " + errnoText(errno));
    if (flock(lock.fd_, (mode == Mode::kShared ? LOCK_SH : LOCK_EX) | LOCK_NB) != 0) {
      if (errno == EWOULDBLOCK || errno == EINTR)
        return std::optional<CacheLock>();
      return invalidArgument("cannot lock " + quotedPath(path) + ": " + errnoText(errno));
    }
    // Whoever removes an artifact removes its lock file too: then try again.
    struct stat mine {
    }, there{};
    if (fstat(lock.fd_, &mine) == 0 && stat(path.c_str(), &there) == 0 && mine.st_ino == there.st_ino)
      return std::optional(std::move(lock));
  }
}

Result<CacheLock> CacheLock::wait(const std::string &path, Mode mode, const std::string &waiting,
                                  const Interrupted &interrupted) {
  for (bool said = false;; pause()) {
    G4_ASSIGN_OR_RETURN(std::optional<CacheLock> lock, tryLock(path, mode));
    if (lock)
      return *std::move(lock);
    if (interrupted())
      return Status(Code::kCancelled, "interrupted");
    if (!said)
      std::fprintf(stderr, "g4run: waiting for %s\n", waiting.c_str());
    said = true;
  }
}

//===- ArtifactCache

ArtifactCache::ArtifactCache(std::string folder, std::string compiler)
    : folder_(std::move(folder)), compiler_(std::move(compiler)) {}

Result<ArtifactCache> ArtifactCache::open() {
  const char *cache = std::getenv("XDG_CACHE_HOME"), *home = std::getenv("HOME");
  // The base directory specification: a relative path is to be ignored.
  if (cache && cache[0] == '/')
    return ArtifactCache(fs::path(cache) / "g4", findCompiler());
  if (!home || !*home)
    return invalidArgument("no place for compiled models: neither XDG_CACHE_HOME nor HOME is set");
  return ArtifactCache(fs::path(home) / ".cache" / "g4", findCompiler());
}

Result<std::string> ArtifactCache::keyOf(const Request &request) const {
  std::string text = "g4 cache 2\n";
  for (const std::string &part : partsOf(request.gguf)) {
    auto file = identity(part, true);
    if (!file.ok() && part == request.gguf)
      return file.status();
    text += file.ok() ? *file : part + " is absent\n"; // it is g4c's to say so, if it needs the part
    char head[1 << 16];
    std::ifstream in(part, std::ios::binary);
    in.read(head, sizeof head);
    text.append(head, size_t(in.gcount()));
  }
  G4_ASSIGN_OR_RETURN(const std::string compiler, identity(compiler_, false));
  text += compiler;
  for (const std::string &feature : api::hostFeatures())
    text += feature + " ";
  for (const std::string &option : request.options)
    text += "\n" + option;
  text += "\n" + optionFiles(request.options);
  char key[kKeyDigits + 1];
  std::snprintf(key, sizeof key, "%016llx",
                static_cast<unsigned long long>(hash64(std::as_bytes(std::span(text.data(), text.size())))));
  return std::string(key);
}

Result<std::string> ArtifactCache::pathFor(const Request &request) const {
  if (compiler_.empty())
    return invalidArgument(
        quotedPath(request.gguf) +
        " is a GGUF file: compiling it needs g4c, which is neither beside g4run nor in PATH");
  G4_ASSIGN_OR_RETURN(const std::string key, keyOf(request));
  return (fs::path(folder_) / (nameOf(request.gguf) + "-" + key + ".g4m")).string();
}

Result<CachedArtifact> ArtifactCache::compiled(const Request &request, const Interrupted &interrupted) const {
  G4_ASSIGN_OR_RETURN(const std::string artifact, pathFor(request));
  std::error_code error;
  fs::create_directories(folder_, error);
  if (error)
    return invalidArgument("cannot make " + quotedPath(folder_) + ": " + error.message());
  const std::string waiting = "another g4run, which has " + quotedPath(request.gguf) + " compiled";
  for (int tries = 0; tries < 3; ++tries) {
    {
      auto lock = CacheLock::wait(lockPath(artifact), CacheLock::Mode::kShared, waiting, interrupted);
      if (lock.status().code() == Code::kCancelled)
        return lock.status();
      if (loads(artifact)) {
        utimensat(AT_FDCWD, artifact.c_str(), nullptr, 0); // used now
        return CachedArtifact{artifact, lock.ok() ? *std::move(lock) : CacheLock()};
      }
      if (!lock.ok())
        return lock.status();
    }
    G4_ASSIGN_OR_RETURN(const CacheLock lock, CacheLock::wait(lockPath(artifact), CacheLock::Mode::kExclusive,
                                                              waiting, interrupted));
    if (loads(artifact))
      continue; // somebody else made it meanwhile
    fs::remove(artifact, error);
    const Result<int> code = compile(request, artifact, interrupted);
    if (!code.ok() || *code != kExitOk) {
      removeTemporaries(artifact);
      fs::remove(lockPath(artifact), error);
      if (code.ok() && *code == kExitBadUsage)
        throw BadUsage();
      return code.ok() ? Status(*code == kExitOurBug ? Code::kInternal : Code::kInvalidArgument, "") : code.status();
    }
    const uint64_t mine = fs::file_size(artifact, error);
    shrink(request.limit > mine ? request.limit : mine); // this one is locked, so it stays
  }
  return internalError(quotedPath(artifact) + " was compiled, but does not load");
}

Result<int> ArtifactCache::compile(const Request &request, const std::string &output,
                                   const Interrupted &interrupted) const {
  // Said by g4c once it knows that the file and the options are good: else its error is all there is to say.
  const std::string note = "g4run: compiling " + quotedPath(request.gguf) + " (once; 'g4run cache list' shows it)";
  std::vector<std::string> words = {compiler_, request.gguf, "-o", output, "--cpu=host", "--begin-note=" + note};
  words.insert(words.end(), request.options.begin(), request.options.end());
  std::vector<char *> argv;
  for (std::string &word : words)
    argv.push_back(word.data());
  argv.push_back(nullptr);
  std::fflush(stdout);
  const pid_t child = fork();
  if (child < 0)
    return resourceExhausted("cannot start g4c: " + errnoText(errno));
  if (child == 0) {
    prctl(PR_SET_PDEATHSIG, SIGTERM);
    execv(argv[0], argv.data());
    _exit(127);
  }
  // Ctrl-C on a terminal reaches the child too; a signal to this process alone is passed on, again and again:
  // until it runs g4c the child has the handlers of this process.
  int state = 0;
  for (; waitpid(child, &state, WNOHANG) == 0; pause())
    if (interrupted())
      kill(child, SIGTERM);
  if (WIFEXITED(state) && WEXITSTATUS(state) == 0)
    return 0;
  if (interrupted())
    return Status(Code::kCancelled, "interrupted");
  if (WIFEXITED(state) && WEXITSTATUS(state) == 127)
    return invalidArgument(quotedPath(compiler_) + " cannot be run");
  if (WIFSIGNALED(state))
    return internalError("g4c was ended by signal " + std::to_string(WTERMSIG(state)) + " while compiling " +
                         quotedPath(request.gguf));
  return WEXITSTATUS(state);
}

std::vector<CacheEntry> ArtifactCache::entries() const {
  std::vector<CacheEntry> out;
  std::error_code error;
  for (const fs::directory_entry &file : fs::directory_iterator(folder_, error)) {
    struct stat info {};
    if (isCacheName(file.path(), ".g4m") && stat(file.path().c_str(), &info) == 0)
      out.push_back(
          {file.path(), uint64_t(info.st_size), info.st_mtim.tv_sec * 1'000'000'000 + info.st_mtim.tv_nsec});
  }
  std::sort(out.begin(), out.end(),
            [](const CacheEntry &a, const CacheEntry &b) { return a.lastUse > b.lastUse; });
  return out;
}

ArtifactCache::Shrunk ArtifactCache::shrink(uint64_t limit) const {
  std::vector<CacheEntry> all = entries();
  Shrunk out;
  uint64_t total = 0;
  for (const CacheEntry &entry : all)
    total += entry.bytes;
  for (; !all.empty() && (total > limit || limit == 0); all.pop_back()) {
    const CacheEntry &oldest = all.back();
    const auto lock = CacheLock::tryLock(lockPath(oldest.path), CacheLock::Mode::kExclusive);
    if (lock.ok() && !*lock) {
      out.inUse.push_back(oldest);
      continue;
    }
    std::error_code error;
    if (!lock.ok() || !fs::remove(oldest.path, error)) {
      if (error || !lock.ok()) // else somebody else has removed it
        out.failed = lock.ok() ? invalidArgument("cannot remove " + quotedPath(oldest.path) + ": " + error.message())
                               : lock.status();
      continue;
    }
    fs::remove(lockPath(oldest.path), error);
    total -= oldest.bytes;
    out.removed.push_back(oldest);
  }
  removeLeftovers();
  return out;
}

void ArtifactCache::removeLeftovers() const {
  std::vector<fs::path> locks;
  std::error_code error;
  for (const fs::directory_entry &file : fs::directory_iterator(folder_, error))
    if (isCacheName(file.path(), ".lock"))
      locks.push_back(file.path());
  for (fs::path path : locks) {
    const auto lock = CacheLock::tryLock(path, CacheLock::Mode::kExclusive);
    if (!lock.ok() || !*lock)
      continue; // at work
    const fs::path artifact = fs::path(path).replace_extension(".g4m");
    removeTemporaries(artifact);
    if (!fs::exists(artifact, error))
      fs::remove(path, error);
  }
}

//===- partsOf

std::vector<std::string> partsOf(const std::string &gguf) {
  constexpr size_t kTail = sizeof("-00001-of-00003.gguf") - 1;
  unsigned index = 0, count = 0;
  int end = 0;
  if (gguf.size() < kTail ||
      std::sscanf(gguf.c_str() + gguf.size() - kTail, "-%5u-of-%5u.gguf%n", &index, &count, &end) != 2 ||
      end != int(kTail))
    return {gguf};
  std::vector<std::string> parts;
  for (unsigned i = 1; i <= count; ++i) {
    char tail[40];
    std::snprintf(tail, sizeof tail, "-%05u-of-%05u.gguf", i, count);
    parts.push_back(gguf.substr(0, gguf.size() - kTail) + tail);
  }
  return parts;
}

} // namespace g4::tool
