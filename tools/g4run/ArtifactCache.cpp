#include "tools/g4run/ArtifactCache.h"
#include "runtime/api/Report.h"
#include "runtime/base/Hash.h"

#include <algorithm>
#include <cerrno>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <fcntl.h>
#include <filesystem>
#include <fstream>
#include <sys/file.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

namespace g4::tool {
namespace fs = std::filesystem;
namespace {

std::string lockPath(const std::string &artifact) { return fs::path(artifact).replace_extension(".lock"); }

/// Opens the lock file and locks it. Whoever removes an artifact removes its lock file too: then try again.
int lockFile(const std::string &path, int operation) {
  for (;;) {
    const int fd = open(path.c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0600);
    if (fd < 0)
      return -1;
    int result;
    do
      result = flock(fd, operation);
    while (result != 0 && errno == EINTR);
    struct stat mine {
    }, there{};
    if (result == 0 && fstat(fd, &mine) == 0 && stat(path.c_str(), &there) == 0 &&
        mine.st_ino == there.st_ino)
      return fd;
    close(fd);
    if (result != 0)
      return -1;
  }
}

/// What tells one state of a file from another.
Result<std::string> identity(const std::string &path, bool place) {
  struct stat info {};
  if (stat(path.c_str(), &info) != 0)
    return invalidArgument(path + ": " + std::strerror(errno));
  std::string out = std::to_string(info.st_size) + " " + std::to_string(info.st_mtim.tv_sec) + "." +
                    std::to_string(info.st_mtim.tv_nsec);
  if (place)
    out += " " + std::to_string(info.st_dev) + ":" + std::to_string(info.st_ino) + " " +
           fs::absolute(path).string();
  return out + "\n";
}

/// Parts of a split model: NAME-00001-of-00003.gguf and so on; otherwise the file itself.
std::vector<std::string> partsOf(const std::string &path) {
  constexpr size_t kTail = sizeof("-00001-of-00003.gguf") - 1;
  unsigned index = 0, count = 0;
  int end = 0;
  if (path.size() < kTail ||
      std::sscanf(path.c_str() + path.size() - kTail, "-%5u-of-%5u.gguf%n", &index, &count, &end) != 2 ||
      end != int(kTail))
    return {path};
  std::vector<std::string> parts;
  for (unsigned i = 1; i <= count; ++i) {
    char tail[40];
    std::snprintf(tail, sizeof tail, "-%05u-of-%05u.gguf", i, count);
    parts.push_back(path.substr(0, path.size() - kTail) + tail);
  }
  return parts;
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

Result<CacheLock> CacheLock::wait(const std::string &path, Mode mode) {
  CacheLock lock;
  lock.fd_ = lockFile(path, mode == Mode::kShared ? LOCK_SH : LOCK_EX);
  if (lock.fd_ < 0)
    return invalidArgument(path + ": " + std::strerror(errno));
  return lock;
}

std::optional<CacheLock> CacheLock::tryExclusive(const std::string &path) {
  CacheLock lock;
  lock.fd_ = lockFile(path, LOCK_EX | LOCK_NB);
  return lock.fd_ < 0 ? std::nullopt : std::optional(std::move(lock));
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
  std::string text = "g4 cache 1\n";
  for (const std::string &part : partsOf(request.gguf)) {
    G4_ASSIGN_OR_RETURN(const std::string file, identity(part, true));
    text += file;
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
  char key[17];
  std::snprintf(key, sizeof key, "%016llx",
                static_cast<unsigned long long>(hash64(std::as_bytes(std::span(text.data(), text.size())))));
  return std::string(key);
}

Result<CachedArtifact> ArtifactCache::compiled(const Request &request, const Interrupted &interrupted) const {
  if (compiler_.empty())
    return invalidArgument(request.gguf +
                           " is a GGUF file: compiling it needs g4c, which is neither beside g4run nor "
                           "in PATH");
  G4_ASSIGN_OR_RETURN(const std::string key, keyOf(request));
  std::error_code error;
  fs::create_directories(folder_, error);
  if (error)
    return invalidArgument(folder_ + ": " + error.message());
  const std::string artifact =
      fs::path(folder_) / (fs::path(request.gguf).stem().string() + "-" + key + ".g4m");
  for (int tries = 0; tries < 3; ++tries) {
    {
      G4_ASSIGN_OR_RETURN(CacheLock lock, CacheLock::wait(lockPath(artifact), CacheLock::Mode::kShared));
      if (loads(artifact)) {
        utimensat(AT_FDCWD, artifact.c_str(), nullptr, 0); // used now
        return CachedArtifact{artifact, std::move(lock)};
      }
    }
    G4_ASSIGN_OR_RETURN(const CacheLock lock,
                        CacheLock::wait(lockPath(artifact), CacheLock::Mode::kExclusive));
    if (loads(artifact))
      continue; // somebody else made it meanwhile
    fs::remove(artifact, error);
    if (Status status = compile(request, artifact, interrupted); !status.ok()) {
      fs::remove(lockPath(artifact), error);
      return status;
    }
    const uint64_t mine = fs::file_size(artifact, error);
    shrink(request.limit > mine ? request.limit : mine); // this one is locked, so it stays
  }
  return internalError(artifact + " was compiled, but does not load");
}

Status ArtifactCache::compile(const Request &request, const std::string &output,
                              const Interrupted &interrupted) const {
  std::fprintf(stderr, "g4run: compiling %s (once; 'g4run cache list' shows it)\n", request.gguf.c_str());
  std::vector<std::string> words = {compiler_, request.gguf, "-o", output, "--cpu=host"};
  words.insert(words.end(), request.options.begin(), request.options.end());
  std::vector<char *> argv;
  for (std::string &word : words)
    argv.push_back(word.data());
  argv.push_back(nullptr);
  std::fflush(stdout);
  const pid_t child = fork();
  if (child < 0)
    return resourceExhausted(std::string("cannot start g4c: ") + std::strerror(errno));
  if (child == 0) {
    prctl(PR_SET_PDEATHSIG, SIGTERM);
    execv(argv[0], argv.data());
    _exit(127);
  }
  int state = 0;
  while (waitpid(child, &state, 0) < 0 && errno == EINTR)
    ; // Ctrl-C reaches the child too: it ends by itself
  if (interrupted())
    return {Code::kCancelled, "interrupted"};
  if (WIFEXITED(state) && WEXITSTATUS(state) == 0)
    return {};
  if (WIFEXITED(state) && WEXITSTATUS(state) == 127)
    return invalidArgument(compiler_ + " cannot be run");
  if (WIFSIGNALED(state))
    return internalError("g4c was ended by signal " + std::to_string(WTERMSIG(state)) + " while compiling " +
                         request.gguf);
  return invalidArgument("");
}

std::vector<CacheEntry> ArtifactCache::entries() const {
  std::vector<CacheEntry> out;
  std::error_code error;
  for (const fs::directory_entry &file : fs::directory_iterator(folder_, error)) {
    struct stat info {};
    if (file.path().extension() == ".g4m" && stat(file.path().c_str(), &info) == 0)
      out.push_back(
          {file.path(), uint64_t(info.st_size), info.st_mtim.tv_sec * 1'000'000'000 + info.st_mtim.tv_nsec});
  }
  std::sort(out.begin(), out.end(),
            [](const CacheEntry &a, const CacheEntry &b) { return a.lastUse > b.lastUse; });
  return out;
}

std::vector<CacheEntry> ArtifactCache::shrink(uint64_t limit) const {
  std::vector<CacheEntry> all = entries(), removed;
  uint64_t total = 0;
  for (const CacheEntry &entry : all)
    total += entry.bytes;
  for (; !all.empty() && total > limit; all.pop_back()) {
    const CacheEntry &oldest = all.back();
    const auto lock = CacheLock::tryExclusive(lockPath(oldest.path));
    std::error_code error;
    if (!lock || !fs::remove(oldest.path, error))
      continue; // in use
    fs::remove(lockPath(oldest.path), error);
    total -= oldest.bytes;
    removed.push_back(oldest);
  }
  removeStaleLocks();
  return removed;
}

void ArtifactCache::removeStaleLocks() const {
  std::vector<fs::path> locks;
  std::error_code error;
  for (const fs::directory_entry &file : fs::directory_iterator(folder_, error))
    if (file.path().extension() == ".lock")
      locks.push_back(file.path());
  for (fs::path path : locks) {
    const auto lock = CacheLock::tryExclusive(path);
    if (lock && !fs::exists(fs::path(path).replace_extension(".g4m"), error))
      fs::remove(path, error);
  }
}

} // namespace g4::tool
