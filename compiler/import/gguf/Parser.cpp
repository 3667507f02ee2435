#include "compiler/import/gguf/Parser.h"

#include "runtime/base/Text.h"

#include <algorithm>
#include <bit>
#include <cstring>
#include <limits>
#include <numeric>
#include <type_traits>

namespace g4::gguf {
namespace {

static_assert(std::endian::native == std::endian::little, "GGUF is read as stored: little-endian");

constexpr uint32_t kMagic = 0x46554747; // "GGUF"
constexpr uint64_t kDefaultAlignment = 32;
constexpr uint64_t kMaxAlignment = uint64_t(1) << 30;
constexpr uint64_t kMaxKeyBytes = 65535; // the specification's bound
constexpr uint64_t kMaxTensorNameBytes = 64;
constexpr uint32_t kMaxDims = 4;
/// Metadata and tensor list together. The largest published ones take 16 MB (a vocabulary of 262,144); the
/// bound keeps memory small for a sparse file of any size.
constexpr uint64_t kMaxHeaderBytes = uint64_t(256) << 20;

// Least bytes that an entry takes: bounds what a count can reserve.
constexpr uint64_t kMinKeyValueBytes = 8 + 1 + 4 + 1; // length, name, type, value
constexpr uint64_t kMinTensorBytes = 8 + 1 + 4 + 8 + 4 + 8;

enum ValueType : uint32_t {
  kUint8,
  kInt8,
  kUint16,
  kInt16,
  kUint32,
  kInt32,
  kFloat32,
  kBool,
  kString,
  kArray,
  kUint64,
  kInt64,
  kFloat64,
};

std::string num(uint64_t value) { return std::to_string(value); }

/// Bytes of a number or bool in the file; 0 for strings, arrays and unknown types.
uint64_t scalarBytes(uint32_t type) {
  switch (type) {
  case kUint8:
  case kInt8:
  case kBool:
    return 1;
  case kUint16:
  case kInt16:
    return 2;
  case kUint32:
  case kInt32:
  case kFloat32:
    return 4;
  case kUint64:
  case kInt64:
  case kFloat64:
    return 8;
  default:
    return 0;
  }
}

/// A cursor over the header. Every read is checked; the messages say what was being read.
class Reader {
public:
  explicit Reader(std::span<const std::byte> file)
      : file_(file), end_(std::min<uint64_t>(file.size(), kMaxHeaderBytes)) {}

  uint64_t offset() const { return offset_; }
  /// What was read from `begin` on.
  std::span<const std::byte> since(uint64_t begin) const { return file_.subspan(begin, offset_ - begin); }
  uint64_t remaining() const { return end_ - offset_; }

  /// An error unless `size` bytes are left.
  Status need(uint64_t size, const char *what) const {
    if (size <= remaining())
      return {};
    if (end_ < file_.size())
      return invalidArgument("the header is larger than " + num(kMaxHeaderBytes) + " bytes, at the " + what);
    return dataLoss("truncated: the " + std::string(what) + " needs " + num(size) + " bytes at offset " +
                    num(offset_) + ", but the file ends at " + num(file_.size()));
  }

  template <class T> Result<T> read(const char *what) {
    G4_RETURN_IF_ERROR(need(sizeof(T), what));
    return take<T>();
  }

  /// For bytes that `need` has checked.
  template <class T> T take() {
    T value;
    std::memcpy(&value, file_.data() + offset_, sizeof(T));
    offset_ += sizeof(T);
    return value;
  }

  /// A string in the file itself, of at most `limit` bytes.
  Result<std::string_view> readString(const char *what, uint64_t limit = kMaxHeaderBytes) {
    G4_ASSIGN_OR_RETURN(const uint64_t size, read<uint64_t>(what));
    if (size > limit)
      return invalidArgument("the " + std::string(what) + " at offset " + num(offset_) + " has " + num(size) +
                             " bytes, more than " + num(limit));
    G4_RETURN_IF_ERROR(need(size, what));
    const std::string_view text(reinterpret_cast<const char *>(file_.data() + offset_), size);
    offset_ += size;
    return text;
  }

