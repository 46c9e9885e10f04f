"""Queries of `koordctl backtest` to a scripted or a hostile Prometheus: each error names the fix."""

import json
import re
import shutil

import numpy as np
import pytest

from koordctl import __main__ as koordctl
from koordctl.backtest.prometheus import CannotRead, Prometheus, RejectedQuery, Server, TimeRange
from tests.fakes import certificates
from tests.koordctl.backtest.conftest import DAY, DAYS, START, STEP
from tests.koordctl.backtest.prometheus_proxy import Proxy, serving

pytestmark = [pytest.mark.slow, pytest.mark.timeout(180)]
BEGIN = 1_700_000_400
TOO_MUCH = "query processing would load too many samples into memory in query execution"


def answer(result, **more):
    return 200, json.dumps({"status": "success", "data": {"result": result}, **more}).encode()


def refusal(kind, text):
    return 400, json.dumps({"status": "error", "errorType": kind, "error": text}).encode()


def numbered(most):
    """Return answers with the number of each step, where a query has at most some steps."""

    def change(_path, parameters, *_):
        start, end, step = (int(parameters[name]) for name in ("start", "end", "step"))
        if (end - start) // step + 1 > most:
            return refusal("execution", TOO_MUCH)
        points = [(at, str((at - BEGIN) // step)) for at in range(start, end + 1, step)]
        return answer([{"metric": {"pod": "a"}, "values": points}])

    return change


def steps_asked(proxy):
    return [(int(each["end"]) - int(each["start"])) // int(each["step"]) + 1 for each in proxy.queries()]


@pytest.mark.parametrize(
    ("step", "steps", "most", "asked"),
    [
        (1_200, 12, 12, [12]),
        (1_200, 12, 3, [12, 6, 3, 3, 3, 3]),
        (1_200, 7, 3, [7, 3, 3, 1]),
        (7_200, 2, 1, [2, 1, 1]),
        (60, 10_001, 20_000, [10_000, 1]),
    ],
)
def test_a_query_that_reads_too_much_is_divided_down_to_an_hour(proxy, client, step, steps, most, asked):
    proxy.change = numbered(most)
    (found,) = client.range("up", TimeRange(BEGIN, step, steps))
    assert steps_asked(proxy) == asked
    np.testing.assert_array_equal(found.values, np.arange(steps))


@pytest.mark.parametrize(("step", "most", "asked"), [(1_200, 2, [6, 3]), (1_800, 1, [6, 3, 2]), (7_200, 0, [6, 3, 1])])
def test_an_hour_that_is_too_much_is_an_error_with_the_fix(proxy, client, step, most, asked):
    proxy.change = numbered(most)
    with pytest.raises(CannotRead, match=r"too much data for one query: .*; raise --query\.max-samples"):
        client.range("up", TimeRange(BEGIN, step, 6))
    assert steps_asked(proxy) == asked


def test_a_point_counts_at_the_nearest_step_of_its_part_and_each_series_has_its_own_steps(proxy, client):
    proxy.change = lambda *_: answer([
        {"metric": {"pod": "a"}, "values": [(BEGIN + at, str(at)) for at in (-60, 20, 41, 180)]},
        {"metric": {"pod": "b"}, "values": [(BEGIN + 120, "3"), (BEGIN + 60, "x")]},
        {"metric": {"pod": "c"}, "values": []},
    ])  # fmt: skip
    found = {each.labels["pod"]: each.values for each in client.range("up", TimeRange(BEGIN, 60, 3))}
    assert list(found) == ["a", "b", "c"]
    np.testing.assert_array_equal(found["a"], [20, 41, np.nan])
    np.testing.assert_array_equal(found["b"], [np.nan, np.nan, 3])
    assert np.isnan(found["c"]).all()


def test_warnings_are_kept_without_hints_and_cut(proxy, client):
    given = ["PromQL info: metric might not be a counter", "w" * 301, "one store did not answer"]
    proxy.change = lambda *_: answer([], warnings=given)
    client.instant("up", BEGIN)
    assert client.warnings == {"w" * 300, "one store did not answer"}


@pytest.mark.parametrize(
    ("given", "error", "text"),
    [
        (
            refusal("bad_data", "parse error"),
            RejectedQuery,
            "rejects up: parse error; check --selector and the metric",
        ),
        (refusal("internal", "disk is broken"), CannotRead, "returned 400: internal: disk is broken"),
        (refusal("timeout", "took a while"), CannotRead, "too much data for one query: took a while; raise"),
        (refusal("execution", TOO_MUCH), CannotRead, "too much data for one query"),
        ((401, b""), CannotRead, "refused the credentials: 401; give a token that may query with --token-file"),
        ((403, b""), CannotRead, "refused the credentials: 403"),
        ((302, b""), CannotRead, "returned 302 and no result of Prometheus; check the address"),
        ((200, b"[]"), CannotRead, "returned 200 and no result of Prometheus"),
    ],
)
def test_an_answer_without_a_result_is_an_error_that_names_the_fix(proxy, client, given, error, text):
    proxy.change = lambda *_: given
    with pytest.raises(error) as raised:
        client.instant("up", BEGIN)
    assert str(raised.value).startswith(proxy.url)
    assert text in str(raised.value)


def test_credentials_in_an_address_are_not_shown(closed_port):
    server = Server(f"http://me:secret@127.0.0.1:{closed_port}/")
    assert server.shown == f"http://127.0.0.1:{closed_port}/"
    client = Prometheus(server)
    with pytest.raises(
        CannotRead, match=r"cannot be reached: .*check --prometheus, --token-file and --ca-file"
    ) as raised:
        client.instant("up", BEGIN)
    client.close()
    assert "secret" not in str(raised.value)


OPTIONS = (
    "--from",
    START,
    "--to",
    START + DAYS * DAY - STEP,
    "--step",
    "15m",
    "--interval",
    "6h",
    "-o",
    "json",
    "--history",
    "off",
)


def run(capsys, *arguments):
    code = koordctl.main(["backtest", *map(str, arguments), "--workers", "1"])
    captured = capsys.readouterr()
    return code, captured.out, captured.err


def matrix(*values):
    series = [{"metric": {"pod": str(number)}, "values": each} for number, each in enumerate(values)]
    return {"status": "success", "data": {"resultType": "matrix", "result": series}}


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
            assert "check --prometheus, --token-file and --ca-file" in errors
        trusted = ("--ca-file", own.certificate_path)
        assert run(capsys, "--prometheus", proxy.url, *trusted, *OPTIONS)[:2] == wanted[:2]
        assert (
            "want the PEM certificates"
            in run(capsys, "--prometheus", proxy.url, "--ca-file", own.key_path, *OPTIONS)[2]
        )
        assert (
            "want the PEM certificates"
            in run(capsys, "--prometheus", proxy.url, "--ca-file", tmp_path / "none", *OPTIONS)[2]
        )
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
        code, out, errors = run(capsys, "--prometheus", proxy.url, *OPTIONS, "--interval", "1h")
    assert code in (0, 1)
    partial, left_out = errors.splitlines()
    # The first 36 % of the time are history, and the last hour is the horizon of the last forecast.
    assert re.fullmatch(r"partial data: node n1: \d+ of 61 forecasts .*; check the scrapes", partial)
    assert left_out.startswith("left out: node n2: no pod has usage and requests; do cAdvisor's series have")
    document = json.loads(out)
    assert {row["node"] for row in document["nodes"]} == {"n0", "n1"}
    assert [f"{each}" for each in document["problems"]] == [partial, left_out]
