#include "tools/common/Npy.h"
#include "runtime/base/Text.h"

#include <cerrno>
#include <cstring>

namespace g4::tool {
namespace {

constexpr char kMagic[] = "\x93NUMPY\x01"; // and a zero byte: version 1.0
constexpr size_t kPrelude = 10;            // magic, version, u16 length of the header
constexpr uint64_t kMostValues = uint64_t(1) << 32;

std::string header(const char *type, uint64_t rows, uint64_t columns) {
  std::string text = std::string("{'descr': '") + type + "', 'fortran_order': False, 'shape': (" +
                     std::to_string(rows) + ", " + std::to_string(columns) + "), }";
  while ((kPrelude + text.size() + 1) % 64 != 0)
    text += ' ';
  text += '\n';
  std::string out(kMagic, 7);
  out += '\0';
  out += char(text.size() & 255);
  out += char(text.size() >> 8);
  return out + text;
}

/// The numbers of "'shape': (2, 3)".
Result<std::vector<uint64_t>> parseShape(const std::string &header) {
  size_t at = header.find("'shape': (");
  const size_t end = header.find(')', at == std::string::npos ? 0 : at);
  if (at == std::string::npos || end == std::string::npos)
    return invalidArgument("no shape in its header");
  std::vector<uint64_t> shape;
  uint64_t total = 1;
  for (at += 10; at < end;) {
    const size_t digits = header.find_first_of("0123456789", at);
    if (digits >= end)
      break;
    char *next = nullptr;
    const uint64_t n = std::strtoull(header.c_str() + digits, &next, 10);
    if (n == 0 || n > kMostValues / total)
      return invalidArgument("its shape is empty or too large");
    total *= n;
    shape.push_back(n);
    at = size_t(next - header.c_str());
  }
  return shape;
}

} // namespace

Result<NpyWriter> NpyWriter::create(OutputFile file, const char *type, uint64_t rows, uint64_t columns) {
  NpyWriter writer(std::move(file));
  const std::string head = header(type, rows, columns);
  writer.left_ = head.size() + rows * columns * 4;
  G4_RETURN_IF_ERROR(writer.append(std::as_bytes(std::span(head))));
  return writer;
}

Status NpyWriter::append(std::span<const std::byte> bytes) {
  if (bytes.size() > left_)
    return internalError(quotedPath(file_.path()) + ": more values than its shape has");
  G4_RETURN_IF_ERROR(file_.append(bytes));
  left_ -= bytes.size();
  return {};
}

Status NpyWriter::finish() {
  if (left_ != 0)
    return internalError(quotedPath(file_.path()) + ": fewer values than its shape has");
  return file_.finish();
}

Result<IntArray> readNpyInts(const std::string &path) {
  const std::unique_ptr<std::FILE, decltype(&std::fclose)> file(std::fopen(path.c_str(), "rb"), &std::fclose);
  if (!file)
    return invalidArgument("cannot read " + quotedPath(path) + ": " + errnoText(errno));
  unsigned char prelude[kPrelude];
  if (std::fread(prelude, 1, kPrelude, file.get()) != kPrelude || std::memcmp(prelude, kMagic, 7) != 0)
    return invalidArgument(quotedPath(path) + ": not a .npy file of version 1");
  std::string head(size_t(prelude[8] | prelude[9] << 8), ' ');
  if (std::fread(head.data(), 1, head.size(), file.get()) != head.size())
    return dataLoss(quotedPath(path) + ": truncated");
  if (head.find("'<i4'") == std::string::npos || head.find("'fortran_order': False") == std::string::npos)
    return invalidArgument(quotedPath(path) + ": not an int32 array in C order");
  auto shape = parseShape(head);
  if (!shape.ok())
    return Status(shape.status()).withContext(quotedPath(path));
  IntArray array{*std::move(shape), {}};
  uint64_t total = 1;
  for (uint64_t n : array.shape)
    total *= n;
  // Grow with what is there, not with what the header claims.
  for (constexpr uint64_t kPiece = 1 << 16; array.values.size() < total;) {
    const size_t at = array.values.size(), want = size_t(std::min(kPiece, total - at));
    array.values.resize(at + want);
    if (std::fread(array.values.data() + at, 4, want, file.get()) != want)
      return dataLoss(quotedPath(path) + ": truncated");
  }
  return array;
}

} // namespace g4::tool
