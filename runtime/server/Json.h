/// JSON from clients, which is not trusted, and to them.
#pragma once

#include "runtime/server/Failure.h"

#include <nlohmann/json.hpp>

#include <cstddef>
#include <string_view>

namespace g4::server {

/// Keeps the order of members, which chat templates can see.
using Json = nlohmann::ordered_json;

/// What no request needs more of. Members are looked up one after another, so their number bounds the time.
struct JsonLimits {
  size_t depth = 64;
  size_t objectMembers = 2048; ///< of one object
  size_t members = 1 << 17;    ///< of all objects together
};

/// An object. Failures: 400.
Parsed<Json> parseJson(std::string_view text, const JsonLimits &limits = {});

/// On one line; bytes that are no UTF-8 become U+FFFD.
std::string dump(const Json &json);

} // namespace g4::server
