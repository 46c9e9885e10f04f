"""Texts and rates of pages, and the addresses that a socket listens on."""

import errno
import socket
import types

import prometheus_client
import pytest

from component_base import build_info, gauge_rows, http_endpoint, listening
from component_base.version import VERSION


def test_json_is_indented_by_two_and_ends_with_a_line_feed():
    page = http_endpoint.json_page({"a": [1]})
    assert page.content_type == "application/json"
    assert b"".join(page.body) == b'{\n  "a": [\n    1\n  ]\n}\n'


def test_large_json_is_made_in_pieces_that_are_one_document():
    value = ["x" * 1000] * 200  # three pieces and a rest
    pieces = list(http_endpoint.json_page(value).body)
    line = '  "' + "x" * 1000 + '"'
    assert b"".join(pieces).decode() == "[\n" + ",\n".join([line] * 200) + "\n]\n"
    assert len(pieces) == 4


@pytest.mark.parametrize("began_at", [0.0, 5000.0])
def test_metrics_are_made_again_after_nine_times_the_cpu_time_of_their_making(monkeypatch, began_at):
    now = types.SimpleNamespace(seconds=100.0, cpu=began_at)
    clocks = types.SimpleNamespace(monotonic=lambda: now.seconds, thread_time=lambda: now.cpu)
    monkeypatch.setattr(http_endpoint, "time", clocks)
    monkeypatch.setattr(http_endpoint, "_MOST_NEW_BYTES_PER_SECOND", float("inf"))
    made = []

    def page(_registry):
        now.cpu += 2.0
        made.append(1)
        return b"%d" % len(made)

    monkeypatch.setattr(gauge_rows, "page", page)
    metrics = http_endpoint._Metrics(prometheus_client.CollectorRegistry())
    for seconds, body in ((100.0, b"1"), (117.9, b"1"), (118.0, b"2"), (135.9, b"2"), (136.0, b"3")):
        now.seconds = seconds
        assert metrics({}).body == body, seconds


def test_metrics_that_cost_no_time_are_made_again_at_512_kib_a_second(monkeypatch):
    now = types.SimpleNamespace(seconds=100.0)
    clocks = types.SimpleNamespace(monotonic=lambda: now.seconds, thread_time=lambda: 7.0)
    monkeypatch.setattr(http_endpoint, "time", clocks)
    made = iter((b"a" * 2**20, b"b"))
    monkeypatch.setattr(gauge_rows, "page", lambda _registry: next(made))
    metrics = http_endpoint._Metrics(prometheus_client.CollectorRegistry())
    for seconds, begin in ((100.0, b"a"), (101.9, b"a"), (102.0, b"b")):
        now.seconds = seconds
        assert metrics({}).body[:1] == begin, seconds


def test_a_series_without_a_value_for_each_label_is_an_error():
    gauge = gauge_rows.GaugeRows("many", "Many.", ["node", "term"], lambda: [(("n1",), 2.0)])
    with pytest.raises(ValueError, match="shorter"):
        list(gauge.samples)


def test_the_version_of_a_program_is_a_metric_of_the_value_one():
    registry = prometheus_client.CollectorRegistry()
    build_info.register(registry, "some_program")
    assert registry.get_sample_value("some_program_build_info", {"version": VERSION}) == 1.0


def without_ipv6(monkeypatch, number):
    """Let the kernel refuse sockets of IPv6; return the families that were tried."""
    tried = []
    create = socket.create_server

    def refusing(address, *, family, dualstack_ipv6):
        tried.append(family)
        if family == socket.AF_INET6:
            raise OSError(number, "refused")
        return create(address, family=family, dualstack_ipv6=dualstack_ipv6)

    monkeypatch.setattr(socket, "create_server", refusing)
    monkeypatch.setattr(
        socket,
        "getaddrinfo",
        lambda address, port, **_: [
            (socket.AF_INET6 if ":" in address else socket.AF_INET, socket.SOCK_STREAM, 6, "", (address, port))
        ],
    )
    return tried


@pytest.mark.parametrize("number", [errno.EAFNOSUPPORT, errno.EADDRNOTAVAIL, errno.EPROTONOSUPPORT])
def test_every_address_of_a_host_without_ipv6_is_every_one_of_ipv4(monkeypatch, number):
    without_ipv6(monkeypatch, number)
    with listening.listen("::", 0, purpose="pages", fix="choose another port") as opened:
        assert opened.getsockname()[0] == "0.0.0.0"


@pytest.mark.parametrize(
    ("address", "number", "where"),
    [("::", errno.EADDRINUSE, "[::]:7001"), ("::1", errno.EADDRNOTAVAIL, "[::1]:7001")],
)
def test_any_other_refusal_names_the_address_and_tries_no_other_one(monkeypatch, address, number, where):
    tried = without_ipv6(monkeypatch, number)
    with pytest.raises(listening.CannotListen) as refused:
        listening.listen(address, 7001, purpose="pages", fix="choose another port")
    assert str(refused.value) == f"cannot listen on {where} for pages: refused; choose another port"
    assert tried == [socket.AF_INET6]


def test_an_opened_socket_does_not_block_an_event_loop():
    with listening.listen("127.0.0.1", 0, purpose="pages", fix="choose another port") as opened:
        assert not opened.getblocking()
