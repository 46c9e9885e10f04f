"""A Prometheus that refuses, lies, is behind TLS or allows little: each error names the fix."""

import json
import re
import shutil

import numpy as np
import pytest

from e2e.thirdparty.prometheus.server import DATA
from koordctl import __main__ as koordctl
from koordctl.backtest.prometheus import BadQuery, CannotRead, Prometheus, Server
from koordctl.backtest.time_range import TimeRange
from tests.fakes import certificates
from tests.koordctl.backtest import conftest
from tests.koordctl.backtest.conftest import DAY, DAYS, START, STEP
from tests.koordctl.backtest.prometheus_proxy import Proxy, serving

pytestmark = pytest.mark.timeout(180)
RANGE = TimeRange(START, STEP, 10)
OPTIONS = ("--from", START, "--to", START + DAYS * DAY - STEP, "--step", "15m", "-o", "json")


def run(capsys, *arguments):
    code = koordctl.main(["backtest", *map(str, arguments), "--workers", "1"])
    captured = capsys.readouterr()
    return code, captured.out, captured.err


@pytest.fixture
def ask():
    """Return a function that asks a server with one result for a range."""

    def ask(content, status=200):
        body = content if isinstance(content, bytes) else json.dumps(content).encode()
        with serving(Proxy(change=lambda *_: (status, body))) as proxy:
            client = Prometheus(Server(proxy.url))
            try:
                return client.range("up", RANGE)
            finally:
                client.close()

    return ask


def matrix(*values):
    series = [{"metric": {"pod": str(number)}, "values": each} for number, each in enumerate(values)]
    return {"status": "success", "data": {"resultType": "matrix", "result": series}}


def refusal(kind, text):
    return {"status": "error", "errorType": kind, "error": text}


@pytest.fixture(scope="module")
def limited(blocks, tmp_path_factory):
    """Return a function that starts a Prometheus with the same data that allows few samples a query."""
    started = []

    def start(most_samples):
        folder = tmp_path_factory.mktemp("limited")
        for block in (blocks / DATA).glob("*/meta.json"):
            shutil.copytree(block.parent, folder / DATA / block.parent.name)
        started.append(conftest.serve(folder, f"--query.max-samples={most_samples}"))
        return started[-1].url

    yield start
    for each in started:
        each.stop()


def test_queries_that_load_too_much_are_divided(capsys, four_days, limited):
    assert (
        run(capsys, "--prometheus", limited(500), *OPTIONS)[:2] == run(capsys, "--prometheus", four_days, *OPTIONS)[:2]
    )


def test_an_hour_that_is_too_much_is_named_with_the_fix(capsys, limited):
    code, out, errors = run(capsys, "--prometheus", limited(10), *OPTIONS)
    assert (code, out) == (3, "")
    assert "too much data for one query: query processing would load too many samples" in errors
    assert "raise --query.max-samples and --query.timeout of Prometheus, or read less with --selector" in errors


def test_values_that_are_no_numbers_are_missing_and_steps_outside_are_dropped(ask):
    first = (
        [START, "1.5"],
        [START + STEP, "NaN"],
        [START + 2 * STEP, "+Inf"],
        [START + 3 * STEP, "-Inf"],
        [START + 4 * STEP, "one"],
    )
    other = [START - STEP, "7"], [START + 10 * STEP, "8"], [START + 4.2, "9"]
    found = ask(matrix(first, other, []))
    np.testing.assert_array_equal(found[0].values[:4], [1.5, np.nan, np.inf, -np.inf])
    assert np.isnan(found[0].values[4:]).all()
    assert found[1].values[0] == 9.0
    assert np.isnan(found[1].values[1:]).all()
    assert np.isnan(found[2].values).all()


@pytest.mark.parametrize(
    ("content", "status", "kind", "text"),
    [
        (b"<html>Sign in</html>", 200, CannotRead, "returned 200 and no result of Prometheus; check the address"),
        (b"", 502, CannotRead, "returned 502 and no result of Prometheus"),
        ({"status": "success", "data": {"result": [{"metric": 1}]}}, 200, CannotRead, "no result of Prometheus"),
        ({"status": "success", "data": {"result": None}}, 200, CannotRead, "no result of Prometheus"),
        ({"status": "success"}, 200, CannotRead, "no result of Prometheus"),
        ({"status": "maybe", "data": []}, 200, CannotRead, "no result of Prometheus"),
        (refusal("bad_data", 'parse error near label "limit"'), 400, BadQuery, "check --selector and the metric names"),
        (refusal("execution", "query exceeded the maximum number of chunks"), 422, CannotRead, "too much data"),
        (refusal("timeout", "query timed out in expression evaluation"), 503, CannotRead, "too much data"),
        (refusal("internal", "x" * 10_000), 500, CannotRead, "failed: internal: xxx"),
    ],
)  # fmt: skip
def test_what_is_no_result_is_named(ask, content, status, kind, text):
    with pytest.raises(kind) as raised:
        ask(content, status)
    assert text in str(raised.value)
    assert len(str(raised.value)) < 700


