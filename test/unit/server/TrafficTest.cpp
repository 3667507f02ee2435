#include "runtime/server/Traffic.h"

#include <gtest/gtest.h>

namespace g4::server {
namespace {

TEST(TrafficTest, TextFormat) {
  api::EngineStats stats{};
  stats.running = 3;
  stats.pages = {10, 20};
  stats.stepSeconds = 1.5;
  stats.stepCounts[0] = 4;
  stats.stepCounts[2] = 1;
  stats.stepCounts.back() = 2;
  Traffic traffic;
  traffic.replies[{"/health", 200}] = 9;
  const std::string text = metricsText(stats, traffic);
  for (const char *line :
       {"# HELP g4_answers_running Answers that the model works on\n# TYPE g4_answers_running "
        "gauge\ng4_answers_running 3\n",
        "# TYPE g4_step_seconds histogram\ng4_step_seconds_bucket{le=\"0.005\"} 4\n",
        "g4_step_seconds_bucket{le=\"0.02\"} 5\n",
        "g4_step_seconds_bucket{le=\"+Inf\"} 7\ng4_step_seconds_sum 1.5\ng4_step_seconds_count 7\n",
        "g4_kv_pages{layers=\"sliding\"} 10\ng4_kv_pages{layers=\"global\"} 20\n",
        "g4_http_replies_total{path=\"/health\",code=\"200\"} 9\n"})
    EXPECT_NE(text.find(line), std::string::npos) << line << "in\n" << text;
}

} // namespace
} // namespace g4::server
