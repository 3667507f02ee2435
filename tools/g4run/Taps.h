/// Collects the named values of a prompt and writes them as .npy files.
#pragma once

#include "runtime/api/g4.h"

#include <map>
#include <string>
#include <vector>

namespace g4::tool {

class TapFiles {
public:
  /// A prompt of several steps gives each value in several pieces: they are joined, in order.
  Status add(const api::TapView &tap);
  /// One file a value, FOLDER/NAME.npy, [rows, columns]. Makes the folder if need be.
  Status write(const std::string &folder) const;

private:
  struct Value {
    api::TapView::Type type;
    uint32_t columns;
    std::vector<std::byte> bytes; // rows without gaps
  };
  std::map<std::string, Value> values_;
};

} // namespace g4::tool
