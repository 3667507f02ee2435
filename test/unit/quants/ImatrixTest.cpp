#include "compiler/quants/Imatrix.h"

#include "test/support/GgufBuilder.h"

#include <gtest/gtest.h>

#include <cmath>

namespace g4::quants {
namespace {

using test::bytesOf;
using test::GgufBuilder;

std::string floats(std::initializer_list<float> values) {
  std::string bytes;
  for (float v : values)
    bytes += bytesOf(v);
  return bytes;
}

struct File : GgufBuilder {
  explicit File(std::string_view type = "imatrix") {
    addString("general.type", type);
    addString("general.architecture", "x");
  }
  File &tensor(std::string name, std::vector<uint64_t> dims, const std::string &bytes, uint32_t type = 0) {
    addTensor(std::move(name), std::move(dims), type, bytes.size());
    data.replace(data.size() - bytes.size(), bytes.size(), bytes);
    return *this;
  }
  Result<Imatrix> read() {
    bytes_ = build();
    auto file = gguf::File::parse(std::as_bytes(std::span(bytes_)), {});
    EXPECT_TRUE(file.ok()) << file.status().message();
    return Imatrix::parse(**file);
  }
  std::string bytes_;
};

TEST(ImatrixTest, ImportanceIsTheMeanSquareRelativeToItsRow) {
  auto m = File().tensor("w.in_sum2", {4}, floats({2, 4, 6, 0})).tensor("w.counts", {1}, floats({10})).read();
  ASSERT_TRUE(m.ok()) << m.status().message();
  auto row = m->columns("w", 5, 8, 4);
  ASSERT_TRUE(row.ok());
  EXPECT_FLOAT_EQ((*row)[0], 2.0f / 3);
  EXPECT_FLOAT_EQ((*row)[2], 2);
  EXPECT_GT((*row)[3], 0) << "a column the text did not use still counts a little";
  EXPECT_LT((*row)[3], 1e-3f);
  EXPECT_TRUE(m->columns("other", 0, 8, 4)->empty());
  EXPECT_TRUE(m->has("w"));
  EXPECT_FALSE(m->has("other"));
}

TEST(ImatrixTest, ExpertsHaveTheirOwn) {
  auto m = File()
               .tensor("w.in_sum2", {2, 3}, floats({1, 3, 3, 1, 7, 9}))
               .tensor("w.counts", {1, 3}, floats({5, 5, 0}))
               .read();
  ASSERT_TRUE(m.ok()) << m.status().message();
  EXPECT_FLOAT_EQ((*m->columns("w", 3, 12, 2))[0], 0.5f) << "the last row of the first expert";
  EXPECT_FLOAT_EQ((*m->columns("w", 4, 12, 2))[0], 1.5f) << "the first row of the second";
  EXPECT_FLOAT_EQ((*m->columns("w", 11, 12, 2))[0], 1.0f) << "an expert that nothing reached";
}

TEST(ImatrixTest, SizesMustBeTheWeights) {
  auto m = File().tensor("w.in_sum2", {4, 2}, floats({1, 1, 1, 1, 1, 1, 1, 1})).tensor("w.counts", {1, 2}, floats({1, 1})).read();
  ASSERT_TRUE(m.ok());
  EXPECT_EQ(m->columns("w", 0, 8, 5).status().message(),
            "the importance matrix is of another model: it has 4 columns for 'w', which has 5");
  EXPECT_EQ(m->columns("w", 0, 7, 4).status().message(),
            "the importance matrix is of another model: it has 2 experts for 'w', whose 7 rows are not of that many");
}

TEST(ImatrixTest, ZerosAreNoImportance) {
  File some;
  some.tensor("w.in_sum2", {2}, floats({1, 3})).tensor("w.counts", {1}, floats({5}));
  some.tensor("sums.in_sum2", {2}, floats({0, 0})).tensor("sums.counts", {1}, floats({5}));
  some.tensor("counts.in_sum2", {2}, floats({1, 3})).tensor("counts.counts", {1}, floats({0}));
  auto m = some.read();
  ASSERT_TRUE(m.ok()) << m.status().message();
  EXPECT_TRUE(m->has("w"));
  EXPECT_FALSE(m->has("sums") || m->has("counts"));
  EXPECT_EQ(File().tensor("w.in_sum2", {2}, floats({0, 0})).tensor("w.counts", {1}, floats({0})).read().status().message(),
            "the importance matrix is empty: its sums or its counts are all 0");
}

TEST(ImatrixTest, OtherFilesAreRejected) {
  std::string sums = floats({1, 1});
  EXPECT_EQ(File("model").read().status().message(),
            "not an importance matrix: general.type is 'model', expected 'imatrix'");
  EXPECT_EQ(File().tensor("w.in_sum2", {2}, sums).read().status().message(), "tensor 'w.in_sum2' has no 'w.counts'");
  EXPECT_EQ(File().tensor("w.in_sum2", {2}, sums).tensor("w.counts", {2}, sums).read().status().message(),
            "tensor 'w.counts' has 2 counts, expected 1");
  EXPECT_EQ(File().tensor("x", {2}, sums).read().status().message(),
            "the importance matrix has no tensor named *.in_sum2");
  for (float bad : {-1.0f, INFINITY, NAN})
    EXPECT_EQ(File().tensor("w.in_sum2", {2}, floats({1, bad})).tensor("w.counts", {1}, floats({1})).read().status().message(),
              "tensor 'w.in_sum2' holds a value that is negative or not finite");
  EXPECT_EQ(File().tensor("w.in_sum2", {2}, "abcd", 1).tensor("w.counts", {1}, floats({1})).read().status().message(),
            "tensor 'w.in_sum2' is not f32");
}

TEST(ImatrixTest, TheFileIsNamed) {
  EXPECT_NE(Imatrix::open("/nowhere/imatrix.gguf").status().message().find("/nowhere/imatrix.gguf"), std::string::npos);
  EXPECT_EQ(Imatrix::open(G4_MODELS "/gemma4-nano/heldout.txt").status().code(), Code::kInvalidArgument);
}

} // namespace
} // namespace g4::quants
