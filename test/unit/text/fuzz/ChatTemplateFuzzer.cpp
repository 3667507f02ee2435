// Compiles the input as a template and renders it under tight limits.
#include "runtime/text/ChatTemplate.h"

#include <nlohmann/json.hpp>

using namespace g4::text;

extern "C" int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
  auto chatTemplate = ChatTemplate::compile({reinterpret_cast<const char *>(data), size});
  if (!chatTemplate.ok())
    return 0;
  ChatTemplate::Limits limits;
  limits.time = std::chrono::milliseconds(200);
  limits.totalBytes = 16 << 20;
  limits.items = 4096;
  static const Json messages = Json::parse(R"([{"role":"user","content":"hi"},
    {"role":"assistant","content":[{"type":"text","text":"x"}],"tool_calls":[{"function":{"name":"f","arguments":{"a":1.5}}}]}])");
  (void)chatTemplate->render(messages, nullptr, {{"enable_thinking", true}}, limits);
  return 0;
}
