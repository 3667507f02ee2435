#include "runtime/text/ChatTemplate.h"

#include "runtime/text/DeepStack.h"
#include "runtime/text/RenderBudget.h"

#include "jinja/lexer.h"
#include "jinja/parser.h"
#include "jinja/runtime.h"

#include <nlohmann/json.hpp>

#include <algorithm>
#include <new>
#include <vector>

namespace g4::text {
namespace {

// Far above any published template (the largest has 20 KB), low enough that parsing stays quick.
constexpr size_t kMaxSourceBytes = 1 << 20;
constexpr int kMaxBlockDepth = 200;   // for, if, macro, ... inside one another; each elif counts
constexpr int kMaxBracketDepth = 200; // in one expression
constexpr int kMaxTagTokens = 4096;   // in one {{ }} or {% %}: bounds chains such as a + a + ...
constexpr int kMaxJsonDepth = 200;

/// One line for a person out of an engine message, which quotes the template over several lines.
std::string oneLine(std::string_view message) {
  std::string where;
  if (size_t at = message.find(" at line "); at != message.npos) {
    const std::string_view rest = message.substr(at + 4);
    where = std::string(rest.substr(0, std::min(rest.find_first_of("\n:"), rest.find(" in source")))) + ": ";
  }
  if (size_t at = message.rfind("Error: "); at != message.npos)
    message.remove_prefix(at + 7);
  std::string out = where;
  for (char c : message.substr(0, 400))
    if (c != '\n' && c != '\r')
      out += c;
    else if (!out.empty() && out.back() != ' ')
      out += ' ';
  while (!out.empty() && out.back() == ' ')
    out.pop_back();
  return out;
}

Status templateError(std::string_view message) {
  return invalidArgument("chat template: " + oneLine(message));
}

/// Counts how deeply a template's blocks and brackets nest, token by token.
class NestingCounter {
public:
  explicit NestingCounter(const std::vector<jinja::token> &tokens) : tokens_(tokens) {}

  /// Refuses what would recurse too deeply in the parser and in the destructors of what it builds.
  Status check() {
    for (size_t i = 0; i < tokens_.size(); ++i) {
      count(i);
      if (blockDepth_ > kMaxBlockDepth || bracketDepth_ > kMaxBracketDepth || ++tagTokens_ > kMaxTagTokens)
        return invalidArgument("chat template: nested too deeply, or a tag too long, near byte " +
                               std::to_string(tokens_[i].pos));
    }
    return {};
  }

private:
  void count(size_t i) {
    switch (tokens_[i].t) {
    case jinja::token::open_statement:
      bracketDepth_ = tagTokens_ = 0;
      countStatement(i + 1);
      break;
    case jinja::token::open_expression:
      bracketDepth_ = tagTokens_ = 0;
      break;
    case jinja::token::open_paren:
    case jinja::token::open_square_bracket:
    case jinja::token::open_curly_bracket:
      ++bracketDepth_;
      break;
    case jinja::token::close_paren:
    case jinja::token::close_square_bracket:
    case jinja::token::close_curly_bracket:
      --bracketDepth_;
      break;
    default:
      break;
    }
  }
  void countStatement(size_t keyword) {
    const std::string word = keyword < tokens_.size() ? tokens_[keyword].value : "";
    if (word == "elif" && !blocks_.empty()) { // an elif is an if inside the else before it
      ++blocks_.back();
      ++blockDepth_;
    } else if (word.starts_with("end") && !blocks_.empty()) {
      blockDepth_ -= blocks_.back();
      blocks_.pop_back();
    } else if (word == "if" || word == "for" || word == "macro" || word == "call" || word == "filter" ||
               word == "generation" || (word == "set" && !hasEquals(keyword))) {
      blocks_.push_back(1);
      ++blockDepth_;
    }
  }
  /// `set x = ...` stands alone; `set x` opens a block.
  bool hasEquals(size_t i) const {
    for (; i < tokens_.size() && tokens_[i].t != jinja::token::close_statement; ++i)
      if (tokens_[i].t == jinja::token::equals)
        return true;
    return false;
  }

