/// Lines typed before, in this run of the program and earlier ones.
#pragma once

#include <string>
#include <vector>

namespace g4::tool {

/// A file of one line each, line breaks written as \n and backslashes as \\; several programs may append to
/// it.
class History {
public:
  /// Reads `file`; empty: the history ends with the program. A file that cannot be read or written is no
  /// error.
  explicit History(std::string file);

  /// Unless it is empty or the same as the last one.
  void add(const std::string &line);

  /// Before a line is edited: `older` begins at the newest.
  void rewind();
  /// Null when there is none. `draft`: the line being edited, to come back to.
  const std::string *older(const std::string &draft);
  const std::string *newer();

private:
  std::string file_;
  std::vector<std::string> lines_; ///< oldest first
  size_t at_ = 0;                  ///< lines_.size(): the draft
  std::string draft_;
};

} // namespace g4::tool
