"""Annotations as a hostile node may write them: long, deep, and with many keys, values and mistakes."""

import json

STRATEGY = "node.koordinator.sh/colocation-strategy"
RESERVATION = "node.koordinator.sh/reservation"
MID_STATUS = "koordinator.sh/mid-resource-status"
LONGEST = 16 * 1024


def _fitting(make, number: int) -> str:
    """Return about the longest of the texts `make(0, number)`, `make(1, number)`, ... that is still decoded."""
    one, many = len(make(1, number)), len(make(101, number))
    size = (LONGEST - one) * 100 // (many - one)
    while len(make(size, number)) > LONGEST:
        size -= size // 100 + 1
    return make(size, number)


def _json(value) -> str:
    return json.dumps(value, separators=(",", ":"))


def _unknown_keys(size: int, number: int) -> str:
    return "{" + ",".join(f'"{key:x}":0' for key in range(number, number + size)) + "}"


def _similar_keys(size: int, number: int) -> str:
    return _json({f"midCPUThresholdPer{number + key:06}": 1 for key in range(size)})


def _deep(size: int, number: int) -> str:
    return f'{{"extensions":{{"a{number}":' + "[" * size + "]" * size + "}}"


def _extensions(size: int, number: int) -> str:
    return _json({"extensions": {"a": [f"{number}-{each}" for each in range(size)]}})


def _wrong_items(size: int, number: int) -> str:
    return _json({"nodePredictPolicy": {"n": number, "members": [number] * size}})


def _repeated_keys(size: int, number: int) -> str:
    return "{" + ",".join([f'"degradeTimeMinutes":{number}'] * size) + "}"


def _no_json(size: int, number: int) -> str:
    return f"{number:05}" + "[" * size


_KINDS = (_unknown_keys, _similar_keys, _deep, _extensions, _wrong_items, _repeated_keys, _no_json)


def decoded_text(number: int) -> str:
    """Return a strategy annotation of just the length that is decoded; another one for each number."""
    return _fitting(_KINDS[number % len(_KINDS)], 1000 + number)


def longest_text(number: int) -> str:
    """Return an annotation of 243 KiB, near the limit of the apiserver; another one for each number."""
    return _json({"extensions": {"a": [f"{number:05}-{each:05}" for each in range(17_700)]}})


def annotations(number: int) -> dict[str, str]:
    """Return the annotations of hostile node `number`: every other one is too long to be decoded."""
    if number % 2:
        return {STRATEGY: longest_text(number)}
    text = decoded_text(number // 2)
    return {STRATEGY: text, "example.com/other": "x" * 200_000, MID_STATUS: text, RESERVATION: text}


def node(number: int, version: int = 1) -> dict:
    """Return a hostile Node."""
    amounts = {"cpu": "10", "memory": "20Gi"}
    metadata = {"name": f"hostile-{number}", "uid": f"u{number}", "resourceVersion": str(version)}
    return {
        "metadata": metadata | {"annotations": annotations(number)},
        "status": {"capacity": amounts, "allocatable": amounts},
    }