  const std::vector<jinja::token> &tokens_;
  std::vector<int> blocks_; ///< how deep each open block is by itself
  int blockDepth_ = 0, bracketDepth_ = 0, tagTokens_ = 0;
};

/// `json` as a value of the engine; null when it nests too deeply.
jinja::value toValue(const Json &json, int depth = 0) {
  if (depth > kMaxJsonDepth)
    throw RenderBudget::Exceeded("is given messages that nest too deeply");
  switch (json.type()) {
  case Json::value_t::boolean:
    return jinja::mk_val<jinja::value_bool>(json.get<bool>());
  case Json::value_t::number_unsigned:
    if (json.get<uint64_t>() > uint64_t(INT64_MAX))
      return jinja::mk_val<jinja::value_float>(json.get<double>());
    [[fallthrough]];
  case Json::value_t::number_integer:
    return jinja::mk_val<jinja::value_int>(json.get<int64_t>());
  case Json::value_t::number_float:
    return jinja::mk_val<jinja::value_float>(json.get<double>());
  case Json::value_t::string:
    return jinja::mk_val<jinja::value_string>(json.get_ref<const std::string &>());
  case Json::value_t::array: {
    auto array = jinja::mk_val<jinja::value_array>();
    for (const Json &item : json)
      array->push_back(toValue(item, depth + 1));
    return array;
  }
  case Json::value_t::object: {
    auto object = jinja::mk_val<jinja::value_object>();
    for (const auto &[key, item] : json.items())
      object->insert(key, toValue(item, depth + 1));
    return object;
  }
  default:
    return jinja::mk_val<jinja::value_none>();
  }
}

/// Runs `work` where it may recurse and throw.
template <class Work> Status guarded(RenderBudget *budget, const Work &work) {
  Status status;
  Status ran = runOnDeepStack([&] {
    try {
      work();
    } catch (const std::bad_alloc &) {
      status = resourceExhausted("chat template: no memory");
    } catch (const std::exception &e) {
      status = templateError(budget && budget->exceeded() ? budget->exceeded() : e.what());
    } catch (...) { // break and continue outside a loop are signals of their own
      status = templateError("break or continue outside a loop");
    }
  });
  return ran.ok() ? status : ran;
}

} // namespace

struct ChatTemplate::Program {
  std::string source;
  jinja::program ast;
};

Result<ChatTemplate> ChatTemplate::compile(std::string_view source) {
  if (source.size() > kMaxSourceBytes)
    return invalidArgument("chat template: it has " + std::to_string(source.size()) +
                           " bytes; 1 MiB is supported");
  auto program = std::make_shared<Program>();
  program->source = source;
  Status nesting;
  G4_RETURN_IF_ERROR(guarded(nullptr, [&] {
    jinja::lexer lexer;
    const jinja::lexer_result tokens = lexer.tokenize(program->source);
    nesting = NestingCounter(tokens.tokens).check();
    if (nesting.ok())
      program->ast = jinja::parse_from_tokens(tokens);
  }));
  G4_RETURN_IF_ERROR(std::move(nesting));
  return ChatTemplate(std::move(program));
}

Result<std::string> ChatTemplate::render(const Json &messages, const Json &tools, const Json &options,
                                         const Limits &limits) const {
  if (!messages.is_array())
    return invalidArgument("chat messages are not a list");
  if (!tools.is_array() && !tools.is_null())
    return invalidArgument("chat tools are not a list");
  if (!options.is_object() && !options.is_null())
    return invalidArgument("chat template options are not an object");
  RenderBudget budget(
      {limits.time, limits.steps, limits.depth, limits.bytes, limits.items, limits.totalBytes});
  std::string prompt;
  G4_RETURN_IF_ERROR(guarded(&budget, [&] {
    jinja::context context(program_->source);
    context.budget = &budget;
    context.set_val("bos_token", jinja::mk_val<jinja::value_string>(std::string("<bos>")));
    context.set_val("messages", toValue(messages));
    context.set_val("tools", toValue(tools));
    for (const auto &[name, value] : options.items())
      context.set_val(name, toValue(value));
    jinja::runtime runtime(context);
    const jinja::value results = runtime.execute(program_->ast);
    uint64_t bytes = 0;
    for (const jinja::value &part : results->as_array())
      budget.checkBytes(bytes += part->val_str.length());
    prompt = jinja::runtime::gather_string_parts(results)->as_string().str();
  }));
  return prompt;
}

bool ChatTemplate::readsToolMessages() const {
  return program_->source.find("tool_call_id") != std::string::npos;
}

} // namespace g4::text
