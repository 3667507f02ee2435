#include "tools/g4run/History.h"
#include "runtime/base/AtomicFile.h"

#include <fcntl.h>
#include <fstream>
#include <sys/stat.h>
#include <unistd.h>

namespace g4::tool {
namespace {

constexpr size_t kMostLines = 1000;

std::string escaped(const std::string &line) {
  std::string out;
  for (char c : line)
    out += c == '\n' ? std::string("\\n") : c == '\\' ? std::string("\\\\") : std::string(1, c);
  return out;
}

std::string unescaped(const std::string &line) {
  std::string out;
  for (size_t i = 0; i < line.size(); ++i) {
    const bool escape = line[i] == '\\' && i + 1 < line.size();
    out += !escape ? line[i] : line[++i] == 'n' ? '\n' : line[i];
  }
  return out;
}

} // namespace

History::History(std::string file) : file_(std::move(file)) {
  std::ifstream in(file_);
  for (std::string line; std::getline(in, line);)
    lines_.push_back(unescaped(line));
  if (lines_.size() <= kMostLines)
    return;
  lines_.erase(lines_.begin(), lines_.end() - ptrdiff_t(kMostLines));
  std::string text;
  for (const std::string &line : lines_)
    text += escaped(line) + "\n";
  const mode_t mask = umask(077); // for this person only
  if (auto shorter = AtomicFile::create(file_); shorter.ok())
    if ((*shorter)->writeAt(0, std::as_bytes(std::span(text.data(), text.size()))).ok())
      (void)(*shorter)->commit(); // it stays long then
  umask(mask);
}

void History::add(const std::string &line) {
  if (line.find_first_not_of(" \t\n") == std::string::npos || (!lines_.empty() && lines_.back() == line))
    return;
  lines_.push_back(line);
  if (file_.empty())
    return;
  const int fd = open(file_.c_str(), O_WRONLY | O_APPEND | O_CREAT | O_CLOEXEC, 0600);
  if (fd < 0)
    return;
  const std::string text = escaped(line) + "\n";
  (void)!::write(fd, text.data(), text.size()); // in one piece, so that programs do not mix lines
  close(fd);
}

void History::rewind() {
  at_ = lines_.size();
  draft_.clear();
}

const std::string *History::older(const std::string &draft) {
  if (at_ == 0)
    return nullptr;
  if (at_ == lines_.size())
    draft_ = draft;
  return &lines_[--at_];
}

const std::string *History::newer() {
  if (at_ >= lines_.size())
    return nullptr;
  return ++at_ == lines_.size() ? &draft_ : &lines_[at_];
}

} // namespace g4::tool
