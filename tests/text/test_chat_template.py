"""Chat templates: as transformers renders them, and clear about what fails."""

from __future__ import annotations

from typing import Any

import pytest

from forerun.errors import TemplateError
from forerun.text.chat_template import render

USER = {"role": "user", "content": "a < b & 'c' 日本"}
TEMPLATES = [
    "{% for m in messages %}\n  {{ m.role }}: {{ m['content'] | trim }}\n{% endfor %}\nend\n",
    "{{ messages | tojson }}",
    "{{ messages | tojson(indent=2) }}",
    "{% for m in messages %}{% if loop.index > 1 %}{% break %}{% endif %}{{ m.role }}{% endfor %}",
    "{{ bos_token }}{% if tools is not none %}tools{% endif %}{{ strftime_now('%Y') }}",
    "{% for m in messages %}{% generation %}{{ m.content }}{% endgeneration %}{% endfor %}",
    "{% set x = namespace(n=0) %}{% for m in messages %}{% set x.n = 1 %}{% endfor %}{{ x.n }}",
    "    {%- if add_generation_prompt %}yes{% endif %}",
]


@pytest.mark.parametrize("template", TEMPLATES)
def test_templates_render_as_transformers_renders_them(template: str) -> None:
    utils = pytest.importorskip("transformers.utils.chat_template_utils")
    messages = [USER, {"role": "assistant", "content": " Hi "}, USER]
    expected = utils.render_jinja_template(
        [messages], chat_template=template, add_generation_prompt=True, bos_token="<s>"
    )[0][0]
    assert render(template, messages, tokens={"bos_token": "<s>"}) == expected


def test_generation_prompt_can_be_left_out() -> None:
    template = "{% if add_generation_prompt %}go{% endif %}"
    assert render(template, [USER]) == "go"
    assert render(template, [USER], add_generation_prompt=False) == ""


@pytest.mark.parametrize(
    ("template", "messages", "message"),
    [
        (None, [USER], "has no chat template"),
        ("", [], r"at least one .*, not \[\]"),
        ("", "hello", "messages are a list"),
        ("", USER, "messages are a list"),
        ("", [{"content": "x"}], "message 0 has no role"),
        (
            "",
            [USER, {"role": "usr", "content": "x"}],
            "message 1 has the role 'usr'. Known: system",
        ),
        ("", [{"role": "user"}], "needs its content as text, not None"),
        ("", [{"role": "user", "content": 7}], "needs its content as text, not 7"),
        ("{{ raise_exception('roles must alternate') }}", [USER], "refuses.*roles must alternate"),
        ("{% if %}", [USER], "not valid jinja2: .* in line 1"),
        ("{{ messages[0].content + 1 }}", [USER], "fails on these messages: TypeError"),
        ("{{ nothing.there }}", [USER], "fails on these messages: UndefinedError"),
    ],
)
def test_failures_say_what_is_wrong(template: str | None, messages: Any, message: str) -> None:
    with pytest.raises(TemplateError, match=message):
        render(template, messages)


@pytest.mark.parametrize(
    "template",
    [
        "{{ ''.__class__.__mro__ }}",
        "{{ messages.__class__ }}{{ messages.__init__.__globals__ }}",
        "{{ messages.append(1) }}",
        "{{ cycler.__init__.__globals__.os.popen('id') }}",
        "{% include '/etc/passwd' %}",
    ],
)
def test_templates_are_kept_in_a_sandbox(template: str) -> None:
    with pytest.raises(TemplateError):
        render(template, [USER])
