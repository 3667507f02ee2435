#include "tools/g4run/Taps.h"
#include "runtime/base/Text.h"
#include "tools/common/Npy.h"

#include <cctype>
#include <filesystem>

namespace g4::tool {
namespace {

/// A file name: names come from the artifact and must not leave the folder.
std::string fileName(const std::string &name) {
  std::string out = name;
  for (char &c : out)
    if (!std::isalnum(static_cast<unsigned char>(c)) && c != '-' && c != '_')
      c = '_';
  return out + ".npy";
}

} // namespace

Status TapFiles::add(const api::TapView &tap) {
  if (values_.empty()) {
    std::error_code error;
    std::filesystem::create_directories(folder_, error);
    if (error)
      return invalidArgument("cannot make the folder " + quotedPath(folder_) + ": " + error.message());
  }
  Value &value = values_.try_emplace(std::string(tap.name), Value{tap.type, tap.columns, {}}).first->second;
  if (value.columns != tap.columns || value.type != tap.type)
    return invalidArgument("tap '" + std::string(tap.name) + "' is two different values of the artifact");
  for (uint32_t row = 0; row < tap.rows; ++row) {
    const std::byte *data = tap.data + row * tap.rowBytes;
    value.bytes.insert(value.bytes.end(), data, data + size_t(tap.columns) * 4);
  }
  return {};
}

Status TapFiles::write() {
  std::vector<std::pair<const Value *, OutputFile>> files; // all of them, before the first replaces anything
  for (const auto &[name, value] : values_) {
    G4_ASSIGN_OR_RETURN(
        OutputFile file,
        OutputFile::create((std::filesystem::path(folder_) / fileName(name)).string(), uses_));
    files.emplace_back(&value, std::move(file));
  }
  for (auto &[value, file] : files) {
    const char *type = value->type == api::TapView::Type::kI32 ? "<i4" : "<f4";
    const uint64_t rows = value->bytes.size() / value->columns / 4;
    G4_ASSIGN_OR_RETURN(auto array, NpyWriter::create(std::move(file), type, rows, value->columns));
    G4_RETURN_IF_ERROR(array.append(value->bytes));
    G4_RETURN_IF_ERROR(array.finish());
  }
  return {};
}

} // namespace g4::tool
