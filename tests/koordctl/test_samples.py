"""What every command prints on a fixed fleet: exit codes, the samples of the page, widths, colours, ASCII, JSON."""

import io
import re

import pytest

from koordctl import __main__ as koordctl
from koordctl.cli.answer import FORMATS
from tests.koordctl import samples
from tests.koordctl.serving import kubeconfig_of

pytestmark = pytest.mark.slow

COMMANDS = (
    ("koordctl status", 0),
    ("koordctl top nodes", 0),
    ("koordctl top nodes --above used=99", 1),
    ("koordctl top pods -A", 0),
    ("koordctl top pods -n nowhere", 3),
    ("koordctl top namespaces", 0),
    ("koordctl explain node worker-1", 0),
    ("koordctl explain config worker-1", 0),
    ("koordctl explain config", 0),
    ("koordctl explain pod shop/etl-0", 0),
    ("koordctl explain pod a/b/c", 2),
    ("koordctl config diff --preset conservative", 1),
    ("koordctl version", 0),
)
"""Command lines that read a cluster, with the exit code on the fleet of the samples."""
READS = [line for line, code in COMMANDS if code != 2 and "version" not in line]


@pytest.fixture
def fleet(tmp_path, monkeypatch):
    monkeypatch.setattr("sys.argv", ["koordctl"])
    with samples.fleet(tmp_path, monkeypatch) as run:
        yield run


@pytest.mark.parametrize(("line", "code"), COMMANDS, ids=lambda given: str(given).removeprefix("koordctl "))
def test_the_exit_code_is_the_same_for_every_format(fleet, line, code, capsys):
    assert {format_: fleet(f"{line} -o {format_}") for format_ in FORMATS} == dict.fromkeys(FORMATS, code)
    assert "Traceback" not in capsys.readouterr().err


@pytest.mark.parametrize("line", READS, ids=lambda given: given.removeprefix("koordctl "))
def test_without_rights_or_a_connection_every_format_has_one_code(line, tmp_path, capsys):
    words = line.split()[1:]
    with kubeconfig_of(
        tmp_path, **{"/api/v1/namespaces/shop/pods/etl-0": None, "/api/v1/nodes/worker-1": None}
    ) as file:
        codes = {koordctl.main([*words, "-o", format_, "--kubeconfig", str(file)]) for format_ in FORMATS}
    codes |= {koordctl.main([*words, "-o", format_, "--kubeconfig", str(tmp_path / "none")]) for format_ in FORMATS}
    assert codes == {3}
    assert capsys.readouterr().out == ""


def test_the_page_shows_what_the_commands_print(fleet):
    shown = dict(samples.samples())
    for line, text in shown.items():
        assert samples.output_of(fleet, line) == text, f"{line}: run python -m tests.koordctl.samples"


FLOOR = "at least the floor: Mid pods request"
SPLIT = {"of it: pods", "of it: outside of pods, not reserved"}
"""Rows of `explain node` on a node whose Mid pods have a floor, and whose predictor states the terms of its peak."""


def test_the_samples_of_the_readme_have_the_form_of_what_the_commands_print(fleet):
    shown = {line.replace("worker-03", "worker-1"): text for line, text in samples.samples(samples.README)}
    assert list(shown) == ["koordctl estimate", "koordctl top nodes", "koordctl explain node worker-1"]
    for line, text in shown.items():
        assert form(text) ^ form(samples.output_of(fleet, line)) <= {FLOOR, *SPLIT}, line


@pytest.mark.parametrize("page", sorted([samples.README, *samples.README.parent.glob("docs/**/*.md")]), ids=str)
def test_no_sample_shows_a_node_with_nothing_reclaimable(page):
    assert not re.findall(r"^.*= reclaimable +0\.00\b.*$", page.read_text("utf-8"), re.MULTILINE)


