#include "compiler/import/gguf/Gguf.h"

#include "compiler/import/gguf/Parser.h"
#include "runtime/base/Guard.h"
#include "runtime/base/MappedFile.h"
#include "runtime/base/Text.h"

namespace g4::gguf {

struct File::Impl {
  std::string path; ///< empty after `parse`
  MappedFile file;  ///< likewise
  std::span<const std::byte> bytes;
  Header header;

  template <class T> const T *get(std::string_view key) const {
    const size_t index = findMetadata(header, key);
    return index == kNotFound ? nullptr : std::get_if<T>(&header.metadata[index].second);
  }
};

File::File(std::unique_ptr<Impl> impl) : impl_(std::move(impl)) {}
File::~File() = default;

Result<std::unique_ptr<File>> File::open(const std::string &path, Options options) {
  return guarded([&]() -> Result<std::unique_ptr<File>> {
    auto impl = std::make_unique<Impl>();
    impl->path = path;
    G4_ASSIGN_OR_RETURN(impl->file, MappedFile::open(path));
    impl->bytes = impl->file.bytes();
    auto header = parseHeader(impl->bytes, options);
    if (!header.ok())
      return Status(header.status()).withContext(quotedPath(path));
    impl->header = *std::move(header);
    return std::unique_ptr<File>(new File(std::move(impl)));
  });
}

Result<std::unique_ptr<File>> File::parse(std::span<const std::byte> bytes, Options options) {
  return guarded([&]() -> Result<std::unique_ptr<File>> {
    auto impl = std::make_unique<Impl>();
    impl->bytes = bytes;
    G4_ASSIGN_OR_RETURN(impl->header, parseHeader(bytes, options));
    return std::unique_ptr<File>(new File(std::move(impl)));
  });
}

const std::string &File::path() const { return impl_->path; }
uint32_t File::version() const { return impl_->header.version; }
uint64_t File::fileSize() const { return impl_->bytes.size(); }
const std::vector<Tensor> &File::tensors() const { return impl_->header.tensors; }

const Tensor *File::findTensor(std::string_view name) const {
  const size_t index = gguf::findTensor(impl_->header, name);
  return index == kNotFound ? nullptr : &impl_->header.tensors[index];
}

std::span<const std::byte> File::data(const Tensor &tensor) const {
  const uint64_t size = impl_->bytes.size();
  if (tensor.offset > size || tensor.size > size - tensor.offset)
    return {};
  return impl_->bytes.subspan(tensor.offset, tensor.size);
}

void File::releasePages(const Tensor &tensor) const { impl_->file.release(data(tensor)); }

const std::vector<std::pair<std::string, Value>> &File::metadata() const { return impl_->header.metadata; }
std::span<const std::byte> File::metadataBytes(size_t index) const { return impl_->header.metadataBytes[index]; }

const Value *File::find(std::string_view key) const {
  const size_t index = findMetadata(impl_->header, key);
  return index == kNotFound ? nullptr : &impl_->header.metadata[index].second;
}

std::optional<uint64_t> File::getUint(std::string_view key) const {
  if (const auto *value = impl_->get<uint64_t>(key))
    return *value;
  if (const auto *value = impl_->get<int64_t>(key); value && *value >= 0)
    return static_cast<uint64_t>(*value);
  return std::nullopt;
}

std::optional<double> File::getFloat(std::string_view key) const {
  const auto *value = impl_->get<double>(key);
  return value ? std::optional(*value) : std::nullopt;
}

std::optional<bool> File::getBool(std::string_view key) const {
  const auto *value = impl_->get<bool>(key);
  return value ? std::optional(*value) : std::nullopt;
}

const std::string *File::getString(std::string_view key) const { return impl_->get<std::string>(key); }

const std::vector<std::string> *File::getStrings(std::string_view key) const {
  return impl_->get<std::vector<std::string>>(key);
}

std::optional<std::vector<uint64_t>> File::getUints(std::string_view key) const {
  if (const auto value = getUint(key))
    return std::vector<uint64_t>{*value};
  if (const auto *values = impl_->get<std::vector<uint64_t>>(key))
    return *values;
  if (const auto *values = impl_->get<std::vector<int64_t>>(key)) {
    for (int64_t value : *values)
      if (value < 0)
        return std::nullopt;
    return std::vector<uint64_t>(values->begin(), values->end());
  }
  return std::nullopt;
}

std::optional<std::vector<bool>> File::getBools(std::string_view key) const {
  const auto *values = impl_->get<std::vector<bool>>(key);
  return values ? std::optional(*values) : std::nullopt;
}

} // namespace g4::gguf
