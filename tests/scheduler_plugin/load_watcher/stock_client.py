"""Client of the stock Trimaran plugins for a `watcherAddress`.

It is written from the recorded behaviour of the stock client and uses no code of the product, so stock plugins can read
every watcher that this client can read. It is as strict: a value of another type is an error, unknown keys are skipped,
and missing or null keys have the zero value.
"""

from __future__ import annotations

import http.client
import json
import math
from typing import Any, NamedTuple
from urllib.parse import urlsplit

TIMEOUT_SECONDS = 55.0
HEADERS = {"Content-Type": "application/json"}


class Refused(Exception):
    """The status is not 200."""


class Metric(NamedTuple):
    """Record with the keys of the wire."""

    name: str
    type: str
    operator: str
    rollup: str
    value: float


def metrics_by_node(address: str) -> dict[str, list[Metric]]:
    """Fetch the records once; the stock client does so every 30 seconds. A node without records is skipped.

    Raises Refused, TypeError, ValueError.
    """
    url = urlsplit(address)
    connection = http.client.HTTPConnection(url.hostname or "", url.port, timeout=TIMEOUT_SECONDS)
    try:
        connection.request("GET", f"{url.path}/watcher", headers=HEADERS)
        response = connection.getresponse()
        body = response.read()
    finally:
        connection.close()
    if response.status != http.client.OK:
        raise Refused(f"received status code {response.status} from watcher")
    return _nodes(json.loads(body, parse_constant=_no_number))


def _no_number(text: str) -> float:
    raise ValueError(f"{text} is not JSON")


def _nodes(document: Any) -> dict[str, list[Metric]]:
    top = _of_kind(document, dict)
    math.trunc(_number(top.get("timestamp")))
    window = _of_kind(top.get("window"), dict)
    _of_kind(window.get("duration"), str)
    for key in ("start", "end"):
        math.trunc(_number(window.get(key)))
    _of_kind(top.get("source"), str)
    nodes = _of_kind(_of_kind(top.get("data"), dict).get("NodeMetricsMap"), dict)
    read = {name: [_metric(each) for each in _of_kind(node.get("metrics"), list)] for name, node in nodes.items()}
    return {name: metrics for name, metrics in read.items() if metrics}


def _metric(record: Any) -> Metric:
    name, kind, operator, rollup = (_of_kind(record.get(key), str) for key in ("name", "type", "operator", "rollup"))
    return Metric(name, kind, operator, rollup, _number(record.get("value")))


def _number(value: Any) -> float:
    if value is None:
        return 0.0
    if isinstance(value, bool) or not isinstance(value, int | float):
        raise TypeError(f"{value!r} is not a number")
    return float(value)


def _of_kind(value: Any, kind: type) -> Any:
    if value is None:
        return kind()
    if not isinstance(value, kind):
        raise TypeError(f"{value!r} is not a {kind.__name__}")
    return value
