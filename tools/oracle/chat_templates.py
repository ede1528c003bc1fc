"""Renders chat templates with transformers, for model/text: python chat_templates.py > ../../model/text/testdata/templates.json

With `among` the question is between two pictures: python chat_templates.py among > ../../model/text/testdata/among.json
With `numbered` Qwen's templates number the pictures (add_vision_id): python chat_templates.py numbered > ../../model/text/testdata/numbered.json"""
import json
import sys

from transformers.utils.chat_template_utils import render_jinja_template

PICTURES = "{# first the pictures #}{% for part in turn['content'] | selectattr('type', 'equalto', 'image') %}{{ '<image>\n' }}{% endfor %}"
TEXTS = "{# then the texts #}{% for part in turn['content'] | selectattr('type', 'equalto', 'text') %}"
TEMPLATES = {
    # Written for this test; they render like those published with llava-hf's and Qwen's checkpoints.
    "llama3-llava-next-8b": "{% for turn in messages %}{{ '<|start_header_id|>' + turn['role'] + '<|end_header_id|>\n\n' }}" + PICTURES + TEXTS
    + "{{ part['text'] + '<|eot_id|>' }}{% endfor %}{% endfor %}{% if add_generation_prompt %}{{ '<|start_header_id|>assistant<|end_header_id|>\n\n' }}{% endif %}",
    "llava-v1.6-mistral-7b": "{% for turn in messages %}{% set role = turn['role'] %}{% if role == 'user' %}{{ '[INST] ' }}" + PICTURES + TEXTS
    + "{{ part['text'] }}{% endfor %}{{' [/INST]' }}{% elif role == 'system' %}{{ '<<SYS>>\n' + turn['content'][0]['text'] + '\n<</SYS>>\n\n' }}"
    "{% elif role == 'assistant' %}{{ ' ' + turn['content'][0]['text'] + '<\\s> '}}{% else %}{{ raise_exception('no turn of ' + role) }}{% endif %}{% endfor %}",
    "llava-v1.6-vicuna-7b": "{% for turn in messages %}{% if turn['role'] != 'system' %}{{ turn['role'].upper() + ': '}}{% endif %}" + PICTURES + TEXTS
    + "{% if turn['role'] == 'assistant' %}{% generation %}{{ part['text'] + ' '}}{% endgeneration %}{% else %}{{ part['text'] + ' '}}{% endif %}{% endfor %}{% endfor %}"
    "{% if add_generation_prompt %}{{ 'ASSISTANT:' }}{% endif %}",
    "llava-v1.6-34b": "{% for turn in messages %}{{'<|im_start|>' + turn['role'] + '\n'}}" + PICTURES + TEXTS
    + "{{ part['text'] }}{% endfor %}{{'<|im_end|>' + '\n'}}{% endfor %}{% if add_generation_prompt %}{{ '<|im_start|>assistant\n' }}{% endif %}",
    "qwen2.5-vl": "{% set seen = namespace(images=0, videos=0) %}{% for turn in messages %}{% if loop.first and turn['role'] != 'system' %}"
    "<|im_start|>system\nYou are a helpful assistant.<|im_end|>\n{% endif %}<|im_start|>{{ turn['role'] }}\n{% if turn['content'] is string %}{{ turn['content'] }}{% else %}"
    "{% for part in turn['content'] %}{% if 'text' in part %}{{ part['text'] }}{% elif part['type'] == 'image' or 'image_url' in part %}{% set seen.images = seen.images + 1 %}"
    "{% if add_vision_id %}Picture {{ seen.images }}: {% endif %}<|vision_start|><|image_pad|><|vision_end|>{% elif part['type'] == 'video' or 'video' in part %}"
    "{% set seen.videos = seen.videos + 1 %}{% if add_vision_id %}Video {{ seen.videos }}: {% endif %}<|vision_start|><|video_pad|><|vision_end|>{% endif %}{% endfor %}{% endif %}"
    "<|im_end|>\n{% endfor %}{% if add_generation_prompt %}<|im_start|>assistant\n{% endif %}",
    "qwen3-vl": """{%- macro shown(parts, counts) -%}
    {%- for part in parts %}
        {%- if part.type == 'image' or 'image' in part or 'image_url' in part %}
            {%- set counts.images = counts.images + 1 %}
            {%- if add_vision_id %}Picture {{ counts.images }}: {% endif -%}
            <|vision_start|><|image_pad|><|vision_end|>
        {%- elif part.type == 'video' or 'video' in part %}
            {%- set counts.videos = counts.videos + 1 %}
            {%- if add_vision_id %}Video {{ counts.videos }}: {% endif -%}
            <|vision_start|><|video_pad|><|vision_end|>
        {%- elif 'text' in part %}
            {{- part.text }}
        {%- endif %}
    {%- endfor %}
{%- endmacro -%}
{%- set counts = namespace(images=0, videos=0) %}
{%- if tools %}
    {{- '<|im_start|>system\n' }}
    {%- for tool in tools %}{{- tool | tojson }}{%- endfor %}
{%- elif messages[0].role == 'system' %}
    {{- '<|im_start|>system\n' + messages[0].content + '<|im_end|>\n' }}
{%- endif %}
{%- for message in messages %}
    {%- if message.role == "user" or (message.role == "assistant" and message.tool_calls is not defined) %}
        {{- '<|im_start|>' + message.role + '\n' }}
        {%- if message.content is string %}
            {{- message.content }}
        {%- else %}
            {{- shown(message.content, counts) }}
        {%- endif %}
        {%- if message.tool_calls %}
            {%- for call in message.tool_calls %}
                {%- if (loop.first and message.content) or (not loop.first) %}{{- '\n' }}{%- endif %}
                {{- call.name }}{{- call.arguments | tojson }}
            {%- endfor %}
        {%- endif %}
        {{- '<|im_end|>\n' }}
    {%- elif message.role == "tool" %}
        {%- if loop.first or (messages[loop.index0 - 1].role != "tool") %}
            {{- '<|im_start|>user' }}
        {%- endif %}
    {%- endif %}
{%- endfor %}
{%- if add_generation_prompt %}
    {{- '<|im_start|>assistant\n' }}
{%- endif %}
""",
    # Features that some published templates use.
    "blocks on lines of their own": "{{ bos_token }}\n{% for message in messages %}\n  {% if message.role == 'user' %}\n  user:\n    {%- for c in message.content %}\n"
    "      {%- if c.type == 'image' %}\n        [pic]\n      {%- else %}\n        {{- c.text | trim }}\n      {%- endif %}\n    {%- endfor %}\n  {% endif %}\n"
    "\t{# a comment #}\n\n{% endfor %}\n{%- if add_generation_prompt -%}\n  assistant:\n{% endif %}\n",
    "plus signs": "a\n  {%+ if true %}\n  b\n  {% endif +%}\nc\n  {{ 'd' }}  \n  {#+ kept #}\ne\n",
    "namespace": "{%- set ns = namespace(n=0, seen=false) -%}{%- for c in messages[0]['content'] -%}{%- if c['type'] == 'image' -%}{%- set ns.n = ns.n + 1 -%}"
    "{%- else -%}{%- set ns.seen = true -%}{%- endif -%}{%- endfor -%}{{ ns.n }} {{ 'yes' if ns.seen else 'no' }}",
    "tojson": "{{ {'a': [1, 2.5, true, none], 'b': 'x<y & \\'z\\' ü \"q\" \\\\u003c'} | tojson }} {{ messages[0].content[-1].text | tojson }} {{ {'a': [1, {}]} | tojson(indent=2) }}",
    "loops": "{% for c in messages[0]['content'] %}{% if loop.index0 > 2 %}{% break %}{% endif %}{% if not loop.last %}{{ loop.index }},{% continue %}{% endif %}"
    "{{ loop.length }}{{ loop.revindex }}{% else %}none{% endfor %}",
    "macro": "{% macro show(c, sep=';') %}{{ c.type }}{{ sep }}{% endmacro %}{% for c in messages[0].content %}{{ show(c) }}{{ show(c, sep='|') }}{% endfor %}",
    "undefined": "[{{ nothing }}][{{ messages[0].name }}]{% if tools is defined and tools %}tools{% endif %}{% if not nothing %}ok{% endif %}{{ nothing | default('d') }}"
    "{% if messages[0]['content'] is iterable and messages[0]['content'] is not string %}list{% endif %}{% if messages[0]['content'] is not mapping %}!{% endif %}",
    "strings": "{% set t = messages[0].content[-1].text %}{{ t.split(' ')[0] }}|{{ t.strip().lower() }}|{{ t | upper | length }}|{{ t[1:3] }}|{{ t.startswith('H') }}|{{ t ~ 1 }}|"
    "{{ t.replace('a', 'b') }}|{{ t | replace('o', '0') }}|{{ messages | length }}|{{ (messages[0].content | map(attribute='type') | join('+')) }}",
    "generation": "{% for message in messages %}{% generation %}{% set x = 1 %}{{ message.role }}{% endgeneration %}{{ x }}{% endfor %}\n\n",
    "system slice": "{% if messages[0]['role'] == 'system' %}{% set rest = messages[1:] %}{% else %}{% set rest = messages %}{% endif %}"
    "{% for m in rest %}{% if (m['role'] == 'user') != (loop.index0 % 2 == 0) %}{{ raise_exception('order') }}{% endif %}{{ bos_token + m['role'] + eos_token }}{% endfor %}",
    "escapes": "{{ 'a\\\\' ~ \"\\x41\\u00fc\\101\\d\\'\" }}{% raw %}{{ '\\s' }}{% endraw %}{# it's #}{ '\\s' {{ '}}' + \"%}\" }}{{ 'tab\\tnew\\nline' }}",
    "last of one": "{{ messages[-1].role }}{{ messages[0:][-1]['content'][-1].text }}{{ messages[5] }}",
    "refusal": "{% for m in messages %}{{ raise_exception('no ' + m.role + ' here') }}{% endfor %}",
}
QUESTIONS = [(1, "How well was \"add a red hat\" done?"), (2, "  Überall & <b>\n\nsecond line, isn't it?  "), (0, "H")]

among = sys.argv[1:] == ["among"]
if among:
    QUESTIONS = [(2, "How well was \"add a red hat\" done?"), (2, "  Überall & <b>\n\nsecond line, isn't it?  ")]
numbered = sys.argv[1:] == ["numbered"]
if numbered:
    TEMPLATES = {name: template for name, template in TEMPLATES.items() if "add_vision_id" in template}
    QUESTIONS = [(1, "Picture 1?"), (4, "How well has the edit put the cup of image 2 on the table of image 1?")]
cases = []
for name, template in TEMPLATES.items():
    for pictures, question in QUESTIONS:
        content = [{"type": "image"}] * pictures + [{"type": "text", "text": question}]
        if among:
            content.insert(1, content.pop())
        case = {"name": name, "template": template, "pictures": pictures, "question": question}
        try:
            (case["prompt"],), _ = render_jinja_template([[{"role": "user", "content": content}]], chat_template=template,
                                                         add_generation_prompt=True, bos_token="<s>", eos_token="</s>", add_vision_id=numbered)
        except Exception as e:
            if among:  # the template needs the text last
                continue
            case["error"] = str(e)
        cases.append(case)
json.dump(cases, sys.stdout, indent=1, ensure_ascii=False)
