"""Lines of the log say what happened and where, and nothing that a client wrote."""

from __future__ import annotations

import io
import json
import logging

import pytest

from forerun.server.logs import JsonLines, logging_lines

SAID = "it quotes:\n   1 | secret\n  secret"


def logged(record: logging.LogRecord, *, texts: bool) -> dict:
    return json.loads(JsonLines(texts=texts).format(record))


def failed() -> BaseException:
    try:
        try:
            raise ValueError(SAID)
        except ValueError as error:
            raise RuntimeError(SAID) from error
    except RuntimeError as error:
        return error


def record(name: str, message: str, error: BaseException | None = None) -> logging.LogRecord:
    info = None if error is None else (type(error), error, error.__traceback__)
    return logging.LogRecord(name, logging.ERROR, __file__, 1, message, (), info)


def test_messages_of_several_lines_are_left_out():
    line = logged(record("forerun.server", "request_failed", failed()), texts=False)
    assert line["error"] == "RuntimeError"
    assert "secret" not in json.dumps(line)
    assert line["traceback"].count("test_logs.py") == 2
    assert "ValueError" in line["traceback"]
    whole = logged(record("forerun.server", "request_failed", failed()), texts=True)
    assert "   1 | secret" in whole["traceback"]


def test_of_other_libraries_only_the_first_line():
    said = "Task exception was never retrieved\nfuture: <Task exception=ValueError('secret')>"
    assert logged(record("asyncio", said), texts=False)["event"] == said.partition("\n")[0]
    assert logged(record("asyncio", said), texts=True)["event"] == said


def test_errors_in_a_circle():
    error = failed()
    error.__cause__.__context__ = error
    error.__cause__.__suppress_context__ = False
    assert logged(record("forerun", "odd", error), texts=False)["traceback"]


@pytest.mark.parametrize("name", ["forerun.server", "uvicorn.error", "asyncio"])
def test_all_of_them_go_there(name, monkeypatch):
    to = io.StringIO()
    monkeypatch.setattr("sys.stderr", to)
    with logging_lines():
        logging.getLogger(name).warning("something")
    assert json.loads(to.getvalue())["event"] == "something"
