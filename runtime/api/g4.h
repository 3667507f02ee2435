/// g4 for programs: open an artifact, feed a prompt, generate.
///
///   auto model = g4::api::Model::open("model.g4m", {});
///   auto ids = (*model)->chatPrompt({.messages = {{"user", "Why is the sky blue?"}}});
///   auto session = (*model)->newSession();
///   (*session)->feed({.ids = *ids});
///   g4::api::GenerateRequest request;
///   request.sampling = (*model)->defaultSampling();
///   request.onText = [](std::string_view text) { std::cout << text; return true; };
///   (*session)->generate(request);
///
/// (with each Result checked). Nothing throws; a failure is a Status with one line for a person.
#pragma once

#include "runtime/base/Status.h"
#include "runtime/engine/Tap.h"
#include "runtime/sched/Decoder.h"

#include <cstdint>
#include <functional>
#include <limits>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace g4::api {

using engine::TapView;
using text::Part;
using text::SamplingOptions;

struct ModelOptions {
  unsigned threads = 0;                    ///< 0: one per usable physical core
  std::string variant = {};                ///< code variant by name; empty: the best that runs here
  uint32_t contextTokens = 0;              ///< positions per session; 0: the model's context
  uint32_t maxSessions = 1;                ///< open at the same time
  bool holds = false;                      ///< sessions may hold: Session::hold
  uint64_t kvBytes = 0; ///< most bytes of K/V; 0: as many as maxSessions of contextTokens need
  std::optional<uint64_t> weightSeed = {}; ///< makes weights up; only for an artifact compiled without
};

struct Message {
  std::string role; ///< "system", "user", "assistant", "tool"
  std::string content;
};

/// A conversation for the model's chat template, ending where the model is to answer.
struct ChatRequest {
  std::vector<Message> messages = {};
  bool thinking = false;
  /// Instead of the above: a JSON object {"messages": [...], "tools": [...], "enable_thinking": bool, ...} in
  /// the OpenAI form; all keys but messages may be missing, other keys are the template's own variables.
  std::string json = {};
};

/// Work done by all sessions of a model so far.
struct Counters {
  uint64_t steps, rows, tailRows, logitRows, dispatches, barriers, macs;
};

class Session;

/// A loaded model. Owner of everything its sessions use: it must outlive them.
/// Threads: one at a time, sessions included.
class Model {
public:
  /// Maps the artifact, loads its code and tables. Weights are read when they are used.
  /// Errors: kInvalidArgument (not an artifact), kDataLoss (damaged), kIncompatible (another version, or code
  /// that does not run here), kResourceExhausted.
  static Result<std::unique_ptr<Model>> open(const std::string &path, const ModelOptions &options);
  ~Model();

  const std::string &name() const;
  const std::string &variant() const; ///< of the code in use
  unsigned threads() const;
  uint32_t vocabulary() const;
  uint32_t contextTokens() const;
  uint32_t layers() const;
  uint32_t hiddenSize() const;
  uint32_t expertsUsed() const; ///< 0: no experts
  /// What the model file recommends.
  SamplingOptions defaultSampling() const;
  Counters counters() const;

  /// Ids of a text to be continued, with exactly one BOS in front. Control tokens written out are recognised.
  /// Errors: kInvalidArgument when the artifact has no tokenizer.
  Result<std::vector<int32_t>> tokenize(std::string_view text) const;
  /// The same for text that is only text: "<bos>" in it is five characters.
  Result<std::vector<int32_t>> tokenizePlain(std::string_view text) const;
  /// Ids of a conversation. Errors: as tokenize, and kInvalidArgument for messages that are not text, or with
  /// the template's own words.
  Result<std::vector<int32_t>> chatPrompt(const ChatRequest &request) const;
  /// The model file has no chat template, so chatPrompt writes turns as instruction-tuned Gemma 4 models know
  /// them. Base models do not.
  bool usesBuiltInTemplate() const;
  /// What chatPrompt renders, in Jinja; empty: it cannot.
  std::string_view chatTemplate() const;

  /// Errors: kResourceExhausted when maxSessions are open.
  Result<std::unique_ptr<Session>> newSession();

  struct Impl;
  Impl &impl() { return *impl_; }

private:
  explicit Model(std::unique_ptr<Impl> impl);
  std::unique_ptr<Impl> impl_;
};

/// Which rows of a prompt results are computed for.
enum class Want : uint8_t { kNothing, kLast, kAll };

