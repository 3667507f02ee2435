// One answer to one question, streamed. usage: generate model.g4m "Why is the sky blue?"
#include <runtime/api/g4.h>

#include <iostream>

// The first failure ends the program with its one line.
static void check(const g4::Status &status) {
  if (status.ok())
    return;
  std::cerr << status.message() << "\n";
  std::exit(1);
}
template <class T> static T take(g4::Result<T> result) {
  check(result.status());
  return *std::move(result);
}

int main(int argc, char **argv) {
  if (argc != 3) {
    std::cerr << "usage: generate MODEL.g4m QUESTION\n";
    return 2;
  }
  auto model = take(g4::api::Model::open(argv[1], {}));
  auto session = take(model->newSession());
  g4::api::ChatRequest question;
  question.messages = {{"user", argv[2]}};
  auto ids = take(model->chatPrompt(question));
  check(session->feed({.ids = ids}));
  g4::api::GenerateRequest request;
  request.maxTokens = 256;
  request.sampling = model->defaultSampling();
  request.sampling.temperature = 0; // greedy
  request.onText = [](std::string_view text) {
    std::cout << text << std::flush;
    return true;
  };
  auto generation = take(session->generate(request));
  std::cout << "\n" << generation.ids.size() << " tokens, " << g4::api::finishText(generation.finish) << "\n";
}
