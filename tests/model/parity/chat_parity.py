"""Lathe's chat templates against Jinja2 set up as `transformers` does, over many conversations."""
import json
import pathlib
import random
import sys

import gguf
from transformers.utils.chat_template_utils import _compile_jinja_template

from probe import ask

# Templates that use what the models' own do not: every construct of docs/models.md.
CONSTRUCTS = {
    "loops": """{%- for message in messages if message.role != 'tool' %}
  {{ loop.index }}/{{ loop.length }} {{ loop.first }} {{ loop.last }} {{ loop.revindex0 }}
    {%- if loop.index0 == 2 %}{% continue %}{% endif %}
  {%- if loop.index > 4 %}{% break %}{% endif %}
  {{ message['content'] | trim | upper }}{{ message.role is string }}
{%- else %}nobody{% endfor %}
tail   {# a comment #}
""",
    "namespace": """{% set ns = namespace(found=false, last=messages|length - 1, text='') %}
{%- for message in messages[::-1] %}
{%- set index = (messages|length - 1) - loop.index0 %}
{%- if not ns.found and message.role == "user" and not (message.content.startswith('<t>') and message.content.endswith('</t>')) %}
{%- set ns.found = true %}{%- set ns.last = index %}{%- endif %}
{%- set ns.text = ns.text + message.role[0] %}
{%- endfor %}{{ ns.found }} {{ ns.last }} {{ ns.text }} {{ ns.missing is defined }}""",
    "thinking": """{%- for message in messages %}
{%- set content = message.content %}
{%- set reasoning = '' %}
{%- if message.reasoning_content is string %}{%- set reasoning = message.reasoning_content %}
{%- else %}{%- if '</think>' in content %}
{%- set reasoning = content.split('</think>')[0].rstrip('\\n').split('<think>')[-1].lstrip('\\n') %}
{%- set content = content.split('</think>')[-1].lstrip('\\n') %}{%- endif %}{%- endif %}
{{- '<|im_start|>' + message.role + '\\n<think>\\n' + reasoning.strip('\\n') + '\\n</think>\\n\\n' + content.lstrip('\\n') }}
{%- endfor %}{%- if enable_thinking is defined and enable_thinking is false %}{{ '<think>\\n\\n</think>' }}{% endif %}""",
    "macros": """{% macro turn(role, text='-', shout=false) %}[{{ role }}: {{ text|upper if shout else text }}]{% endmacro %}
{%- for message in messages %}{{ turn(message.role, message.content, shout=loop.last) }}{{ turn('x') }}{% endfor %}
{%- set body %}  block {{ messages|length }} {% endset %}{{ body|trim }}""",
    "values": """{{ [1, 2.5, 'a\\'b', "c\\n", true, none, [], {}] }} {{ {'a': 1, 'b': [1e20, 0.1, -3]} }}
{{ 7 // 2 }} {{ -7 // 2 }} {{ -7 % 3 }} {{ 7 / 2 }} {{ 2 ** 10 }} {{ 1.0 }} {{ 1e16 }} {{ 12345678.25 }} {{ 'ab' * 3 }}
{{ 'a' ~ 1 ~ none ~ true }} {{ 1 if false }}|{{ missing }}|{{ missing is defined }} {{ missing | default('d') }} {{ '' | d('e', true) }}
{{ 'x' in 'xyz' }} {{ 3 not in [1, 2] }} {{ 'k' in {'k': 1} }} {{ 1 == 1.0 }} {{ 'a' < 'b' }} {{ not true or 1 and 0 }}
{{ 'h\u00e9llo w\u00f6rld'|title }} {{ 'ABC'|lower }} {{ 'abc def'|capitalize }} {{ 'abc'|length }} {{ 'h\u00e9llo'[1:3] }} {{ 'abc'[-1] }} {{ 'abcdef'[::2] }}
{{ messages | map(attribute='role') | join(', ') }} {{ messages | selectattr('role', 'equalto', 'user') | list | length }}
{{ messages | rejectattr('content') | list | length }} {{ [3, 1, 2] | sort | first }} {{ [3, 1, 2] | sort(reverse=true) | last }} {{ [1, 1, 2] | unique | list }}
{% for key, value in {'b': 1, 'a': 2}.items() %}{{ key }}={{ value }};{% endfor %}{% for key, value in {'b': 1, 'a': 2} | dictsort %}{{ key }}={{ value }};{% endfor %} {{ {'a': 1}.get('z', 5) }} {{ {'a': 1}.keys() | list }}
{{ '3' | int + 1 }} {{ '2.5' | float }} {{ 'z' | int(7) }} {{ 3.7 | int }} {{ -4 | abs }} {{ [1, 2, 3] | sum }} {{ range(1, 10, 3) | list }} {{ 3 is odd }}
{{ 'a-b-c'.split('-', 1) }} {{ ' a  b '.split() }} {{ 'abab'.replace('a', 'x', 1) }} {{ 'abab' | replace('b', 'y') }} {{ 'x'.join(['1', '2']) }} {{ 'abab'.count('ab') }} {{ 'abc'.find('c') }}
{{ 'line\nline' | indent(2) }} {{ 3 is divisibleby 3 }} {{ 4 is in [4] }} {{ messages[0] is mapping }} {{ messages is iterable and messages is not mapping }} {{ [1, 2, 3] | reverse | list }} {{ 2.5 | round }}""",
    "json": """{% for message in messages %}{{ message | tojson }}
{{ message | tojson(indent=4) }}{% endfor %}{{ {'a': [1, {'b': none}], 'c': "\u00e9\\"\\\\\\n\u2028/", 'd': 1.5, 'e': true} | tojson }}{{ [] | tojson(indent=2) }}""",
    "space": "  {% if true %}  \n  a\n  {%- if true -%}  b  {%- endif +%}\n  {% endif %}\n\n{%+ if true %}x{% endif %}\n   {{ 1 }}   \n{{- 2 -}}   \n {# c #}\n y\r\n z\n",
    "raise": "{% if messages[0].role != 'system' %}{{ raise_exception('no system: ' + messages[0].role) }}{% endif %}{{ messages[0].content }}",
}