struct FeedRequest {
  std::span<const int32_t> ids;
  Want want = Want::kLast;
  uint32_t chunk = 0; ///< most rows per step; 0: as many as the program holds
  /// Expert ids in place of the router's choice, [layers, ids, experts used]; empty: the router's.
  std::span<const int32_t> forcedExperts = {};
  /// Logits of the wanted rows, [rows, vocabulary], as they come: ids in order.
  std::function<Status(std::span<const float> logits)> onLogits = nullptr;
  /// Hidden states of the wanted rows after the final norm, [rows, hidden size], as they come.
  std::function<Status(std::span<const float> hidden)> onHidden = nullptr;
  std::function<Status(const TapView &)> onTap = nullptr;
  /// Between steps; false ends with kCancelled.
  std::function<bool(uint32_t done, uint32_t total)> onProgress = nullptr;
};

using sched::Finish;
using sched::finishText;

/// What to generate, and who gets it as it comes. `divide` is set by which receiver there is.
struct GenerateRequest : sched::DecodeOptions {
  /// Whole UTF-8 characters as they become certain; may be empty text, once per token. False ends the
  /// generation.
  std::function<bool(std::string_view text)> onText = nullptr;
  /// The same instead of onText, divided into answer and thoughts, without the marks between them; stop texts
  /// count in the answer.
  std::function<bool(Part part, std::string_view text)> onPart = nullptr;
};

struct Generation {
  std::vector<int32_t> ids; ///< sampled, the stop token included
  Finish finish = Finish::kLength;
};

/// One conversation with its K/V.
class Session {
public:
  ~Session();

  /// Appends ids to the session. Errors: kInvalidArgument (an id outside the vocabulary, more than the
  /// context holds), kResourceExhausted, kCancelled, or what a callback returned.
  Status feed(const FeedRequest &request);

  /// Samples from the logits of the last row fed (with Want::kLast or kAll) and goes on from there.
  /// Errors: kInvalidArgument (an option out of its range; nothing fed), kResourceExhausted.
  Result<Generation> generate(const GenerateRequest &request);

  /// Makes the session hold a prefix of `ids`, shorter than `ids`, that is as long as what it has in common
  /// with them and its K/V allow; returns its length. Feed the rest. Sliding layers keep K/V of their window
  /// only: to go back further than that, hold first. Errors: kInvalidArgument (no ids).
  Result<uint32_t> resume(std::span<const int32_t> ids);
  /// Keeps K/V for a later `resume` at the present length or up to a page (64 positions) further, whatever is
  /// fed and generated until then; ends the last hold. For models opened with `holds`.
  Status hold();

  uint32_t length() const; ///< positions held

  struct Impl;

private:
  friend class Model;
  explicit Session(std::unique_ptr<Impl> impl);
  std::unique_ptr<Impl> impl_;
};

struct BatchRequest {
  std::vector<int32_t> ids;
  GenerateRequest generate;
};

/// Generates for many prompts, with up to maxSessions of them in one step. Results equal those of one prompt
/// at a time. `onDone` gets each result once, in the order in which they come; the failure of one is its own.
/// `goOn` is asked before every step; false ends with kCancelled.
/// Errors: kResourceExhausted (sessions are open), or what a step of the whole batch failed with.
Status generateBatch(Model &model, std::span<const BatchRequest> requests,
                     const std::function<void(size_t index, Result<Generation> result)> &onDone,
                     const std::function<bool()> &goOn = nullptr);

struct Perplexity {
  double value;    ///< exp of the mean negative log-probability
  double error;    ///< standard error of `value`
  uint64_t scored; ///< tokens
  uint32_t windows;
};

/// Perplexity as llama-perplexity counts it: `text` as one list of ids, cut into windows of `window` tokens,
/// the first token of each replaced by BOS, the second half of each scored. `onProgress(done, total)` in
/// windows; false ends with kCancelled. Errors: kInvalidArgument when the text has less than one window.
Result<Perplexity> perplexity(Model &model, std::string_view text, uint32_t window,
                              const std::function<bool(uint32_t, uint32_t, double)> &onProgress = nullptr);

/// How far a model's predictions are from a reference's, over the tokens that perplexity() scores. Errors are
/// standard errors over tokens.
struct Divergence {
  double kl, klError;            ///< mean KL(reference || model), in nats
  double klMedian, kl99, klMost; ///< of the tokens' KL: median, 99th percentile, maximum
  double sameTop, sameTopError;  ///< fraction of tokens where both rank the same token first
  Perplexity model, reference;
  double logRatio, logRatioError; ///< ln(perplexity / reference's), by the differences token by token
};

/// Both models read the text in windows of `window` tokens. Errors: those of perplexity(), and
/// kInvalidArgument when the two models' tokens differ.
Result<Divergence> divergence(Model &model, Model &reference, std::string_view text, uint32_t window,
                              const std::function<bool(uint32_t, uint32_t)> &onProgress = nullptr);

} // namespace g4::api
