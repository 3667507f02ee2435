#include "runtime/text/GemmaTemplate.h"

#include <algorithm>
#include <iterator>

namespace g4::text {

// A turn is `<|turn>ROLE\nTEXT<turn|>\n`, the assistant's role is "model". `<|think|>` at the head of the
// system turn asks for thoughts, which stand between `<|channel>` and `<channel|>`; an answer without any
// begins with an empty one.
constexpr std::string_view kGemmaTemplate = R"jinja(
{%- macro text_of(content) -%}
  {%- if content is string -%}
    {{- content | trim -}}
  {%- else -%}
    {%- for part in content or [] -%}{{- part.text | trim -}}{%- endfor -%}
  {%- endif -%}
{%- endmacro -%}

{%- macro without_thoughts(text) -%}
  {%- set pieces = text.split('<|channel>') -%}
  {{- pieces[0].replace('<channel|>', '') -}}
  {%- for piece in pieces[1:] -%}
    {{- piece.split('<channel|>')[1:] | join('') -}}
  {%- endfor -%}
{%- endmacro -%}

{%- macro answer_of(content) -%}
  {%- if content is string -%}
    {{- without_thoughts(content) | trim -}}
  {%- else -%}
    {%- for part in content or [] -%}{{- without_thoughts(part.text) | trim -}}{%- endfor -%}
  {%- endif -%}
{%- endmacro -%}

{%- set roles = {'system': 'system', 'developer': 'system', 'user': 'user', 'assistant': 'model', 'model': 'model'} -%}
{%- set thinking = enable_thinking | default(false) -%}
{%- set begins_with_system = messages and roles[messages[0].role] == 'system' -%}
{%- if tools -%}
  {{- raise_exception("tools need the chat template of the model's file, and it has none") -}}
{%- endif -%}

{{- bos_token -}}
{%- if thinking and not begins_with_system -%}
  {{- '<|turn>system\n<|think|><turn|>\n' -}}
{%- endif -%}
{%- for message in messages -%}
  {%- set role = roles[message.role] -%}
  {%- if not role -%}
    {{- raise_exception("no role '" + message.role + "'") -}}
  {%- endif -%}
  {%- if message.tool_calls or message.tool_responses -%}
    {{- raise_exception("tool calls need the chat template of the model's file, and it has none") -}}
  {%- endif -%}
  {{- '<|turn>' + role + '\n' -}}
  {%- if thinking and begins_with_system and loop.first -%}
    {{- '<|think|>' -}}
  {%- endif -%}
  {{- answer_of(message.content) if role == 'model' else text_of(message.content) -}}
  {{- '<turn|>\n' -}}
{%- endfor -%}
{%- if add_generation_prompt -%}
  {{- '<|turn>model\n' -}}
  {%- if not thinking -%}
    {{- '<|channel>thought\n<channel|>' -}}
  {%- endif -%}
{%- endif -%}
)jinja";

bool hasGemmaTurns(const Tokenizer &tokenizer) {
  constexpr std::string_view kMarks[] = {"<|turn>", "<turn|>", "<|think|>", "<|channel>", "<channel|>"};
  return std::all_of(std::begin(kMarks), std::end(kMarks),
                     [&](auto mark) { return tokenizer.find(mark).has_value(); });
}

} // namespace g4::text
