#include "compiler/quants/Recipe.h"

#include "compiler/quants/Quantize.h"
#include "runtime/base/Guard.h"
#include "runtime/base/Text.h"

#include <algorithm>
#include <cctype>
#include <charconv>
#include <memory>
#include <vector>

#include <regex.h>

namespace g4::quants {
namespace {

using gguf::Type;

const gguf::TypeInfo &infoOf(Type type) { return *gguf::typeInfo(static_cast<uint32_t>(type)); }
bool isFloat(Type type) { return type == Type::kF32 || type == Type::kF16 || type == Type::kBF16; }
double bitsOf(Type type) { return 8.0 * infoOf(type).blockBytes / infoOf(type).blockElements; }

std::string lowered(std::string_view text) {
  std::string out(text);
  std::transform(out.begin(), out.end(), out.begin(), [](unsigned char c) { return std::tolower(c); });
  return out;
}

/// Takes the next word off `line`.
std::string_view word(std::string_view &line) {
  constexpr std::string_view kBlank = " \t\r";
  line.remove_prefix(std::min(line.find_first_not_of(kBlank), line.size()));
  std::string_view found = line.substr(0, line.find_first_of(kBlank));
  line.remove_prefix(found.size());
  return found;
}

/// A POSIX extended regular expression. Not std::regex: its depth of recursion and its time grow with the pattern until it crashes.
class Pattern {
public:
  // Long enough for any list of names, and short of what nests too deeply for the C library.
  static constexpr size_t kLongest = 1000;

  /// Empty when `text` parses, else what is wrong with it.
  std::string parse(const std::string &text) {
    if (text.size() > kLongest)
      return "longer than " + std::to_string(kLongest) + " characters";
    auto parsed = std::make_unique<regex_t>();
    if (int error = regcomp(parsed.get(), text.c_str(), REG_EXTENDED | REG_NOSUB)) {
      char message[200];
      regerror(error, parsed.get(), message, sizeof(message));
      return message;
    }
    regex_.reset(parsed.release());
    return {};
  }
  bool isIn(const std::string &name) const { return regexec(regex_.get(), name.c_str(), 0, nullptr, 0) == 0; }

private:
  struct Free {
    void operator()(regex_t *regex) const {
      regfree(regex);
      delete regex;
    }
  };
  std::unique_ptr<regex_t, Free> regex_;
};

struct Rule {
  int line;
  std::string pattern;
  Pattern regex;
  std::optional<Type> type; ///< nothing: keep
  int matched = 0, used = 0;
};

/// What stands in for a type of 256 columns a block where rows are no multiple of that.
std::optional<Type> fallback(Type type) {
  switch (type) {
  case Type::kQ4_K: return Type::kQ5_0;
  case Type::kQ5_K: return Type::kQ5_1;
  case Type::kQ6_K: return Type::kQ8_0;
  default: return std::nullopt;
  }
}

std::optional<Type> fitting(Type type, uint64_t columns) {
  if (columns % infoOf(type).blockElements == 0)
    return type;
  std::optional<Type> smaller = fallback(type);
  return smaller && columns % infoOf(*smaller).blockElements == 0 ? smaller : std::nullopt;
}

/// The layers whose value and down projections get more bits: the first and last eighth, and every third between.
bool isSensitive(int layer, int layers) {
  int eighth = layers / 8;
  return layer < eighth || layer >= 7 * layers / 8 || (layer - eighth) % 3 == 2;
}

/// "blk.3.attn_q.weight" is attn_q of layer 3; "token_embd.weight" is token_embd of none (-1).
struct Role {
  std::string_view kind;
  int layer = -1;
};
Role roleOf(std::string_view name) {
  constexpr std::string_view kBlock = "blk.", kSuffix = ".weight";
  Role role;
  if (name.ends_with(kSuffix))
    name.remove_suffix(kSuffix.size());
  if (name.starts_with(kBlock)) {
    name.remove_prefix(kBlock.size());
    auto [end, error] = std::from_chars(name.data(), name.data() + name.size(), role.layer);
    if (error == std::errc() && end != name.data() + name.size() && *end == '.')
      name.remove_prefix(static_cast<size_t>(end - name.data()) + 1);
  }
  role.kind = name;
  return role;
}

/// The type of --quantize=base for a weight of this role, whatever its rows and its source; nothing: as stored.
std::optional<Type> defaultFor(Type base, const WeightFacts &weight, int layers) {
  auto [kind, layer] = roleOf(weight.name);
  if (kind == "ffn_gate_inp")
    return std::nullopt; // the router: a rounding error there chooses other experts
  if (isFloat(base))
    return base;
  if (kind == "per_layer_model_proj")
    return std::nullopt; // makes the inputs of every layer
  if (kind == "token_embd" || kind == "output" || kind == "per_layer_token_embd")
    return base == Type::kQ8_0 || base == Type::kMXFP4 ? Type::kQ8_0 : Type::kQ6_K;
  if (kind == "inp_gate" || kind == "proj")
    return Type::kQ8_0; // what a layer makes of its input: small, and after it nothing repairs an error
  if (base == Type::kMXFP4) // a format for MLPs
    return kind.starts_with("ffn_") ? base : Type::kQ8_0;
  if ((base == Type::kQ4_K || base == Type::kQ5_K) && isSensitive(layer, layers) &&
      (weight.isValue || kind == "ffn_down" || kind == "ffn_down_exps"))
    return Type::kQ6_K;
  return base;
}

} // namespace

std::optional<Type> typeNamed(std::string_view name) {
  const gguf::TypeInfo *info = gguf::typeInfoByName(lowered(name));
  return info && canQuantize(info->type) ? std::optional(info->type) : std::nullopt;
}

std::string typeNames() {
  std::string names;
  for (Type type : quantizableTypes())
    names += (names.empty() ? "" : ", ") + std::string(infoOf(type).name);
  return names;
}

struct Recipe::Impl {
  std::optional<Type> base;
  std::vector<Rule> rules;
  std::string rulesName;
  int layers = 0;

