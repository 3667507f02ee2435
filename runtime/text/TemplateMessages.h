/// From the messages that clients send (OpenAI's form) to the messages that Gemma 4's templates read.
#pragma once

#include "runtime/base/Status.h"
#include "runtime/text/ChatTemplate.h"

namespace g4::text {

/// What becomes of `role: tool` messages.
enum class ToolResults {
  kInsideCalls, ///< they move into the assistant message that made the calls
  kOwnMessages, ///< they stay: the template reads them itself (ChatTemplate::readsToolMessages)
};

/// Converts a list of messages:
///  - with kInsideCalls, the results of tools (`role: tool`) go into the assistant message that made the
///  calls, as `tool_responses` in the
///    order in which they came, named after the call with their `tool_call_id`, else after their own `name`.
///    A result that is the text of a JSON object becomes that object; anything else stays text;
///  - the arguments of calls become objects where they are the text of one;
///  - `image_url`, `input_audio` and `video_url` parts become `image`, `audio` and `video`;
///  - texts in a list of parts become parts of type `text`;
///  - `reasoning` and `reasoning_content` given as a list of texts are joined; null ones are dropped.
/// What it does not know passes unchanged. Already converted messages stay as they are.
/// Errors: kInvalidArgument naming the message, counted from 1 (a tool result without a call before it, a
/// call without a function name).
Result<Json> toTemplateMessages(const Json &messages, ToolResults results = ToolResults::kInsideCalls);

/// Refuses what is no conversation: {"messages": [...], "tools": [...], "enable_thinking": ...}, the last two
/// if need be, each message an object of a known role. Refuses too what a model that reads only text would
/// not see: a part of the list `content` that is neither a text nor of type `text`, or a `content` that is no
/// text at all. Errors: kInvalidArgument naming the message and the part, both counted from 1. For messages
/// in either form; what is wrong with calls toTemplateMessages says.
Status checkConversation(const Json &conversation);

} // namespace g4::text
