#include "runtime/api/Decoder.h"
#include "runtime/base/Guard.h"

#include <algorithm>

namespace g4::api {
namespace {

/// A request that is being worked on.
struct Slot {
  size_t index; ///< of the request
  kv::SeqId seq;
  std::vector<int32_t> history; ///< the prompt and what was generated
  size_t fed = 0;               ///< ids of it in the K/V
  Decoder decoder;
  std::optional<size_t> logitRow; ///< in the present step
};

class Batch {
public:
  Batch(Model::Impl &model, std::span<const BatchRequest> requests,
        const std::function<void(size_t, Result<Generation>)> &onDone)
      : model_(model), engine_(*model.engine), requests_(requests), onDone_(onDone) {}
  ~Batch() {
    for (Slot &slot : slots_)
      close(slot);
  }

  Status run(const std::function<bool()> &goOn) {
    for (;;) {
      admit();
      if (slots_.empty())
        return {};
      if (goOn && !goOn())
        return {Code::kCancelled, "cancelled"};
      G4_RETURN_IF_ERROR(step());
    }
  }

private:
  void close(Slot &slot) {
    (void)engine_.closeSequence(slot.seq); // it is open, so this cannot fail
    --model_.openSessions;
  }

  void admit() {
    for (; next_ < requests_.size() && model_.openSessions < model_.maxSessions; ++next_) {
      const BatchRequest &request = requests_[next_];
      const uint32_t context = engine_.limits().contextTokens;
      if (request.ids.empty() || request.ids.size() > context) {
        onDone_(next_, request.ids.empty()
                           ? invalidArgument("an empty prompt")
                           : invalidArgument("a prompt of " + std::to_string(request.ids.size()) +
                                             " tokens, but the context is " + std::to_string(context)));
        continue;
      }
      auto decoder = Decoder::create(model_, request.generate);
      if (!decoder.ok() || decoder->done()) {
        onDone_(next_, decoder.ok() ? Result<Generation>(decoder->finish()) : decoder.status());
        continue;
      }
      ++model_.openSessions;
      slots_.push_back({next_, engine_.openSequence(), request.ids, 0, *std::move(decoder), {}});
    }
  }

  /// Rows of one step: every sequence's new token, then prompts, in order of admission.
  void collect() {
    const engine::EngineLimits &limits = engine_.limits();
    tokens_.clear(), sequences_.clear(), positions_.clear(), logitRows_.clear();
    const size_t mostLogits = std::min(limits.logitRows, limits.tailRows);
    for (const bool prompts : {false, true})
      for (Slot &slot : slots_) {
        const size_t left = slot.history.size() - slot.fed;
        if ((left > 1) != prompts)
          continue;
        slot.logitRow.reset();
        size_t rows = std::min<size_t>(left, limits.rows - tokens_.size());
        if (rows == left && logitRows_.size() == mostLogits)
          --rows; // its result finds no place in this step
        for (size_t i = 0; i < rows; ++i) {
          tokens_.push_back(slot.history[slot.fed]);
          sequences_.push_back(slot.seq);
          positions_.push_back(uint32_t(slot.fed++));
        }
        if (rows > 0 && rows == left) {
          slot.logitRow = logitRows_.size();
          logitRows_.push_back(uint32_t(tokens_.size() - 1));
        }
      }
  }

  Status step() {
    collect();
    engine::Step step;
    step.tokens = tokens_;
    step.sequences = sequences_;
    step.positions = positions_;
    step.tailRows = step.logitRows = logitRows_;
    G4_ASSIGN_OR_RETURN(const engine::StepOutput output, engine_.run(step));
    const size_t vocabulary = engine_.limits().vocabulary;
    for (Slot &slot : slots_) {
      if (!slot.logitRow)
        continue;
      const text::LogitRow row = logitRow(output, *slot.logitRow, vocabulary);
      if (Status status = slot.decoder.next(row, slot.history); !status.ok()) {
        slot.decoder.end(Finish::kCancelled);
        finish(slot, status);
      } else {
        if (!slot.decoder.done() && slot.fed >= engine_.limits().contextTokens)
          slot.decoder.end(Finish::kContext);
        if (slot.decoder.done())
          finish(slot, slot.decoder.finish());
      }
    }
    std::erase_if(slots_, [](const Slot &slot) { return slot.decoder.done(); });
    return {};
  }

  void finish(Slot &slot, Result<Generation> result) {
    close(slot);
    onDone_(slot.index, std::move(result));
  }

  Model::Impl &model_;
  engine::Engine &engine_;
  std::span<const BatchRequest> requests_;
  const std::function<void(size_t, Result<Generation>)> &onDone_;
  size_t next_ = 0;
  std::vector<Slot> slots_;
  std::vector<int32_t> tokens_;
  std::vector<kv::SeqId> sequences_;
  std::vector<uint32_t> positions_, logitRows_;
};

} // namespace

Status generateBatch(Model &model, std::span<const BatchRequest> requests,
                     const std::function<void(size_t, Result<Generation>)> &onDone,
                     const std::function<bool()> &goOn) {
  return guarded([&]() -> Status {
    if (model.impl().openSessions > 0)
      return resourceExhausted("sessions of the model are open");
    return Batch(model.impl(), requests, onDone).run(goOn);
  });
}

} // namespace g4::api
