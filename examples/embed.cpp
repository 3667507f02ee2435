// How alike texts are: the cosine of their mean hidden states. usage: embed model.g4m TEXT TEXT...
#include <runtime/api/g4.h>

#include <cmath>
#include <cstdio>
#include <numeric>

template <class T> static T take(g4::Result<T> result) {
  if (!result.ok()) {
    std::fprintf(stderr, "%s\n", result.status().message().c_str());
    std::exit(1);
  }
  return *std::move(result);
}

static std::vector<double> embed(g4::api::Model &model, const char *text) {
  auto session = take(model.newSession());
  auto ids = take(model.tokenize(text));
  std::vector<double> sum(model.hiddenSize());
  g4::api::FeedRequest request{.ids = ids, .want = g4::api::Want::kAll};
  request.onHidden = [&](std::span<const float> rows) { // [rows, hidden size]
    for (size_t i = 0; i < rows.size(); ++i)
      sum[i % sum.size()] += rows[i];
    return g4::Status();
  };
  if (g4::Status status = session->feed(request); !status.ok())
    take(g4::Result<int>(status));
  return sum;
}

int main(int argc, char **argv) {
  auto model = take(argc < 4 ? g4::invalidArgument("usage: embed MODEL.g4m TEXT TEXT...") : g4::api::Model::open(argv[1], {}));
  auto dot = [](const auto &x, const auto &y) { return std::inner_product(x.begin(), x.end(), y.begin(), 0.0); };
  auto first = embed(*model, argv[2]);
  for (int i = 3; i < argc; ++i) {
    auto other = embed(*model, argv[i]);
    std::printf("%.4f  %s\n", dot(first, other) / std::sqrt(dot(first, first) * dot(other, other)), argv[i]);
  }
}
