#include "runtime/server/Json.h"

#include <gtest/gtest.h>

namespace g4::server {
namespace {

std::string faultOf(const Parsed<Json> &parsed) {
  const auto *failure = std::get_if<Failure>(&parsed);
  return failure ? failure->message : "";
}

std::string members(size_t count) {
  std::string out = "{";
  for (size_t i = 0; i < count; ++i)
    out += (i ? ",\"" : "\"") + std::to_string(i) + "\":0";
  return out + '}';
}

TEST(JsonTest, TakesObjectsOnly) {
  EXPECT_EQ(faultOf(parseJson(R"({"a": [1, "}]{[", "\"{"]})")), "");
  EXPECT_EQ(faultOf(parseJson("[]")), "the body is no JSON object");
  for (const char *bad :
       {"", "{", "{\"a\":1,}", "{} {}", "{\"a\":NaN}", "{\"a\":1e999}", "{\"a\":\"\xff\"}", "}"})
    EXPECT_EQ(faultOf(parseJson(bad)), "the body is not valid JSON") << bad;
}

TEST(JsonTest, BoundsDepth) {
  const auto nested = [](size_t depth) {
    return "{\"a\":" + std::string(depth - 1, '[') + std::string(depth - 1, ']') + '}';
  };
  EXPECT_EQ(faultOf(parseJson(nested(64))), "");
  EXPECT_EQ(faultOf(parseJson(nested(65))), "the body is nested more than 64 levels deep");
  EXPECT_EQ(faultOf(parseJson(std::string(1 << 20, '['))), "the body is nested more than 64 levels deep");
  EXPECT_EQ(faultOf(parseJson("{\"a\":\"" + std::string(1000, '[') + "\"}")), "") << "brackets in a text";
}

TEST(JsonTest, BoundsMembers) {
  EXPECT_EQ(faultOf(parseJson(members(2048))), "");
  EXPECT_EQ(faultOf(parseJson(members(2049))), "the body has an object of more than 2048 members");
  std::string list = "{\"a\":[";
  for (int i = 0; i < 10; ++i)
    list += (i ? "," : "") + members(10);
  EXPECT_EQ(faultOf(parseJson(list + "]}", {.members = 101})), "");
  EXPECT_EQ(faultOf(parseJson(list + "]}", {.members = 100})),
            "the body has more than 100 members of objects");
}

TEST(JsonTest, ErrorsInOpenAisForm) {
  const Json json = Json::parse(failureJson({404, "no \xff", "model", "model_not_found"}));
  EXPECT_EQ(
      json.dump(),
      R"({"error":{"message":"no �","type":"invalid_request_error","param":"model","code":"model_not_found"}})");
  EXPECT_EQ(Json::parse(failureJson({503, "x", {}, {}})).dump(),
            R"({"error":{"message":"x","type":"server_error","param":null,"code":null}})");
}

TEST(JsonTest, StatusToHttp) {
  EXPECT_EQ(failureOf(invalidArgument("x"), "prompt").status, 400U);
  EXPECT_EQ(failureOf(invalidArgument("x"), "prompt").param, "prompt");
  EXPECT_EQ(failureOf(resourceExhausted("x")).status, 503U);
  EXPECT_EQ(failureOf(internalError("x")).status, 500U);
}

} // namespace
} // namespace g4::server
