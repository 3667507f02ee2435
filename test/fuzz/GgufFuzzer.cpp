// Bytes from anywhere as a GGUF file, and as an importance matrix in one. Byte 0: whether missing data is allowed; the rest is
// the file.
#include "compiler/import/gguf/Gguf.h"
#include "compiler/quants/Imatrix.h"

#include <cstdlib>
#include <vector>

namespace {

void require(bool condition) {
  if (!condition)
    std::abort();
}

void check(const g4::gguf::File &file) {
  for (const g4::gguf::Tensor &tensor : file.tensors()) {
    require(file.findTensor(tensor.name) == &tensor);
    require(tensor.rows() > 0 && tensor.columns() > 0);
    const auto data = file.data(tensor);
    require(data.empty() || data.size() == tensor.size);
    if (!data.empty()) {
      volatile auto touched = data.front();
      touched = data.back();
      (void)touched;
    }
  }
  for (const auto &[key, value] : file.metadata()) {
    require(file.find(key) == &value);
    (void)file.getUint(key);
    (void)file.getUints(key);
    (void)file.getString(key);
  }
}

void requireLine(const g4::Status &status) {
  require(status.code() != g4::Code::kInternal && status.message().find('\n') == std::string::npos);
}

void checkImatrix(const g4::gguf::File &file) {
  const auto matrix = g4::quants::Imatrix::parse(file);
  if (!matrix.ok())
    return requireLine(matrix.status());
  for (const g4::gguf::Tensor &tensor : file.tensors()) {
    std::string_view name = tensor.name;
    constexpr std::string_view kSums = ".in_sum2";
    if (!name.ends_with(kSums))
      continue;
    name.remove_suffix(kSums.size());
    const auto columns = matrix->columns(name, tensor.rows() - 1, tensor.rows(), tensor.columns());
    require(columns.ok() && (*columns).size() == tensor.columns());
    for (float v : *columns)
      require(v > 0);
  }
}

} // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
  if (size == 0)
    return 0;
  const bool allowMissingData = data[0] & 1;
  const auto bytes = std::as_bytes(std::span(data + 1, size - 1));
  const auto parsed = g4::gguf::File::parse(bytes, {.allowMissingData = allowMissingData});
  if (!parsed.ok()) {
    requireLine(parsed.status());
    return 0;
  }
  check(**parsed);
  if (!allowMissingData)
    checkImatrix(**parsed);
  return 0;
}
