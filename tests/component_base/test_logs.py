"""Lines of the log: format, time and level."""

import json
import logging
import time

import pytest

from component_base import logs
from component_base.logs import LogFormat, LogLevel

HTTP = "httpx2"
LEVELS = (logging.DEBUG, logging.INFO, logging.WARNING, logging.ERROR)


@pytest.fixture(autouse=True)
def _elsewhere(monkeypatch):
    """Log far from UTC, and restore the level of the logger that `configure` changes."""
    level = logging.getLogger(HTTP).level
    monkeypatch.setenv("TZ", "Asia/Kolkata")
    time.tzset()
    yield
    monkeypatch.undo()
    time.tzset()
    logging.getLogger(HTTP).setLevel(level)


def log_at_a_quarter_past_the_epoch(text):
    fields = {"name": "some.logger", "levelname": "INFO", "levelno": logging.INFO, "msg": text}
    logging.getLogger("some.logger").handle(logging.makeLogRecord({**fields, "created": 900.25, "msecs": 250.0}))


def test_a_line_of_text_has_time_in_utc_level_logger_and_message(capsys):
    logs.configure(LogFormat.TEXT, LogLevel.INFO)
    log_at_a_quarter_past_the_epoch("two words")
    assert capsys.readouterr().err == "1970-01-01T00:15:00.250Z INFO    some.logger: two words\n"


def test_a_line_of_json_has_the_same_four_fields(capsys):
    logs.configure(LogFormat.JSON, LogLevel.INFO)
    log_at_a_quarter_past_the_epoch('two "words"')
    assert json.loads(capsys.readouterr().err) == {
        "time": "1970-01-01T00:15:00.250Z",
        "level": "INFO",
        "logger": "some.logger",
        "message": 'two "words"',
    }


@pytest.mark.parametrize(("level", "written"), [("debug", 4), ("info", 3), ("warning", 2), ("error", 1)])
def test_lines_below_the_level_are_not_written(capsys, level, written):
    logs.configure(LogFormat.TEXT, LogLevel(level))
    for number in LEVELS:
        logging.getLogger("some.logger").log(number, "line %s", number)
    lines = capsys.readouterr().err.splitlines()
    assert [line.rpartition(" ")[2] for line in lines] == [str(number) for number in LEVELS[-written:]]


def test_requests_of_the_http_client_are_worth_no_line_and_its_warnings_are(capsys):
    logs.configure(LogFormat.TEXT, LogLevel.INFO)
    logging.getLogger(HTTP).info("HTTP Request: GET")
    logging.getLogger(HTTP).warning("something else")
    (line,) = capsys.readouterr().err.splitlines()
    assert line.endswith(f"WARNING {HTTP}: something else")