  std::string at(const Rule &rule) const { return rulesName + ":" + std::to_string(rule.line) + ": "; }

  Status parse(std::string_view text) {
    if (text.starts_with("\xef\xbb\xbf")) // a byte order mark
      text.remove_prefix(3);
    for (int line = 1; !text.empty(); ++line) {
      std::string_view rest = text.substr(0, text.find('\n'));
      text.remove_prefix(std::min(rest.size() + 1, text.size()));
      rest = rest.substr(0, rest.find('#'));
      std::string_view pattern = word(rest), type = word(rest), more = word(rest);
      if (pattern.empty())
        continue;
      Rule rule{line, std::string(pattern), {}, {}};
      if (type.empty() || !more.empty())
        return invalidArgument(at(rule) + "expected a pattern and a type");
      if (lowered(type) != "keep") {
        rule.type = typeNamed(type);
        if (!rule.type)
          return invalidArgument(at(rule) + quotedName(type) + " is no type to quantise to: keep, " + typeNames());
      }
      if (std::string wrong = rule.regex.parse(rule.pattern); !wrong.empty())
        return invalidArgument(at(rule) + quotedName(pattern.substr(0, 100)) + " is no regular expression: " + wrong);
      rules.push_back(std::move(rule));
    }
    return {};
  }
};

Recipe::Recipe(std::unique_ptr<Impl> impl) : impl_(std::move(impl)) {}
Recipe::Recipe(Recipe &&) noexcept = default;
Recipe &Recipe::operator=(Recipe &&) noexcept = default;
Recipe::~Recipe() = default;

Result<Recipe> Recipe::make(std::optional<Type> base, std::string_view rules, std::string_view rulesName, int layers) {
  return guarded([&]() -> Result<Recipe> {
    auto impl = std::make_unique<Impl>();
    impl->base = base;
    impl->rulesName = rulesName;
    impl->layers = layers;
    G4_RETURN_IF_ERROR(impl->parse(rules));
    if (impl->rules.empty() && !rulesName.empty())
      return invalidArgument(quotedPath(rulesName) + " holds no rule");
    return Recipe(std::move(impl));
  });
}

Result<Type> Recipe::typeOf(const WeightFacts &weight) {
  return guarded([&]() -> Result<Type> {
    Rule *decided = nullptr;
    for (Rule &rule : impl_->rules) {
      if (!rule.regex.isIn(std::string(weight.name)))
        continue;
      ++rule.matched;
      if (decided)
        continue;
      decided = &rule;
      ++rule.used;
    }
    if (decided) {
      Type wanted = decided->type.value_or(weight.stored);
      if (std::optional<Type> type = wanted == weight.stored ? wanted : fitting(wanted, weight.columns))
        return *type;
      return invalidArgument(impl_->at(*decided) + quotedName(weight.name) + " has rows of " +
                             std::to_string(weight.columns) + ", which are no multiple of " + infoOf(wanted).name +
                             "'s block of " + std::to_string(infoOf(wanted).blockElements));
    }
    std::optional<Type> wanted = impl_->base ? defaultFor(*impl_->base, weight, impl_->layers) : std::nullopt;
    if (!wanted)
      return weight.stored;
    // More bits than the source has would hold nothing more: only the type that was asked for may have them.
    if (*wanted != *impl_->base && bitsOf(*wanted) > bitsOf(weight.stored))
      wanted = bitsOf(weight.stored) >= bitsOf(*impl_->base) ? weight.stored : *impl_->base;
    return fitting(*wanted, weight.columns).value_or(weight.stored);
  });
}

Status Recipe::checkUsed() const {
  for (const Rule &rule : impl_->rules)
    if (!rule.used)
      return invalidArgument(impl_->at(rule) + (rule.matched ? "earlier rules take every matrix that matches "
                                                             : "no matrix of the model matches ") +
                             quotedName(rule.pattern));
  return {};
}

} // namespace g4::quants
