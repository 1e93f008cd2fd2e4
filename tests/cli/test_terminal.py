"""On a terminal: colours and shapes, legend and summary, Ctrl-C. In processes of their own."""

from __future__ import annotations

import os
import re
import subprocess
import sys
import time

import pytest

from cli.conftest import FAKE
from forerun.cli.screen import STYLES

pytestmark = pytest.mark.skipif(sys.platform == "win32", reason="pseudo-terminals")

PROMPT = "the cat sat on the mat, and the cat"
GREEDY = ("-m", "fake", "--temperature", "0", "-n", "60")
SLOW = ("-m", "fake:slow=0.1", "--temperature", "0", "-n", "500", "--drafter", "none")


def test_colours_shapes_legend_and_summary(terminal):
    shown = terminal("generate", PROMPT, *GREEDY)
    assert shown.finish() == 0
    assert "\x1b[4;32maccepted\x1b[0m" in shown.seen  # underlined green, bold yellow, cyan
    assert "\x1b[1;33mcorrected\x1b[0m" in shown.seen
    assert "\x1b[36mbonus\x1b[0m" in shown.seen
    assert shown.seen.count("\x1b[4;32m") > 2
    assert re.search(
        r"60 tokens in \d+ target passes: \S+ tokens per pass · acceptance", shown.seen
    )


def test_kinds_differ_without_their_colours():
    shapes = [(s.bold, s.underline, s.italic, s.reverse) for s in STYLES.values()]
    assert len(set(shapes)) == 3
    assert len({s.color for s in STYLES.values()}) == 3


@pytest.mark.parametrize("how", [["--no-color"], {"NO_COLOR": "1"}, {"TERM": "dumb"}])
def test_no_escape_codes(how, terminal):
    args, env = (how, {}) if isinstance(how, list) else ((), how)
    shown = terminal("generate", PROMPT, *GREEDY, *args, **env)
    assert shown.finish() == 0
    assert "\x1b" not in shown.seen
    assert "60 tokens in" in shown.seen
    assert "accepted" not in shown.seen


def test_an_empty_no_color_is_none(terminal):
    shown = terminal("generate", PROMPT, *GREEDY, NO_COLOR="")
    shown.finish()
    assert "\x1b[4;32m" in shown.seen


def test_an_error_before_the_first_token_has_no_legend(terminal):
    for more in ([], ["--compare"]):
        shown = terminal("generate", PROMPT, "-m", "fake:room=5", *more)
        assert shown.finish() == 2
        assert "accepted" not in shown.seen
        assert "plain decoding" not in shown.seen


def test_the_legend_counts_what_was_not_drafted_as_bonus(terminal):
    shown = terminal("generate", PROMPT, *GREEDY, "--compare")
    assert shown.finish() == 0
    assert shown.seen.count("the target's own, undrafted") == 1
    assert shown.seen.index("── plain") < shown.seen.index("accepted")
    assert shown.seen.index("accepted") < shown.seen.index("── speculative")


def test_plain_decoding_has_no_legend(terminal):
    shown = terminal("generate", PROMPT, *GREEDY, "--drafter", "none")
    assert shown.finish() == 0
    assert "accepted" not in shown.seen
    assert "nothing drafted" in shown.seen


def test_escape_codes_of_the_model_are_not_obeyed(terminal):
    shown = terminal("generate", "the", "-m", "fake:esc", "--temperature", "0", "-n", "5",
                     "--no-color")  # fmt: skip
    shown.finish()
    assert "\u241b" * 5 in shown.seen
    assert "\x1b" not in shown.seen


def test_compare(terminal):
    shown = terminal("generate", PROMPT, *GREEDY, "--compare")
    assert shown.finish() == 0
    assert shown.seen.index("plain decoding") < shown.seen.index("speculative: suffix")
    assert "identical, token for token" in shown.seen


# ---------------------------------------------------------------- Ctrl-C


def test_one_ctrl_c_ends_the_answer_with_its_summary(terminal, tmp_path):
    shown = terminal("generate", "the", *SLOW, "--no-color", "--trace", str(tmp_path / "trace"))
    shown.wait_for("cat")
    shown.type("\x03")
    assert shown.finish() == 0
    assert re.search(r"\d+ tokens in \d+ target passes.* · cancelled", shown.seen)
    assert "Traceback" not in shown.seen
    assert (tmp_path / "trace").read_text().endswith("}\n")


def test_two_leave_at_once(terminal):
    shown = terminal("generate", "the", "-m", "fake:slow=1")
    shown.wait_for("bonus")
    time.sleep(0.2)
    for _ in range(3):
        shown.type("\x03")
        time.sleep(0.05)
    assert shown.finish() == 130
    assert "Traceback" not in shown.seen


