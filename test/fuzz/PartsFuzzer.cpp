// Bytes from anywhere as the parts of a split model. Byte 0: whether missing data is allowed, and which parts are named: the first,
// the second, all, or all the wrong way round. Each "GGUF" in the rest begins another part.
#include "compiler/import/gguf/Parts.h"

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <string_view>
#include <unistd.h>

namespace {

void require(bool condition) {
  if (!condition)
    std::abort();
}

/// A folder for the parts, which are found by their names; removed in the end.
struct Folder {
  std::filesystem::path path = std::filesystem::temp_directory_path() / ("g4-parts-fuzzer-" + std::to_string(getpid()));
  Folder() { std::filesystem::create_directory(path); }
  ~Folder() { std::filesystem::remove_all(path); }
};

std::vector<std::string_view> split(std::string_view bytes) {
  std::vector<std::string_view> parts;
  for (size_t begin = bytes.find("GGUF"); begin != bytes.npos && parts.size() < 4;) {
    const size_t end = bytes.find("GGUF", begin + 4);
    parts.push_back(bytes.substr(begin, end - begin));
    begin = end;
  }
  return parts;
}

std::string name(size_t number, size_t count) {
  char text[32];
  std::snprintf(text, sizeof text, "m-%05zu-of-%05zu.gguf", number + 1, count);
  return text;
}

/// What the importer takes for granted of files that were opened together.
void check(const std::vector<std::unique_ptr<g4::gguf::File>> &files, size_t given) {
  require(!files.empty() && std::ranges::all_of(files, [](const auto &file) { return file != nullptr; }));
  const uint64_t count = files.front()->getUint("split.count").value_or(1);
  if (count <= 1)
    return require(files.size() == given);
  require(files.size() == count);
  uint64_t tensors = 0;
  for (size_t i = 0; i < files.size(); ++i) {
    require(files[i]->getUint("split.count") == count && files[i]->getUint("split.no") == i);
    tensors += files[i]->tensors().size();
  }
  require(files.front()->getUint("split.tensors.count").value_or(tensors) == tensors);
}

} // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
  static const Folder folder;
  if (size == 0)
    return 0;
  const auto parts = split({reinterpret_cast<const char *>(data) + 1, size - 1});
  std::vector<std::string> paths;
  for (size_t i = 0; i < parts.size(); ++i) {
    paths.push_back(folder.path / name(i, parts.size()));
    std::ofstream(paths.back(), std::ios::binary) << parts[i];
  }
  std::vector<std::string> given = paths;
  if (const int which = data[0] >> 1 & 3; which == 3)
    std::ranges::reverse(given);
  else if (which < 2 && size_t(which) < paths.size())
    given = {paths[which]};
  const auto files = g4::gguf::openParts(given, {.allowMissingData = (data[0] & 1) != 0});
  if (files.ok())
    check(*files, given.size());
  else
    require(files.status().code() != g4::Code::kInternal && files.status().message().find('\n') == std::string::npos);
  for (const std::string &path : paths)
    std::filesystem::remove(path);
  return 0;
}
