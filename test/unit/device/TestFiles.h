/// Files that the device tests read.
#pragma once

#include <cstddef>
#include <fstream>
#include <iterator>
#include <string>
#include <vector>

namespace g4::device {

inline std::vector<std::byte> readFile(const std::string &path) {
  std::ifstream file(path, std::ios::binary);
  const std::vector<char> bytes((std::istreambuf_iterator<char>(file)), std::istreambuf_iterator<char>());
  const auto *data = reinterpret_cast<const std::byte *>(bytes.data());
  return {data, data + bytes.size()};
}

} // namespace g4::device