  /// A count of entries that take `least` bytes or more each.
  Status checkCount(uint64_t count, uint64_t least, const char *what) const {
    if (count <= remaining() / least)
      return {};
    if (end_ < file_.size())
      return invalidArgument("the header is larger than " + num(kMaxHeaderBytes) + " bytes: " + what + " " +
                             num(count));
    return dataLoss(std::string(what) + " " + num(count) + " needs more than the " + num(remaining()) +
                    " bytes that follow: a truncated or damaged file");
  }

private:
  std::span<const std::byte> file_;
  uint64_t end_;
  uint64_t offset_ = 0;
};

Result<bool> toBool(uint8_t byte) {
  if (byte > 1)
    return invalidArgument("bool has value " + num(byte));
  return byte == 1;
}

/// `count` numbers of file type T as a vector of the wide type.
template <class T, class Wide> Result<Value> readNumbers(Reader &reader, uint64_t count) {
  G4_RETURN_IF_ERROR(reader.checkCount(count, sizeof(T), "array length"));
  std::vector<Wide> values;
  values.reserve(count);
  for (uint64_t i = 0; i < count; ++i)
    values.push_back(reader.take<T>());
  return Value(std::move(values));
}

Result<Value> readBools(Reader &reader, uint64_t count) {
  G4_RETURN_IF_ERROR(reader.checkCount(count, 1, "array length"));
  std::vector<bool> values;
  values.reserve(count);
  for (uint64_t i = 0; i < count; ++i) {
    G4_ASSIGN_OR_RETURN(const bool value, toBool(reader.take<uint8_t>()));
    values.push_back(value);
  }
  return Value(std::move(values));
}

Result<Value> readStrings(Reader &reader, uint64_t count) {
  G4_RETURN_IF_ERROR(reader.checkCount(count, sizeof(uint64_t), "array length"));
  std::vector<std::string> values;
  values.reserve(count);
  for (uint64_t i = 0; i < count; ++i) {
    G4_ASSIGN_OR_RETURN(const std::string_view text, reader.readString("string in the array"));
    values.emplace_back(text);
  }
  return Value(std::move(values));
}

Result<Value> readArray(Reader &reader) {
  G4_ASSIGN_OR_RETURN(const auto type, reader.read<uint32_t>("element type"));
  G4_ASSIGN_OR_RETURN(const auto count, reader.read<uint64_t>("array length"));
  switch (type) {
  case kUint8:
    return readNumbers<uint8_t, uint64_t>(reader, count);
  case kUint16:
    return readNumbers<uint16_t, uint64_t>(reader, count);
  case kUint32:
    return readNumbers<uint32_t, uint64_t>(reader, count);
  case kUint64:
    return readNumbers<uint64_t, uint64_t>(reader, count);
  case kInt8:
    return readNumbers<int8_t, int64_t>(reader, count);
  case kInt16:
    return readNumbers<int16_t, int64_t>(reader, count);
  case kInt32:
    return readNumbers<int32_t, int64_t>(reader, count);
  case kInt64:
    return readNumbers<int64_t, int64_t>(reader, count);
  case kFloat32:
    return readNumbers<float, double>(reader, count);
  case kFloat64:
    return readNumbers<double, double>(reader, count);
  case kBool:
    return readBools(reader, count);
  case kString:
    return readStrings(reader, count);
  case kArray:
    return invalidArgument("arrays of arrays are not supported");
  default:
    return invalidArgument("unknown array element type " + num(type));
  }
}

Result<Value> readValue(Reader &reader) {
  G4_ASSIGN_OR_RETURN(const auto type, reader.read<uint32_t>("value type"));
  G4_RETURN_IF_ERROR(reader.need(scalarBytes(type), "value"));
  switch (type) {
  case kUint8:
    return Value(uint64_t(reader.take<uint8_t>()));
  case kUint16:
    return Value(uint64_t(reader.take<uint16_t>()));
  case kUint32:
    return Value(uint64_t(reader.take<uint32_t>()));
  case kUint64:
    return Value(reader.take<uint64_t>());
  case kInt8:
    return Value(int64_t(reader.take<int8_t>()));
  case kInt16:
    return Value(int64_t(reader.take<int16_t>()));
  case kInt32:
    return Value(int64_t(reader.take<int32_t>()));
  case kInt64:
    return Value(reader.take<int64_t>());
  case kFloat32:
    return Value(double(reader.take<float>()));
  case kFloat64:
    return Value(reader.take<double>());
  case kBool: {
    G4_ASSIGN_OR_RETURN(const bool value, toBool(reader.take<uint8_t>()));
    return Value(value);
  }
  case kString: {
    G4_ASSIGN_OR_RETURN(const std::string_view text, reader.readString("string"));
    return Value(std::string(text));
  }
  case kArray:
    return readArray(reader);
  default:
    return invalidArgument("unknown value type " + num(type));
  }
}

Status readKeyValue(Reader &reader, Header &header) {
  const uint64_t begin = reader.offset();
  G4_ASSIGN_OR_RETURN(const std::string_view key, reader.readString("key", kMaxKeyBytes));
  if (key.empty())
    return invalidArgument("the key that ends at offset " + num(reader.offset()) + " is empty");
  auto value = readValue(reader);
  if (!value.ok())
    return Status(value.status()).withContext("key " + quotedName(key));
  header.metadata.emplace_back(key, *std::move(value));
  header.metadataBytes.push_back(reader.since(begin));
  return {};
}

/// Dims, type and offset of a tensor whose name is known; fills `size`.
Status readTensorInfo(Reader &reader, Tensor &tensor) {
  G4_ASSIGN_OR_RETURN(const auto rank, reader.read<uint32_t>("number of dimensions"));
  if (rank < 1 || rank > kMaxDims)
    return invalidArgument("has " + num(rank) + " dimensions; 1 to " + num(kMaxDims) + " are possible");
  G4_RETURN_IF_ERROR(reader.need(rank * sizeof(uint64_t), "dimensions"));
  tensor.dims.resize(rank);
  uint64_t elements = 1;
  for (uint64_t &dim : tensor.dims) {
    dim = reader.take<uint64_t>();
    if (dim == 0)
      return invalidArgument("a dimension is 0");
    if (dim > uint64_t(std::numeric_limits<int64_t>::max()) / elements)
      return invalidArgument("its dimensions overflow 64 bits");
    elements *= dim;
  }
  G4_ASSIGN_OR_RETURN(tensor.ggmlType, reader.read<uint32_t>("tensor type"));
  G4_ASSIGN_OR_RETURN(tensor.offset, reader.read<uint64_t>("tensor offset"));
  tensor.size = 0;
  const TypeInfo *type = typeInfo(tensor.ggmlType);
  if (type == nullptr)
    return {};
  if (tensor.columns() % type->blockElements != 0)
    return invalidArgument("rows of " + num(tensor.columns()) + " elements are no multiple of the " +
                           num(type->blockElements) + " in a block of " + type->name);
  const uint64_t blocks = elements / type->blockElements;
  if (blocks > uint64_t(std::numeric_limits<int64_t>::max()) / type->blockBytes)
    return invalidArgument("its size overflows 64 bits");
  tensor.size = blocks * type->blockBytes;
  return {};
}

Status readTensor(Reader &reader, Header &header) {
  G4_ASSIGN_OR_RETURN(const std::string_view name, reader.readString("tensor name", kMaxTensorNameBytes));
  if (name.empty())
    return invalidArgument("the tensor name that ends at offset " + num(reader.offset()) + " is empty");
  Tensor &tensor = header.tensors.emplace_back();
  tensor.name = name;
  if (Status status = readTensorInfo(reader, tensor); !status.ok())
    return std::move(status).withContext("tensor " + quotedName(name));
  return {};
}

const std::string &nameOf(const std::pair<std::string, Value> &entry) { return entry.first; }
const std::string &nameOf(const Tensor &tensor) { return tensor.name; }

/// Sorts entries by name into `order`; an error when a name occurs twice.
template <class Entry>
Status indexNames(const std::vector<Entry> &entries, std::vector<uint32_t> &order, const char *what) {
  order.resize(entries.size());
  std::iota(order.begin(), order.end(), 0);
  std::sort(order.begin(), order.end(),
            [&](uint32_t a, uint32_t b) { return nameOf(entries[a]) < nameOf(entries[b]); });
  for (size_t i = 1; i < order.size(); ++i)
    if (const std::string &name = nameOf(entries[order[i]]); name == nameOf(entries[order[i - 1]]))
      return invalidArgument(std::string(what) + " " + quotedName(name) + " occurs twice");
  return {};
}

template <class Entry>
size_t findName(const std::vector<Entry> &entries, const std::vector<uint32_t> &order,
                std::string_view name) {
  const auto found =
      std::lower_bound(order.begin(), order.end(), name,
                       [&](uint32_t index, std::string_view n) { return nameOf(entries[index]) < n; });
  return found != order.end() && nameOf(entries[*found]) == name ? *found : kNotFound;
}

Result<uint64_t> alignmentOf(const Header &header) {
  const size_t index = findMetadata(header, "general.alignment");
  if (index == kNotFound)
    return kDefaultAlignment;
  const auto *alignment = std::get_if<uint64_t>(&header.metadata[index].second);
  if (alignment == nullptr)
    return invalidArgument("key 'general.alignment' is no unsigned integer");
  if (!std::has_single_bit(*alignment) || *alignment > kMaxAlignment)
    return invalidArgument("key 'general.alignment' is " + num(*alignment) + ", no power of two up to " +
                           num(kMaxAlignment));
  return *alignment;
}

/// Turns offsets within the data section into offsets within the file and checks where the bytes lie.
Status placeTensors(Header &header, uint64_t headerEnd, uint64_t fileSize, bool allowMissingData) {
  G4_ASSIGN_OR_RETURN(const uint64_t alignment, alignmentOf(header));
  const uint64_t dataStart = (headerEnd + alignment - 1) & ~(alignment - 1);
  for (Tensor &tensor : header.tensors) {
    const auto wrong = [&](Code code, const std::string &what) {
      return Status(code, "tensor " + quotedName(tensor.name) + ": " + what);
    };
    if (tensor.offset % alignment != 0)
      return wrong(Code::kInvalidArgument,
                   "offset " + num(tensor.offset) + " is no multiple of the alignment " + num(alignment));
    if (tensor.offset > std::numeric_limits<int64_t>::max() - dataStart - tensor.size)
      return wrong(Code::kInvalidArgument, "offset " + num(tensor.offset) + " overflows 64 bits");
    tensor.offset += dataStart;
    if (!allowMissingData && tensor.offset + tensor.size > fileSize)
      return wrong(Code::kDataLoss, "truncated: its bytes end at " + num(tensor.offset + tensor.size) +
                                        ", but the file ends at " + num(fileSize));
  }
  return {};
}

Status checkOverlaps(const Header &header) {
  std::vector<uint32_t> order;
  order.reserve(header.tensors.size());
  for (uint32_t i = 0; i < header.tensors.size(); ++i)
    if (header.tensors[i].size > 0)
      order.push_back(i);
  std::sort(order.begin(), order.end(),
            [&](uint32_t a, uint32_t b) { return header.tensors[a].offset < header.tensors[b].offset; });
  for (size_t i = 1; i < order.size(); ++i) {
    const Tensor &before = header.tensors[order[i - 1]], &after = header.tensors[order[i]];
    if (after.offset < before.offset + before.size)
      return invalidArgument("tensor " + quotedName(after.name) + " overlaps tensor " +
                             quotedName(before.name));
  }
  return {};
}

Result<uint32_t> readVersion(Reader &reader) {
  G4_ASSIGN_OR_RETURN(const auto magic, reader.read<uint32_t>("magic"));
  if (magic != kMagic)
    return invalidArgument("not a GGUF file: wrong magic");
  G4_ASSIGN_OR_RETURN(const auto version, reader.read<uint32_t>("version"));
  if (version == 2 || version == 3)
    return version;
  if (version == 1)
    return invalidArgument("GGUF version 1 is not supported; convert the file again");
  if (const uint32_t swapped = __builtin_bswap32(version); swapped >= 1 && swapped <= 0xffff)
    return invalidArgument("big-endian GGUF files are not supported");
  return invalidArgument("GGUF version " + num(version) + " is not supported; 2 and 3 are");
}

} // namespace

size_t findMetadata(const Header &header, std::string_view key) {
  return findName(header.metadata, header.metadataByName, key);
}

size_t findTensor(const Header &header, std::string_view name) {
  return findName(header.tensors, header.tensorsByName, name);
}

Result<Header> parseHeader(std::span<const std::byte> bytes, File::Options options) {
  Reader reader(bytes);
  Header header;
  G4_ASSIGN_OR_RETURN(header.version, readVersion(reader));
  G4_ASSIGN_OR_RETURN(const auto tensorCount, reader.read<uint64_t>("tensor count"));
  G4_ASSIGN_OR_RETURN(const auto metadataCount, reader.read<uint64_t>("metadata count"));
  G4_RETURN_IF_ERROR(reader.checkCount(metadataCount, kMinKeyValueBytes, "metadata count"));
  header.metadata.reserve(metadataCount);
  header.metadataBytes.reserve(metadataCount);
  for (uint64_t i = 0; i < metadataCount; ++i)
    G4_RETURN_IF_ERROR(readKeyValue(reader, header));
  G4_RETURN_IF_ERROR(reader.checkCount(tensorCount, kMinTensorBytes, "tensor count"));
  header.tensors.reserve(tensorCount);
  for (uint64_t i = 0; i < tensorCount; ++i)
    G4_RETURN_IF_ERROR(readTensor(reader, header));

  G4_RETURN_IF_ERROR(indexNames(header.metadata, header.metadataByName, "key"));
  G4_RETURN_IF_ERROR(indexNames(header.tensors, header.tensorsByName, "tensor"));
  G4_RETURN_IF_ERROR(placeTensors(header, reader.offset(), bytes.size(), options.allowMissingData));
  G4_RETURN_IF_ERROR(checkOverlaps(header));
  return header;
}

} // namespace g4::gguf
