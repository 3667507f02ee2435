/// What the API's classes hold. Not public.
#pragma once

#include "runtime/api/g4.h"
#include "runtime/engine/Engine.h"
#include "runtime/text/TokenSets.h"
#include "runtime/text/Tokenizer.h"

namespace g4::api {

struct Model::Impl {
  std::shared_ptr<const module::Module> module;
  std::unique_ptr<engine::Engine> engine;
  std::optional<text::Tokenizer> tokenizer; // none: the artifact holds no tables
  std::vector<int32_t> stopTokens;          // ascending
  std::optional<text::TokenBitmask> sampleable;
  std::string name;
  uint32_t maxSessions = 1, openSessions = 0;
  bool holds = false;

  const module::fb::Facts &facts() const { return *module->root().facts(); }
  Status needTokenizer() const;
};

struct Session::Impl {
  Model::Impl &model;
  kv::SeqId seq;
  std::vector<int32_t> history;   // all ids, those of the prompt included
  std::vector<float> logits;      // [vocabulary] of the last row that had any; empty: none yet
  std::optional<int32_t> pending; // sampled, not yet in the K/V
};

} // namespace g4::api
