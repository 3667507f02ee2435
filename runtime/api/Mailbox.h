/// What callers and the engine's thread say to each other. Not public.
#pragma once

#include "runtime/api/Engine.h"
#include "runtime/sched/Scheduler.h"

#include <condition_variable>
#include <deque>
#include <mutex>

namespace g4::api {

/// A stream's events, and how many of its answers have not ended.
struct Stream::State {
  mutable std::mutex mutex;
  std::condition_variable changed;
  std::deque<Event> events;
  uint32_t unfinished = 0;
  std::function<void()> onReady;
  std::function<void()> cancel; ///< asks the engine; does nothing where there is none any more

  void push(Event event) {
    const bool ends = std::holds_alternative<FinishEvent>(event);
    std::function<void()> tell;
    {
      std::lock_guard lock(mutex);
      if (events.empty())
        tell = onReady;
      events.push_back(std::move(event));
      unfinished -= ends;
    }
    changed.notify_all();
    if (tell)
      tell();
  }
};

/// One answer on its way to the scheduler, or the wish to end all of a stream.
struct Command {
  std::optional<sched::AnswerRequest> submit = {};
  std::shared_ptr<Stream::State> stream = {};
};

struct Mailbox {
  std::mutex mutex;
  std::condition_variable filled, idle;
  std::vector<Command> commands;
  uint32_t unfinished = 0; ///< answers taken in and not ended
  bool draining = false, stopping = false;
};

} // namespace g4::api
