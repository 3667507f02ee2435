#include "compiler/reference/Npy.h"

#include "runtime/base/MappedFile.h"
#include "runtime/base/Text.h"

#include <cstring>
#include <fstream>
#include <string_view>

namespace g4::reference {
namespace {

constexpr std::string_view kMagic("\x93NUMPY\x01\x00", 8);
constexpr size_t kHeaderAlignment = 64;

Status write(const std::string &path, const char *type, const void *data, size_t bytes, int64_t rows,
             int64_t columns) {
  std::string header = std::string("{'descr': '") + type + "', 'fortran_order': False, 'shape': (" +
                       std::to_string(rows) + ", " + std::to_string(columns) + "), }";
  while ((kMagic.size() + 2 + header.size() + 1) % kHeaderAlignment)
    header += ' ';
  header += '\n';
  std::ofstream file(path, std::ios::binary);
  file.write(kMagic.data(), kMagic.size());
  char length[2] = {static_cast<char>(header.size() & 255), static_cast<char>(header.size() >> 8)};
  file.write(length, 2);
  file.write(header.data(), static_cast<std::streamsize>(header.size()));
  file.write(static_cast<const char *>(data), static_cast<std::streamsize>(bytes));
  file.close();
  if (!file)
    return invalidArgument("cannot write " + quotedPath(path));
  return {};
}

} // namespace

Status writeNpy(const std::string &path, std::span<const float> values, int64_t rows, int64_t columns) {
  return write(path, "<f4", values.data(), values.size_bytes(), rows, columns);
}

Status writeNpy(const std::string &path, std::span<const int32_t> values, int64_t rows, int64_t columns) {
  return write(path, "<i4", values.data(), values.size_bytes(), rows, columns);
}

Result<std::vector<int32_t>> readNpyInt32(const std::string &path) {
  G4_ASSIGN_OR_RETURN(MappedFile file, MappedFile::open(path));
  std::string_view bytes(reinterpret_cast<const char *>(file.bytes().data()), file.bytes().size());
  if (!bytes.starts_with(kMagic) || bytes.size() < kMagic.size() + 2)
    return invalidArgument(quotedPath(path) + " is no .npy file of version 1.0");
  size_t length = static_cast<uint8_t>(bytes[8]) | static_cast<size_t>(static_cast<uint8_t>(bytes[9])) << 8;
  std::string_view header = bytes.substr(10).substr(0, length);
  if (header.size() < length || header.find("'<i4'") == header.npos ||
      header.find("'fortran_order': False") == header.npos)
    return invalidArgument(quotedPath(path) + " does not hold int32 in C order");
  std::string_view data = bytes.substr(10 + length);
  std::vector<int32_t> values(data.size() / sizeof(int32_t));
  std::memcpy(values.data(), data.data(), values.size() * sizeof(int32_t));
  return values;
}

} // namespace g4::reference
