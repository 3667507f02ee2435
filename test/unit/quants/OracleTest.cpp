// Every format against the values that gguf-py gives for the same blocks (test/data/formats).
#include "compiler/quants/Dequantize.h"
#include "compiler/quants/Grids.h"

#include <gtest/gtest.h>

#include <bit>
#include <set>
#include <vector>

namespace g4::quants {
namespace {

/// The first place where the two are not the same float, bit for bit.
std::optional<size_t> firstDifference(std::span<const float> a, std::span<const float> b) {
  for (size_t i = 0; i < std::min(a.size(), b.size()); ++i)
    if (std::bit_cast<uint32_t>(a[i]) != std::bit_cast<uint32_t>(b[i]))
      return i;
  return a.size() == b.size() ? std::nullopt : std::optional(std::min(a.size(), b.size()));
}

class Oracle : public testing::Test {
protected:
  void SetUp() override {
    auto opened = gguf::File::open(G4_TEST_DATA "/formats/formats.gguf", {});
    ASSERT_TRUE(opened.ok()) << opened.status().message();
    file = *std::move(opened);
  }
  std::vector<float> values(const std::string &type) const {
    const gguf::Tensor *tensor = file->findTensor(type + ".values");
    if (!tensor)
      return {};
    std::vector<float> out(tensor->rows() * tensor->columns());
    EXPECT_TRUE(dequantize(gguf::Type::kF32, file->data(*tensor), out));
    return out;
  }
  std::unique_ptr<gguf::File> file;
};

TEST_F(Oracle, EveryTypeHasTheValuesOfTheReferenceBitForBit) {
  std::set<uint32_t> tested;
  for (const gguf::Tensor &tensor : file->tensors()) {
    if (!tensor.name.ends_with(".blocks"))
      continue;
    const std::string name = tensor.name.substr(0, tensor.name.find('.'));
    const gguf::TypeInfo *info = gguf::typeInfo(tensor.ggmlType);
    ASSERT_TRUE(info && info->name == name) << tensor.name;
    std::vector<float> got(tensor.rows() * tensor.columns());
    ASSERT_TRUE(dequantize(info->type, file->data(tensor), got)) << name;
    const std::vector<float> want = values(name);
    const auto at = firstDifference(got, want);
    EXPECT_FALSE(at) << name << ": element " << *at << " of block " << *at / info->blockElements;
    tested.insert(tensor.ggmlType);
  }
  for (uint32_t type = 0; type < 64; ++type)
    EXPECT_EQ(gguf::typeInfo(type) && canDequantize(gguf::Type(type)), tested.contains(type)) << type;
  EXPECT_EQ(tested.size(), 28u);
}

TEST_F(Oracle, OneFlippedBitIsADifference) {
  const std::vector<float> want = values("q6_k");
  ASSERT_GT(want.size(), 1000u);
  std::vector<float> other = want;
  EXPECT_FALSE(firstDifference(want, other));
  other[777] = std::bit_cast<float>(std::bit_cast<uint32_t>(other[777]) ^ 1);
  EXPECT_EQ(firstDifference(want, other), 777u);
  EXPECT_EQ(firstDifference(want, std::span(want).first(9)), 9u);
  EXPECT_TRUE(firstDifference(std::vector{0.0f}, std::vector{-0.0f}));
}

TEST(Grids, NoPointOccursTwice) {
  for (const char *name : {"iq1_s", "iq1_m", "iq2_xxs", "iq2_xs", "iq2_s", "iq3_xxs", "iq3_s"}) {
    const Grid *grid = gridOf(gguf::typeInfoByName(name)->type);
    ASSERT_TRUE(grid) << name;
    std::set<std::vector<int>> points;
    for (size_t p = 0; p < grid->points.size(); ++p) {
      std::vector<int> point;
      for (unsigned j = 0; j < grid->length; ++j)
        point.push_back(grid->value(p, j));
      points.insert(point);
    }
    EXPECT_EQ(points.size(), grid->points.size()) << name;
  }
  EXPECT_FALSE(gridOf(gguf::Type::kIQ4_NL));
}

} // namespace
} // namespace g4::quants
