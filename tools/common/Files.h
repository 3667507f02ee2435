/// The files that a command line names: what is read whole, and what results are written to.
#pragma once

#include "runtime/base/AtomicFile.h"

#include <cstdio>
#include <initializer_list>
#include <string>
#include <vector>

namespace g4::tool {

/// All of a file, a pipe or a device; "-" is standard input.
/// Errors: kInvalidArgument when it cannot be read, a folder for one; kCancelled when Ctrl-C ended the
/// reading.
Result<std::string> readFile(const std::string &path);

/// Whether a file begins as GGUF files do, whatever its name.
bool isGguf(const std::string &path);

/// The files that one command reads and writes: no output may replace an input or another output, by whatever
/// name.
class FileUses {
public:
  FileUses(std::initializer_list<std::string> inputs = {});
  /// An input; an empty name is none. It need not exist yet.
  void reads(std::string path);
  /// An output. Errors: kInvalidArgument when it is an input or an output already. Pipes and devices may be
  /// both.
  Status writes(const std::string &path);

private:
  std::vector<std::string> inputs_, outputs_;
};

/// Writes results, from the first byte to the last. Nothing is ever removed that it did not make. Made before
/// the work whose results it takes, it tells in time that they cannot be kept.
class OutputFile {
public:
  /// The file appears complete or not at all; a pipe or a device gets the bytes as they come.
  /// Errors, here and below: those of AtomicFile, and of FileUses::writes.
  static Result<OutputFile> create(const std::string &path, FileUses &uses);
  /// Others see the bytes as they come.
  static Result<OutputFile> stream(const std::string &path, FileUses &uses);
  static OutputFile standardOutput();

  Status append(std::span<const std::byte> bytes);
  Status append(std::string_view text) { return append(std::as_bytes(std::span(text))); }
  /// Call once, last.
  Status finish();
  const std::string &path() const { return path_; }

private:
  struct Close {
    void operator()(std::FILE *file) const {
      if (file != stdout)
        std::fclose(file);
    }
  };
  OutputFile() = default;
  std::string path_;
  std::unique_ptr<AtomicFile> whole_;
  std::unique_ptr<std::FILE, Close> stream_; ///< null where there is `whole_`
  uint64_t size_ = 0;
};

/// Hands on what was printed. Errors: kResourceExhausted when some of it, now or earlier, could not be
/// written; the message is empty where the reader has left.
Status flushOutput();

/// Makes sure that no file that is opened later becomes standard input, output or error where the program was
/// started without; using them still fails. For the start of main.
void reserveStandardStreams();

} // namespace g4::tool
