// Many questions to one engine, answers as they come. usage: streams model.g4m QUESTION QUESTION...
#include <runtime/api/Engine.h>

#include <iostream>
#include <mutex>
#include <thread>

template <class T> static T take(g4::Result<T> result) {
  if (!result.ok()) {
    std::cerr << result.status().message() << "\n";
    std::exit(1);
  }
  return *std::move(result);
}

int main(int argc, char **argv) {
  if (argc < 3) {
    std::cerr << "usage: streams MODEL.g4m QUESTION QUESTION...\n";
    return 2;
  }
  // Eight answers at once share each step; a ninth question would wait.
  auto engine = take(g4::api::Engine::open(argv[1], {.contextTokens = 1024, .maxSequences = 8}));
  std::mutex printing;
  std::vector<std::thread> clients;
  for (int i = 2; i < argc; ++i)
    clients.emplace_back([&, i] { // any thread may submit
      g4::api::ChatRequest question;
      question.messages = {{"user", argv[i]}};
      g4::api::Request request;
      request.ids = take(engine->model().chatPrompt(question));
      request.decode.maxTokens = 128;
      request.decode.sampling = engine->model().defaultSampling();
      request.decode.sampling.seed = uint64_t(i);
      const auto stream = take(engine->submit(std::move(request)));
      std::string answer;
      while (const auto event = stream->next())
        if (const auto *token = std::get_if<g4::api::TokenEvent>(&*event))
          answer += token->text;
        else if (const auto &end = std::get<g4::api::FinishEvent>(*event); !end.status.ok())
          answer += "[" + end.status.message() + "]";
      std::lock_guard lock(printing);
      std::cout << "> " << argv[i] << "\n" << answer << "\n\n";
    });
  for (std::thread &client : clients)
    client.join();
}
