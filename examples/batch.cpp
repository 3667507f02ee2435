// Many questions at once, one step for all of them. usage: batch model.g4m QUESTION QUESTION...
#include <runtime/api/g4.h>

#include <iostream>

template <class T> static T take(g4::Result<T> result) {
  if (!result.ok()) {
    std::cerr << result.status().message() << "\n";
    std::exit(1);
  }
  return *std::move(result);
}

int main(int argc, char **argv) {
  if (argc < 3) {
    std::cerr << "usage: batch MODEL.g4m QUESTION QUESTION...\n";
    return 2;
  }
  // At most eight in one step; the others wait.
  auto model = take(g4::api::Model::open(argv[1], {.contextTokens = 1024, .maxSessions = 8}));
  std::vector<std::string> answers(argc - 2);
  std::vector<g4::api::BatchRequest> requests(answers.size());
  for (size_t i = 0; i < requests.size(); ++i) {
    g4::api::ChatRequest question;
    question.messages = {{"user", argv[2 + i]}};
    requests[i].ids = take(model->chatPrompt(question));
    requests[i].generate.maxTokens = 128;
    requests[i].generate.sampling.temperature = 0; // greedy
    requests[i].generate.onText = [&answer = answers[i]](std::string_view text) {
      answer += text;
      return true;
    };
  }
  g4::Status status = g4::api::generateBatch(*model, requests, [&](size_t i, g4::Result<g4::api::Generation> done) {
    std::cout << "> " << argv[2 + i] << "\n" << (done.ok() ? answers[i] : done.status().message()) << "\n\n";
  });
  if (!status.ok())
    take(g4::Result<int>(status));
}
