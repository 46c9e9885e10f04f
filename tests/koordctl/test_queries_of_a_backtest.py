"""Queries of `koordctl backtest` to a scripted Prometheus: their parts, steps, warnings, tokens and errors."""

import http.server
import json
import threading

import numpy as np
import pytest

from koordctl.backtest.prometheus import BadQuery, CannotRead, Prometheus, Server, names_of
from koordctl.backtest.time_range import TimeRange
from tests.koordctl.backtest.prometheus_proxy import Proxy, serving

START = 1_700_000_400
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
        points = [(at, str((at - START) // step)) for at in range(start, end + 1, step)]
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
    (found,) = client.range("up", TimeRange(START, step, steps))
    assert steps_asked(proxy) == asked
    np.testing.assert_array_equal(found.values, np.arange(steps))


def test_the_next_query_is_not_larger_than_the_last_one_that_was_answered(proxy, client):
    proxy.change = numbered(3)
    asked = TimeRange(START, 1_200, 6)
    client.range("up", asked)
    proxy.asked.clear()
    client.range("up", asked)
    assert steps_asked(proxy) == [3, 3]


@pytest.mark.parametrize(("step", "most", "asked"), [(1_200, 2, [6, 3]), (1_800, 1, [6, 3, 2]), (7_200, 0, [6, 3, 1])])
def test_an_hour_that_is_too_much_is_an_error_with_the_fix(proxy, client, step, most, asked):
    proxy.change = numbered(most)
    with pytest.raises(CannotRead, match=r"too much data for one query: .*; raise --query\.max-samples"):
        client.range("up", TimeRange(START, step, 6))
    assert steps_asked(proxy) == asked


def test_a_point_counts_at_the_nearest_step_of_its_part_and_each_series_has_its_own_steps(proxy, client):
    proxy.change = lambda *_: answer([
        {"metric": {"pod": "a"}, "values": [(START + at, str(at)) for at in (-60, 20, 41, 180)]},
        {"metric": {"pod": "b"}, "values": [(START + 120, "3"), (START + 60, "x")]},
        {"metric": {"pod": "c"}, "values": []},
    ])  # fmt: skip
    found = {each.labels["pod"]: each.values for each in client.range("up", TimeRange(START, 60, 3))}
    assert list(found) == ["a", "b", "c"]
    np.testing.assert_array_equal(found["a"], [20, 41, np.nan])
    np.testing.assert_array_equal(found["b"], [np.nan, np.nan, 3])
    assert np.isnan(found["c"]).all()


def test_an_instant_has_labels_and_numbers(proxy, client):
    result = [
        {"metric": {"node": "n1"}, "value": (START, "2.5")},
        {"metric": {}, "value": (START, "many")},
        {"metric": {}},
    ]
    proxy.change = lambda *_: answer(result)
    (first, value), *others = client.instant("up", START)
    assert (first, value) == ({"node": "n1"}, 2.5)
    assert np.isnan([other for _, other in others]).all()
    assert proxy.queries("query") == [{"query": "up", "time": str(START)}]


def test_warnings_are_kept_without_hints_and_cut(proxy, client):
    given = ["PromQL info: metric might not be a counter", "w" * 301, "one store did not answer"]
    proxy.change = lambda *_: answer([], warnings=given)
    client.instant("up", START)
    assert client.warnings == {"w" * 300, "one store did not answer"}


@pytest.mark.parametrize(
    ("given", "error", "text"),
    [
        (
            refusal("bad_data", "parse error"),
            BadQuery,
            "rejects up: parse error; check --selector and the metric",
        ),
        (refusal("internal", "disk is broken"), CannotRead, "failed: internal: disk is broken"),
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
        client.instant("up", START)
    assert str(raised.value).startswith(proxy.url)
    assert text in str(raised.value)


def test_the_text_of_a_refusal_is_cut(proxy, client):
    proxy.change = lambda *_: refusal("internal", "z" * 301)
    with pytest.raises(CannotRead) as raised:
        client.instant("up", START)
    assert str(raised.value).count("z") == 300


def test_credentials_in_an_address_are_not_shown(closed_port):
    server = Server(f"http://me:secret@127.0.0.1:{closed_port}/")
    assert server.shown == f"http://127.0.0.1:{closed_port}/"
    client = Prometheus(server)
    with pytest.raises(CannotRead, match=r"cannot be reached: .*check --prometheus and --ca-file") as raised:
        client.instant("up", START)
    client.close()
    assert "secret" not in str(raised.value)


@pytest.mark.parametrize(
    ("content", "problem"),
    [
        (b"t0k\nen", "want one line of printable ASCII"), ("tök".encode(), "want one line of printable ASCII"),
        (b"\xff", "not text; want a readable file"), (None, "No such file or directory; want a readable file"),
    ],
)  # fmt: skip
def test_a_file_without_a_token_is_named(tmp_path, proxy, content, problem):
    file = tmp_path / "token"
    if content is not None:
        file.write_bytes(content)
    client = Prometheus(Server(proxy.url, file))
    with pytest.raises(CannotRead) as raised:
        client.instant("up", START)
    client.close()
    assert str(raised.value) == f"--token-file {file}: {problem}"


def test_a_token_is_read_for_each_query_and_never_shown(tmp_path):
    file = tmp_path / "token"
    file.write_text("t0ken\n")
    with serving(Proxy(change=lambda *_: answer([])), token="t0ken") as proxy:
        client = Prometheus(Server(proxy.url, file))
        assert client.instant("up", START) == []
        file.write_text("another")
        with pytest.raises(CannotRead, match="refused the credentials: 401") as raised:
            client.instant("up", START)
        client.close()
    assert "another" not in str(raised.value)


def test_certificates_that_cannot_be_read_are_named(tmp_path):
    (tmp_path / "empty").write_text("")
    for name in ("missing", "empty"):
        with pytest.raises(CannotRead, match=f"--ca-file {tmp_path / name}: .*; want a PEM file of certificates"):
            Prometheus(Server("https://x", None, tmp_path / name))


def test_names_are_sorted_and_a_series_without_the_label_has_none():
    found = [({"node": "b"}, 1.0), ({}, 2.0), ({"node": "a"}, 1.0), ({"node": "b"}, 0.0)]
    assert names_of(found, "node") == ["a", "b"]


class Redirecting(http.server.BaseHTTPRequestHandler):
    def do_POST(self):
        self.rfile.read(int(self.headers["Content-Length"]))
        self.send_response(307)
        self.send_header("Location", self.server.to)
        self.send_header("Content-Length", "0")
        self.end_headers()

    def log_message(self, *_):
        pass


def test_a_redirect_is_not_followed(proxy):
    proxy.asked.clear()
    proxy.change = lambda *_: answer([])
    with http.server.HTTPServer(("127.0.0.1", 0), Redirecting) as server:
        server.to = f"{proxy.url}/api/v1/query"
        thread = threading.Thread(target=server.serve_forever, args=[0.01])
        thread.start()
        client = Prometheus(Server(f"http://127.0.0.1:{server.server_port}"))
        try:
            with pytest.raises(CannotRead, match="returned 307 and no result of Prometheus"):
                client.instant("up", START)
        finally:
            client.close()
            server.shutdown()
            thread.join()
    assert proxy.asked == []