def test_a_redirect_is_not_followed_with_the_token(capsys, tmp_path):
    with serving(Proxy(change=lambda *_: (302, b""))) as proxy:
        token = tmp_path / "token"
        token.write_text("secret-token")
        code, _, errors = run(capsys, "--prometheus", proxy.url, "--token-file", token)
    assert code == 3
    assert "returned 302 and no result of Prometheus; check the address" in errors
    assert len(proxy.asked) == 1


def test_a_wrong_token_is_refused_and_the_right_one_is_read_again_for_each_query(capsys, four_days, tmp_path):
    token = tmp_path / "token"
    with serving(Proxy(four_days), token="right") as proxy:
        token.write_text("wrong\n")
        code, out, errors = run(capsys, "--prometheus", proxy.url, "--token-file", token, *OPTIONS)
        assert (code, out) == (3, "")
        assert "refused the credentials: 401; give a token that may query with --token-file" in errors
        assert "wrong" not in errors
        token.write_text("right\n")
        assert run(capsys, "--prometheus", proxy.url, "--token-file", token, *OPTIONS)[0] in (0, 1)
        token.write_bytes(b"a\r\nX-Other: b")
        assert "want one line of printable ASCII" in run(capsys, "--prometheus", proxy.url, "--token-file", token)[2]
        assert "No such file" in run(capsys, "--prometheus", proxy.url, "--token-file", tmp_path / "none")[2]


@pytest.mark.skipif(shutil.which("openssl") is None, reason="no openssl command")
def test_tls_is_verified_by_the_given_authority(capsys, four_days, tmp_path):
    own, other = (certificates.make(tmp_path, name) for name in ("own", "other"))
    wrong_name = certificates.make(tmp_path, "elsewhere", alternative="DNS:elsewhere.example")
    wanted = run(capsys, "--prometheus", four_days, *OPTIONS)
    with serving(Proxy(four_days), own.server_context()) as proxy:
        for arguments in ((), ("--ca-file", other.certificate_path)):
            code, out, errors = run(capsys, "--prometheus", proxy.url, *arguments, *OPTIONS)
            assert (code, out) == (3, "")
            assert "CERTIFICATE_VERIFY_FAILED" in errors
            assert "check --prometheus and --ca-file" in errors
        trusted = ("--ca-file", own.certificate_path)
        assert run(capsys, "--prometheus", proxy.url, *trusted, *OPTIONS)[:2] == wanted[:2]
        assert "want a PEM file" in run(capsys, "--prometheus", proxy.url, "--ca-file", own.key_path, *OPTIONS)[2]
        assert "want a PEM file" in run(capsys, "--prometheus", proxy.url, "--ca-file", tmp_path / "none", *OPTIONS)[2]
    with serving(Proxy(four_days), wrong_name.server_context()) as proxy:
        found = run(capsys, "--prometheus", proxy.url, "--ca-file", wrong_name.certificate_path, *OPTIONS)
    assert found[0] == 3
    assert "IP address mismatch" in found[2]


def test_partial_data_and_a_node_without_pods_are_reported(capsys, four_days):
    def without(name, parameters, status, content):
        query = parameters.get("query", "")
        is_gone = name == "query_range" and "memory" in query and 'container!=""' in query
        last_day = int(parameters.get("start", 0)) >= START + (DAYS - 1) * DAY
        if is_gone and ('"n2"' in query or ('"n1"' in query and last_day)):
            content = json.dumps(matrix()).encode()
        return status, content

    with serving(Proxy(four_days, without)) as proxy:
        code, out, errors = run(capsys, "--prometheus", proxy.url, *OPTIONS)
    assert code in (0, 1)
    partial, left_out = errors.splitlines()
    # The first 36 % of the time are history, and the last hour is the horizon of the last forecast.
    assert re.fullmatch(r"koordctl: partial data: node n1: \d+ of 61 forecasts .*; check the scrapes", partial)
    assert left_out.startswith("koordctl: left out: node n2: no pod has usage and requests; do cAdvisor's series have")
    document = json.loads(out)
    assert {row["node"] for row in document["nodes"]} == {"n0", "n1"}
    assert [f"koordctl: {each}" for each in document["problems"]] == [partial, left_out]
