#include "tools/g4run/Taps.h"
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
  Value &value = values_.try_emplace(std::string(tap.name), Value{tap.type, tap.columns, {}}).first->second;
  if (value.columns != tap.columns || value.type != tap.type)
    return invalidArgument("tap '" + std::string(tap.name) + "' is two different values of the artifact");
  for (uint32_t row = 0; row < tap.rows; ++row) {
    const std::byte *data = tap.data + row * tap.rowBytes;
    value.bytes.insert(value.bytes.end(), data, data + size_t(tap.columns) * 4);
  }
  return {};
}

Status TapFiles::write(const std::string &folder) const {
  std::error_code error;
  std::filesystem::create_directories(folder, error);
  if (error)
    return invalidArgument(folder + ": " + error.message());
  for (const auto &[name, value] : values_) {
    const char *type = value.type == api::TapView::Type::kI32 ? "<i4" : "<f4";
    const std::string path = (std::filesystem::path(folder) / fileName(name)).string();
    G4_ASSIGN_OR_RETURN(auto file,
                        NpyWriter::create(path, type, value.bytes.size() / value.columns / 4, value.columns));
    G4_RETURN_IF_ERROR(file.append(value.bytes));
    G4_RETURN_IF_ERROR(file.finish());
  }
  return {};
}

} // namespace g4::tool