def test_two_leave_with_130(process, terminal):
    """The second comes while the first waits for its round to end."""
    code = (
        "import os, signal, sys, time; sys.argv = ['tty-less', *sys.argv[1:]];"
        "import runpy, threading;"
        "from cli import fakes; real = fakes.FakeModel.extend;\n"
        "def extend(self, steps):\n"
        "    for _ in range(2):\n"
        "        os.kill(os.getpid(), signal.SIGINT); time.sleep(0.01)\n"
        "    return real(self, steps)\n"
        "fakes.FakeModel.extend = extend\n"
        "import forerun.cli.session; forerun.cli.session.load_model = fakes.load_model\n"
        "from forerun.cli import main; main()"
    )
    tests = os.path.dirname(os.path.dirname(FAKE))
    done = subprocess.run(
        [sys.executable, "-c", code, "generate", "the", *GREEDY],
        env={**os.environ, "PYTHONPATH": tests}, capture_output=True, timeout=60,
    )  # fmt: skip
    assert done.returncode == 130
    assert b"Traceback" not in done.stderr


def test_ctrl_c_while_a_model_loads(process):
    code = (
        "import os, signal, forerun.cli.session as s\n"
        "def load(name, **settings): os.kill(os.getpid(), signal.SIGINT)\n"
        "s.load_model = load\n"
        "from forerun.cli import main; main()"
    )
    done = subprocess.run([sys.executable, "-c", code, "generate", "x"], capture_output=True)
    assert done.returncode == 130
    assert done.stderr == b""


def test_chat(terminal):
    shown = terminal("chat", "-m", "fake", "--temperature", "0", "-n", "20")
    shown.wait_for("> ")
    assert "/help for commands" in shown.seen
    shown.type("the cat\n")
    shown.wait_for("20 tokens in")
    shown.wait_for("> ", after=shown.seen.index("20 tokens in"))
    shown.type("/exit\n")
    assert shown.finish() == 0


def test_ctrl_c_in_chat_ends_the_answer_and_the_conversation_goes_on(terminal):
    shown = terminal("chat", *SLOW, "--no-color")
    shown.wait_for("> ")
    shown.type("the\n")
    shown.wait_for("sat")
    shown.type("\x03")
    shown.wait_for("cancelled")
    end = shown.seen.index("cancelled")
    shown.wait_for("> ", after=end)
    shown.type("/help\n")
    shown.wait_for("/exit", after=end)
    shown.wait_for("> ", after=shown.seen.index("/exit", end))
    time.sleep(0.2)  # until input() waits: a signal just before would wait for the next key
    shown.type("\x03")  # at the prompt
    assert shown.finish() == 130
    assert "Traceback" not in shown.seen


def test_end_of_file_leaves_chat(terminal):
    shown = terminal("chat", *GREEDY)
    shown.wait_for("> ")
    shown.type("\x04")
    assert shown.finish() == 0


def test_chat_says_what_is_wrong_and_goes_on(terminal):
    shown = terminal("chat", "-m", "fake:context=30", "-n", "5", "--no-color")
    shown.wait_for("> ")
    shown.type("x" * 40 + "\n")
    shown.wait_for("a context of 30")
    shown.wait_for("> ", after=shown.seen.index("a context of 30"))
    shown.type("hi\n")
    shown.wait_for("5 tokens in")
    shown.wait_for("> ", after=shown.seen.index("5 tokens in"))
    shown.type("\x04")
    assert shown.finish() == 0


# ---------------------------------------------------------------- pipes


def test_a_pipe_in_a_process_of_its_own(process):
    done = process("generate", PROMPT, *GREEDY)
    assert done.returncode == 0
    assert done.stdout.count(b"\n") == 1
    assert done.stderr == b""


@pytest.mark.parametrize("command", [["generate", PROMPT], ["generate", PROMPT, "--json"]])
def test_a_broken_pipe_is_quiet(command):
    process = subprocess.Popen(
        [sys.executable, FAKE, *command, "-m", "fake", "-n", "5000"],
        stdout=subprocess.PIPE, stderr=subprocess.PIPE,
    )  # fmt: skip
    process.stdout.close()
    assert process.stderr.read() == b""
    assert process.wait(60) == 141
    process.stderr.close()


@pytest.mark.skipif(not os.path.exists("/dev/full"), reason="no /dev/full")
def test_a_full_disk_is_said(process):
    with open("/dev/full", "w") as full:
        done = subprocess.run(
            [sys.executable, FAKE, "generate", PROMPT, *GREEDY], stdout=full, stderr=subprocess.PIPE
        )
    assert done.returncode == 1
    assert done.stderr == b"forerun: cannot write: no space left on device\n"


@pytest.mark.parametrize("closed", ["<&-", ">&-", "2>&-"])
def test_closed_streams(closed):
    command = f'"{sys.executable}" "{FAKE}" generate x {" ".join(GREEDY)} {closed}'
    done = subprocess.run(["sh", "-c", command], capture_output=True)
    assert done.returncode == 0
    assert done.stderr == b""


def test_an_encoding_that_lacks_a_letter(process):
    done = process("generate", PROMPT, *GREEDY, "-v", PYTHONIOENCODING="ascii")
    assert done.returncode == 0
    assert b" tokens per pass \\xb7 acceptance" in done.stderr


def test_module_and_script_are_one():
    done = subprocess.run([sys.executable, "-m", "forerun", "--version"], capture_output=True)
    assert done.stdout.startswith(b"forerun ")
