/// Why a request has no answer, in the form that OpenAI's clients read.
#pragma once

#include "runtime/base/Status.h"

#include <string>
#include <variant>

namespace g4::server {

struct Failure {
  unsigned status = 400; ///< of HTTP
  std::string message;   ///< one line for a person
  std::string param;     ///< the field that is at fault, such as "messages"; empty: none
  std::string code;      ///< for programs, such as "context_length_exceeded"; empty: none
};

template <class T> using Parsed = std::variant<T, Failure>;

inline Failure badField(std::string field, std::string message) {
  return {400, std::move(message), std::move(field), {}};
}

/// 400, 503 for what may go better later, 500 for a bug of ours.
Failure failureOf(const Status &status, std::string field = {});

/// {"error": {"message", "type", "param", "code"}}
std::string failureJson(const Failure &failure);

} // namespace g4::server
