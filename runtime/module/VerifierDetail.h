/// Shared by the parts of the verifier; not for others.
#pragma once

#include "runtime/base/Status.h"
#include "runtime/base/Text.h"
#include "runtime/module/module_generated.h"

#include <cstdint>
#include <set>
#include <string>
#include <string_view>
#include <type_traits>

namespace g4::module::detail {

// Bounds that no model comes near. They keep products of two fields within 64 bits and make a crafted header
// fail here and not at an allocation.
inline constexpr size_t kMaxNameBytes = 256;
inline constexpr uint32_t kMaxLayers = 4096;
inline constexpr uint32_t kMaxVocabulary = 1u << 24;
inline constexpr uint32_t kMaxWidth = 1u << 24;   ///< hidden, MLP, head dim, columns of a tap or output
inline constexpr uint32_t kMaxRows = 1u << 20;    ///< rows of one step
inline constexpr uint64_t kMaxBytes = 1ull << 48; ///< an arena, a segment

inline Status malformed(std::string what) { return invalidArgument(std::move(what)); }

/// "field 7 is not in 1..5".
template <class T> Status outOfRange(const char *field, T value, T low, T high) {
  return malformed(std::string(field) + " " + std::to_string(value) + " is not in " + std::to_string(low) +
                   ".." + std::to_string(high));
}

/// low <= value <= high.
template <class T>
Status checkRange(const char *field, T value, std::type_identity_t<T> low, std::type_identity_t<T> high) {
  if (value >= low && value <= high)
    return {};
  return outOfRange<T>(field, value, low, high);
}

/// index < count.
inline Status checkIndex(const char *field, uint64_t index, uint64_t count) {
  if (index < count)
    return {};
  return malformed(std::string(field) + " " + std::to_string(index) + " is not below " +
                   std::to_string(count));
}

/// FlatBuffers does not check enumerators.
template <class E> Status checkEnum(const char *field, E value) {
  if (value <= E::MAX)
    return {};
  return malformed(std::string(field) + " has unknown value " + std::to_string(static_cast<unsigned>(value)));
}

inline Status checkName(const char *field, const flatbuffers::String *name) {
  if (name == nullptr || name->size() == 0)
    return malformed(std::string(field) + " is missing");
  if (name->size() > kMaxNameBytes)
    return malformed(std::string(field) + " has " + std::to_string(name->size()) + " bytes, more than " +
                     std::to_string(kMaxNameBytes));
  return {};
}

/// A name that no other entry of its kind has.
class NameSet {
public:
  Status add(const char *field, const flatbuffers::String *name) {
    G4_RETURN_IF_ERROR(checkName(field, name));
    if (!names_.insert(name->string_view()).second)
      return malformed(std::string(field) + " occurs twice");
    return {};
  }

private:
  std::set<std::string_view> names_;
};

/// "weights[3] 'blk.0.attn_q'" for messages.
template <class T> std::string entryLabel(const char *list, uint32_t index, const T &entry) {
  std::string label = std::string(list) + "[" + std::to_string(index) + "]";
  if constexpr (requires { entry.name(); })
    if (entry.name() != nullptr)
      label += " " + quotedName(entry.name()->string_view());
  return label;
}

/// Calls `check(index, entry)` for each entry of a list that must be present, and says which entry failed.
template <class List, class Check> Status checkEach(const char *list, const List *entries, Check check) {
  if (entries == nullptr)
    return malformed(std::string(list) + " is missing");
  for (uint32_t i = 0; i < entries->size(); ++i)
    if (Status status = check(i, *entries->Get(i)); !status.ok())
      return std::move(status).withContext(entryLabel(list, i, *entries->Get(i)));
  return {};
}

Status checkProgram(const fb::Module &module, const fb::Program &program);

} // namespace g4::module::detail