def conversation(draw):
    contents = ["hello", "", "  spaced  \n", "caf\u00e9 \u4e2d\u6587 \U0001f600", "<think>\nwhy\n</think>\n\nbecause", "a\n\nb", "{{ not a tag }} {% x %}", "it's \"quoted\" \\", "<t>x</t>", "<|im_end|>"]
    messages = []
    if draw.random() < 0.5:
        messages.append({"role": "system", "content": draw.choice(contents)})
    for _ in range(draw.randrange(1, 7)):
        role = draw.choice(["user", "assistant", "user", "tool"])
        message = {"role": role, "content": draw.choice(contents)}
        if role == "assistant" and draw.random() < 0.4:
            call = {"name": "f", "arguments": {"x": draw.randrange(9), "deep": {"y": [1.5, None, True, "\u00e9"]}}}
            message["tool_calls"] = [draw.choice([call, {"type": "function", "function": call}])] * draw.randrange(1, 3)
        if role == "assistant" and draw.random() < 0.3:
            message["reasoning_content"] = "so\n"
        messages.append(message)
    variables = {"messages": messages, "add_generation_prompt": draw.random() < 0.5, "bos_token": "<s>", "eos_token": "</s>",
                 "date_string": "26 Jul 2024"}
    if draw.random() < 0.3:
        variables["tools"] = [{"type": "function", "function": {"name": "f", "description": "d \u2028 'q'", "parameters": {"type": "object", "properties": {}}}}]
    if draw.random() < 0.3:
        variables["enable_thinking"] = draw.random() < 0.5
    return variables


def main():
    draw = random.Random(21)
    templates = dict(CONSTRUCTS)
    for path in map(pathlib.Path, sys.argv[1:]):
        if path.suffix == ".gguf":
            templates[path.name] = gguf.GGUFReader(path).fields["tokenizer.chat_template"].contents()
        else:
            templates[path.name] = path.read_text()
    failures = 0
    for name, template in templates.items():
        jobs = [conversation(draw) for _ in range(400)]
        frames = [json.dumps({"template": template, "variables": variables}).encode() for variables in jobs]
        answers = ask(["chat"], frames)
        compiled = _compile_jinja_template(template)
        wrong = refused = 0
        for variables, answer in zip(jobs, answers):
            try:
                want = "+" + compiled.render(**variables)
            except Exception as error:
                want, refused = "-" + str(error), refused + 1
            have = answer.decode()
            if have != want and not (have[0] == want[0] == "-"):
                wrong += 1
                if wrong <= 2:
                    print(f"{name}: {json.dumps(variables)[:600]}\n  Lathe  {have[:1500]!r}\n  Jinja2 {want[:1500]!r}")
        print(f"{name}: {len(jobs) - wrong} of {len(jobs)} conversations are equal, {refused} of them refused by both")
        failures += wrong
    return 1 if failures else 0


if __name__ == "__main__":
    sys.exit(main())
