/// What one rendering of a template may use up. Templates come from model files, which are not trusted; the
/// template engine (cmake/Jinja.cmake) reports each of its steps here. Internal to runtime/text and the
/// engine.
#pragma once

#include <chrono>
#include <cstdint>
#include <stdexcept>

namespace g4::text {

class RenderBudget {
public:
  struct Limits {
    std::chrono::milliseconds time;
    uint64_t steps;      ///< expressions and statements evaluated
    uint32_t depth;      ///< of evaluations inside one another
    uint64_t bytes;      ///< of any one string, the output included
    uint64_t items;      ///< of any one list
    uint64_t totalBytes; ///< of all intermediate results together, which bounds memory
  };
  struct Exceeded : std::runtime_error {
    using std::runtime_error::runtime_error;
  };

  explicit RenderBudget(const Limits &limits)
      : limits_(limits), deadline_(std::chrono::steady_clock::now() + limits.time) {}

  /// One evaluation, for as long as it lives. Throws Exceeded.
  class Step {
  public:
    explicit Step(RenderBudget *budget) : budget_(budget) {
      if (budget_)
        budget_->enter();
    }
    ~Step() {
      if (budget_)
        --budget_->depth_;
    }
    Step(const Step &) = delete;
    Step &operator=(const Step &) = delete;

  private:
    RenderBudget *budget_;
  };

  void checkBytes(uint64_t bytes) {
    if (bytes > limits_.bytes)
      exceed("makes a text that is too long");
  }
  void checkItems(uint64_t items) {
    if (items > limits_.items)
      exceed("makes a list that is too long");
  }
  /// The result of one evaluation: a string of `bytes`, or a list.
  void account(uint64_t bytes, uint64_t items) {
    checkBytes(bytes);
    checkItems(items);
    constexpr uint64_t kItemBytes = 64; // about what a list or a string spends on an item besides its text
    totalBytes_ += bytes + items * kItemBytes;
    if (totalBytes_ > limits_.totalBytes)
      exceed("uses too much memory");
  }
  /// What was exceeded, or null. The engine rewords exceptions on their way; this stays.
  const char *exceeded() const { return exceeded_; }

private:
  void enter() {
    if (depth_ >= limits_.depth)
      exceed("is nested too deeply");
    if (++steps_ > limits_.steps)
      exceed("takes too many steps");
    if (steps_ % 64 == 0 && std::chrono::steady_clock::now() > deadline_)
      exceed("takes too long");
    ++depth_;
  }
  [[noreturn]] void exceed(const char *what) {
    exceeded_ = what;
    throw Exceeded(what);
  }

  Limits limits_;
  std::chrono::steady_clock::time_point deadline_;
  uint64_t steps_ = 0, totalBytes_ = 0;
  uint32_t depth_ = 0;
  const char *exceeded_ = nullptr;
};

} // namespace g4::text