def form(text):
    """Return what every cluster shows: the titles of columns, the parts of the suite, terms and legends."""
    found = set()
    for line in re.sub(r"\d+", "#", text).splitlines():
        if re.fullmatch(r"[A-Z, ]+", line) and line.strip():
            found.add(" ".join(line.split()))
        elif part := re.match(r"[✔!✘] +(\w+ +\S+) +# of #", line):
            found.add(" ".join(part[1].split()))
        elif row := re.match(r"(?:CPU cores|memory GiB) +(\S.*?) {2,}", line):
            found |= {row[1]} if re.search("[a-z]", row[1]) else set()
        elif line.startswith(("OF CPU: ", "        │ ")):
            found.add(line)
    return found


class Terminal(io.StringIO):
    encoding = "utf-8"

    def isatty(self):
        return True


@pytest.mark.parametrize("columns", [80, 120])
def test_on_a_terminal_no_table_is_wider_than_it(fleet, columns, monkeypatch):
    monkeypatch.setenv("COLUMNS", str(columns))
    monkeypatch.setenv("NO_COLOR", "1")
    monkeypatch.setenv("TERM", "xterm-256color")
    for line in READS:
        text = samples.output_of(fleet, line, Terminal())
        tables = text[text.index("\n\n") :] if line.startswith(("koordctl explain", "koordctl config")) else text
        rows = re.split("it would fit|the numbers are|the spec of", tables)[0].splitlines()
        assert max(map(len, rows), default=0) <= columns, line
        assert "\x1b" not in text


def test_colour_is_of_the_flag_of_the_variable_or_of_a_terminal(fleet, monkeypatch):
    monkeypatch.setenv("TERM", "xterm-256color")
    monkeypatch.delenv("NO_COLOR", raising=False)
    line = "koordctl status"
    assert "\x1b[31m" in samples.output_of(fleet, line, Terminal())
    assert "\x1b[31m" in samples.output_of(fleet, f"{line} --color always")
    assert "\x1b" not in samples.output_of(fleet, f"{line} --color never", Terminal())
    assert "\x1b" not in samples.output_of(fleet, line)
    monkeypatch.setenv("NO_COLOR", "1")
    assert "\x1b[31m" not in samples.output_of(fleet, line, Terminal())


def test_a_colour_has_a_sign_and_a_word(fleet):
    for line in samples.output_of(fleet, "koordctl status --color always").splitlines():
        if "\x1b[31m" in line:
            assert "✘ ERROR" in line
        if "\x1b[33m" in line:
            assert "! WARN" in line or "not all ready" in line


@pytest.mark.parametrize("line", READS, ids=lambda given: given.removeprefix("koordctl "))
def test_ascii_is_of_the_flag_or_of_the_encoding(fleet, line):
    assert samples.output_of(fleet, f"{line} --ascii").isascii()
    terminal = Terminal()
    terminal.encoding = "ascii"
    assert samples.output_of(fleet, line, terminal).isascii()


def test_limits_take_the_units_of_the_table(fleet):
    def names(words):
        return samples.output_of(fleet, f"koordctl top {words} -o name").split()

    assert names("nodes --above mid=9.2") == ["node/worker-1", "node/worker-3"]
    assert names("nodes --above mid=9.4") == ["node/worker-1"]
    assert names("nodes --above mid=9.5") == []
    assert names("nodes --below age=60 --above used=40%") == ["node/worker-1", "node/worker-2"]
    assert names("pods --below memory=3") == ["pod/web-0"]
    assert names("pods --above requests=3.9 --sort requests") == ["pod/web-0", "pod/etl-0"]


def test_a_repeated_answer_is_one_block_after_the_other_in_a_pipe(fleet, monkeypatch, capsys):
    waits = []

    async def wait(seconds):
        waits.append(seconds)
        if len(waits) == 3:
            raise KeyboardInterrupt

    monkeypatch.setattr("koordctl.cli.command._wait", wait)
    assert fleet("koordctl top nodes --watch --interval 2 --above age=60") == 130
    out = capsys.readouterr().out
    assert waits == [2.0] * 3
    assert out.count("NODE ") == 3
    assert out.count("worker-3") == 3
