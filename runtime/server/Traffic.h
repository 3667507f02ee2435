/// What the server counts of its own, and all numbers in Prometheus' text format.
#pragma once

#include "runtime/api/Engine.h"

#include <cstdint>
#include <map>
#include <string>
#include <utility>

namespace g4::server {

/// Of the sockets' thread alone.
struct Traffic {
  uint32_t connections = 0; ///< open now
  uint32_t requests = 0;    ///< being answered now
  uint64_t disconnects = 0; ///< clients that left before their answer's end
  std::map<std::pair<std::string, unsigned>, uint64_t> replies; ///< by path and status
};

/// https://prometheus.io/docs/instrumenting/exposition_formats/, version 0.0.4
std::string metricsText(const api::EngineStats &stats, const Traffic &traffic);
inline constexpr const char *kMetricsType = "text/plain; version=0.0.4; charset=utf-8";

} // namespace g4::server
