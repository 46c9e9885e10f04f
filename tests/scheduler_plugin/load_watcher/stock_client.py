"""What the client in stock Trimaran plugins sends to a `watcherAddress`, and how it reads the answer.

Written from recorded behaviour (reference trimaran sections 9 and 10), with nothing of the product: a watcher that this
client understands is one that stock plugins understand. It is as picky: a value of another type is an error, what it
does not know is skipped, what is missing or null is the zero value.
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
    """Another status than 200."""


class Metric(NamedTuple):
    """One record, by the names of the wire."""

    name: str
    type: str
    operator: str
    rollup: str
    value: float


def metrics_by_node(address: str) -> dict[str, list[Metric]]:
    """Ask once, as every 30 seconds. A node whose list is empty is absent. Raises Refused, TypeError, ValueError."""
    url = urlsplit(address)
    connection = http.client.HTTPConnection(url.hostname or "", url.port, timeout=TIMEOUT_SECONDS)
    try:
        connection.request("GET", f"{url.path}/watcher", headers=HEADERS)
        answer = connection.getresponse()
        body = answer.read()
    finally:
        connection.close()
    if answer.status != http.client.OK:
        raise Refused(f"received status code {answer.status} from watcher")
    return _nodes(json.loads(body, parse_constant=_no_number))


def _no_number(text: str) -> float:
    raise ValueError(f"{text} is no JSON")


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
        raise TypeError(f"{value!r} is no number")
    return float(value)


def _of_kind(value: Any, kind: type) -> Any:
    if value is None:
        return kind()
    if not isinstance(value, kind):
        raise TypeError(f"{value!r} is no {kind.__name__}")
    return value
