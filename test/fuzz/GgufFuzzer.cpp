// Bytes from anywhere as a GGUF file. Byte 0: whether missing data is allowed; the rest is the file.
#include "compiler/import/gguf/Gguf.h"

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

} // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
  if (size == 0)
    return 0;
  const bool allowMissingData = data[0] & 1;
  const auto bytes = std::as_bytes(std::span(data + 1, size - 1));
  const auto parsed = g4::gguf::File::parse(bytes, {.allowMissingData = allowMissingData});
  if (parsed.ok())
    check(**parsed);
  else
    require(parsed.status().code() != g4::Code::kInternal &&
            parsed.status().message().find('\n') == std::string::npos);
  return 0;
}
