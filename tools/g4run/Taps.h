/// Collects the named values of a prompt and writes them as .npy files.
#pragma once

#include "runtime/api/g4.h"
#include "tools/common/Files.h"

#include <map>
#include <string>
#include <vector>

namespace g4::tool {

class TapFiles {
public:
  /// `uses` is borrowed: no file of the folder replaces what it has.
  TapFiles(std::string folder, FileUses &uses) : folder_(std::move(folder)), uses_(uses) {}
  /// The first one makes the folder, if need be. A prompt of several steps gives each value in several
  /// pieces: they are joined, in order.
  Status add(const api::TapView &tap);
  /// One file a value, FOLDER/NAME.npy, [rows, columns].
  Status write();

private:
  struct Value {
    api::TapView::Type type;
    uint32_t columns;
    std::vector<std::byte> bytes; // rows without gaps
  };
  std::string folder_;
  FileUses &uses_;
  std::map<std::string, Value> values_;
};

} // namespace g4::tool
