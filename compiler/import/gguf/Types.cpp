#include "compiler/import/gguf/Gguf.h"

namespace g4::gguf {
namespace {

// Block shapes: ggml-common.h and ggml.c's type_traits; gguf-py's GGML_QUANT_SIZES says the same.
constexpr TypeInfo kTypes[] = {
    {Type::kF32, "f32", 1, 4},
    {Type::kF16, "f16", 1, 2},
    {Type::kQ4_0, "q4_0", 32, 18},
    {Type::kQ4_1, "q4_1", 32, 20},
    {Type::kQ5_0, "q5_0", 32, 22},
    {Type::kQ5_1, "q5_1", 32, 24},
    {Type::kQ8_0, "q8_0", 32, 34},
    {Type::kQ2_K, "q2_k", 256, 84},
    {Type::kQ3_K, "q3_k", 256, 110},
    {Type::kQ4_K, "q4_k", 256, 144},
    {Type::kQ5_K, "q5_k", 256, 176},
    {Type::kQ6_K, "q6_k", 256, 210},
    {Type::kIQ2_XXS, "iq2_xxs", 256, 66},
    {Type::kIQ2_XS, "iq2_xs", 256, 74},
    {Type::kIQ3_XXS, "iq3_xxs", 256, 98},
    {Type::kIQ1_S, "iq1_s", 256, 50},
    {Type::kIQ4_NL, "iq4_nl", 32, 18},
    {Type::kIQ3_S, "iq3_s", 256, 110},
    {Type::kIQ2_S, "iq2_s", 256, 82},
    {Type::kIQ4_XS, "iq4_xs", 256, 136},
    {Type::kI8, "i8", 1, 1},
    {Type::kI16, "i16", 1, 2},
    {Type::kI32, "i32", 1, 4},
    {Type::kI64, "i64", 1, 8},
    {Type::kF64, "f64", 1, 8},
    {Type::kIQ1_M, "iq1_m", 256, 56},
    {Type::kBF16, "bf16", 1, 2},
    {Type::kTQ1_0, "tq1_0", 256, 54},
    {Type::kTQ2_0, "tq2_0", 256, 66},
    {Type::kMXFP4, "mxfp4", 32, 17},
    {Type::kNVFP4, "nvfp4", 64, 36},
    {Type::kQ1_0, "q1_0", 128, 18},
    {Type::kQ2_0, "q2_0", 64, 18},
};

} // namespace

const TypeInfo *typeInfo(uint32_t ggmlType) {
  for (const TypeInfo &info : kTypes)
    if (static_cast<uint32_t>(info.type) == ggmlType)
      return &info;
  return nullptr;
}

const TypeInfo *typeInfoByName(std::string_view name) {
  for (const TypeInfo &info : kTypes)
    if (name == info.name)
      return &info;
  return nullptr;
}

} // namespace g4::gguf
