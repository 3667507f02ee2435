/// What the API's classes hold. Not public.
#pragma once

#include "runtime/api/g4.h"
#include "runtime/engine/Engine.h"
#include "runtime/sched/Decoder.h"

namespace g4::api {

struct Model::Impl {
  std::shared_ptr<const module::Module> module;
  std::unique_ptr<engine::Engine> engine;
  sched::TokenRules rules;
  std::string name;
  uint32_t maxSessions = 1, openSessions = 0;
  bool holds = false;

  const module::fb::Facts &facts() const { return *module->root().facts(); }
  Status needTokenizer() const;
};

/// Gives text to whoever asked for it. False: they want no more.
inline bool pass(const GenerateRequest &request, Part part, std::string_view text) {
  if (request.onPart)
    return request.onPart(part, text);
  return !request.onText || request.onText(text);
}

/// A row of logits that outlives its step.
class KeptRow {
public:
  bool empty() const { return logits_.empty(); }
  void clear() { logits_.clear(); }
  text::LogitRow row() const { return {logits_, maxima_, tile_}; }
  void keep(const text::LogitRow &row) {
    if (row.logits.data() == logits_.data())
      return;
    logits_.assign(row.logits.begin(), row.logits.end());
    maxima_.assign(row.maxima.begin(), row.maxima.end());
    tile_ = row.tile;
  }

private:
  std::vector<float> logits_, maxima_;
  size_t tile_ = 0;
};

struct Session::Impl {
  Model::Impl &model;
  kv::SeqId seq;
  std::vector<int32_t> history;   // all ids, those of the prompt included
  KeptRow logits; // of the last row fed that had any; empty: none yet. Stale while a token is pending
  std::optional<int32_t> pending; // sampled, not yet in the K/V
};

} // namespace g4::api
