/// Lines that a person types.
#pragma once

#include <memory>
#include <string>

namespace g4::tool {

/// On a terminal: editing, history, text pasted as one line whatever line breaks it has, Alt-Enter for a line
/// break. Otherwise plain lines. There is one editor at a time: from its first read on it sets the terminal's
/// mode, so that keys pressed between two reads are not shown and are those of the next read.
class LineEditor {
public:
  /// `historyFile`: read now, written after each line; empty: the history ends with the program.
  explicit LineEditor(std::string historyFile);
  ~LineEditor();
  LineEditor(const LineEditor &) = delete;
  LineEditor &operator=(const LineEditor &) = delete;

  bool interactive() const;

  enum class Read { kLine, kInterrupted, kEnd };
  /// `prompt`: ASCII; `style` and `off` are written around it. The line has no line end.
  Read read(const std::string &prompt, const std::string &style, const std::string &off, std::string &line);

  /// Forgets lines that were typed ahead, up to the Ctrl-C just pressed.
  void dropTypedAhead();

private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

} // namespace g4::tool
