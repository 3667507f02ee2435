/// Errors as values. Nothing in the runtime throws across a public header.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <utility>

namespace g4 {

/// What the caller should do about a failure.
enum class Code {
  kOk,
  kInvalidArgument,   ///< fix the call, the request or the file
  kResourceExhausted, ///< wait for a release, retry
  kUnavailable,       ///< back off, retry
  kIncompatible,      ///< recompile: another version or target
  kDataLoss,          ///< replace the file
  kCancelled,         ///< stop; asked for
  kInternal,          ///< report a bug
};

/// A code and one line for a person. Callers add context in front: "loading a.g4m: section 3: short read".
class [[nodiscard]] Status {
public:
  Status() = default;
  Status(Code code, std::string message) : code_(code), message_(std::move(message)) {}
  bool ok() const { return code_ == Code::kOk; }
  Code code() const { return code_; }
  const std::string &message() const { return message_; }
  /// The same failure with "context: " in front; ok stays ok.
  Status withContext(std::string_view context) && {
    if (!ok())
      message_ = std::string(context) + ": " + message_;
    return std::move(*this);
  }

private:
  Code code_ = Code::kOk;
  std::string message_;
};

inline Status invalidArgument(std::string m) { return {Code::kInvalidArgument, std::move(m)}; }
inline Status resourceExhausted(std::string m) { return {Code::kResourceExhausted, std::move(m)}; }
inline Status incompatible(std::string m) { return {Code::kIncompatible, std::move(m)}; }
inline Status dataLoss(std::string m) { return {Code::kDataLoss, std::move(m)}; }
inline Status internalError(std::string m) { return {Code::kInternal, std::move(m)}; }

/// A value or the Status that says why there is none. Never holds an ok Status.
template <class T> class [[nodiscard]] Result {
public:
  Result(T value) : value_(std::move(value)) {}
  Result(Status status) : status_(std::move(status)) {
    if (status_.ok())
      status_ = internalError("Result made from an ok Status");
  }
  bool ok() const { return value_.has_value(); }
  const Status &status() const { return status_; }
  T &operator*() & { return *value_; }
  const T &operator*() const & { return *value_; }
  T &&operator*() && { return std::move(*value_); }
  T *operator->() { return &*value_; }
  const T *operator->() const { return &*value_; }

private:
  std::optional<T> value_;
  Status status_;
};

#define G4_RETURN_IF_ERROR(expr)                                                                              \
  do {                                                                                                        \
    if (::g4::Status g4Status_ = (expr); !g4Status_.ok())                                                     \
      return g4Status_;                                                                                       \
  } while (0)
#define G4_CONCAT_(a, b) a##b
#define G4_CONCAT(a, b) G4_CONCAT_(a, b)
/// `G4_ASSIGN_OR_RETURN(auto x, f());`
#define G4_ASSIGN_OR_RETURN(lhs, expr) G4_ASSIGN_OR_RETURN_(lhs, expr, G4_CONCAT(g4Result_, __LINE__))
#define G4_ASSIGN_OR_RETURN_(lhs, expr, tmp)                                                                  \
  auto tmp = (expr);                                                                                          \
  if (!tmp.ok())                                                                                              \
    return tmp.status();                                                                                      \
  lhs = *std::move(tmp)

} // namespace g4
