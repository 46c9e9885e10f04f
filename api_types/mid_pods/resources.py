"""Set the limits of one container of a Mid pod.

The rules, for CPU and memory each:

    L, R  mid limit and mid request: as stated under the Mid name, else the native ones in the unit of Mid resources;
          a missing one is the other
    L = 0, or nothing stated: the container keeps its values, as a limit of 0 means unlimited.
    native limit    = the author's, where it is above 0 and at most L, else L
    native request  = 0

CPU quota and memory limit then hold from the first process on, the container requests Mid resources alone, and the
rules applied again change nothing. Koordinator's webhook renames in the same way; it also overwrites stated Mid
resources, and sets no native limit. CPU is rounded up to milli-cores and memory to bytes, as the kubelet does.

Without native limits (`admission.nativeLimits: false`), native limit and request are removed where L is stated: the
pod stays BestEffort.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from decimal import Decimal
from typing import Any, Final, NamedTuple

from api_types import names
from api_types.kubernetes import quantities


class RulesRefused(ValueError):
    """The rules cannot be applied to an object; the text names the place, what was seen and what is wanted."""


def mapping(value: object, place: str) -> Mapping[str, Any]:
    """Return a mapping, an empty one for null. Raises RulesRefused."""
    if value is None:
        return {}
    if not isinstance(value, Mapping) or not all(isinstance(key, str) for key in value):
        raise RulesRefused(f"{place}: seen {_short(value)}, want a mapping")
    return value


def sequence(value: object, place: str) -> Sequence[Any]:
    """Return a sequence, an empty one for null. Raises RulesRefused."""
    if value is None:
        return ()
    if not isinstance(value, Sequence) or isinstance(value, str):
        raise RulesRefused(f"{place}: seen {_short(value)}, want a list")
    return value


def text(value: object, place: str) -> str:
    """Return a text, an empty one for null. Raises RulesRefused."""
    if value is None:
        return ""
    if not isinstance(value, str):
        raise RulesRefused(f"{place}: seen {_short(value)}, want text")
    return value


def _short(value: object) -> str:
    return repr(value)[:60]


REQUESTS, LIMITS = "requests", "limits"


class ResourcePair(NamedTuple):
    """Names of a resource: the native one, and that of the Mid resource."""

    native: str
    mid: str


PAIRS: Final = (ResourcePair(names.CPU, names.MID_CPU), ResourcePair(names.MEMORY, names.MID_MEMORY))
_NONE: Final = "0"
_LEAST: Final = (
    (names.MID_CPU, 10, 'less than a hundredth of a core: it is counted in milli-cores, "1000" is one core'),
    (names.MID_MEMORY, 4 << 20, 'less than 4 MiB: it is counted in bytes, such as "256Mi"'),
)


def limited(resources: object, place: str, *, native_limits: bool = True) -> dict[str, Any]:
    """Return the `resources` of a container under the rules; values that they keep have the author's text.

    Without `native_limits` it gets Mid resources alone. `place` is the path of the container, for the text of an error.
    Raises RulesRefused.
    """
    document = mapping(resources, f"{place}.resources")
    requests = dict(mapping(document.get(REQUESTS), f"{place}.resources.requests"))
    limits = dict(mapping(document.get(LIMITS), f"{place}.resources.limits"))
    for pair in PAIRS:
        _limit(pair, requests, limits, f"{place}.resources", native_limits=native_limits)
    return {**document, **({REQUESTS: requests} if requests else {}), **({LIMITS: limits} if limits else {})}


def states_an_amount(resources: object, pair: ResourcePair) -> bool:
    """Return whether a container has a limit above 0 after the rules, of this resource. Raises RulesRefused."""
    limits = mapping(mapping(resources, "resources").get(LIMITS), "resources.limits")
    return pair.mid in limits and _amount(limits[pair.mid], pair.mid) > 0


def smallest_amounts(resources: object) -> Iterator[str]:
    """Yield each Mid limit that is so small that its unit is probably a mistake, and its unit. Raises RulesRefused."""
    limits = mapping(mapping(resources, "resources").get(LIMITS), "resources.limits")
    for name, least, unit in _LEAST:
        if 0 < _amount(limits.get(name, _NONE), name) < least:
            yield f"{name}: {limits[name]}, which is {unit}"


def _limit(
    pair: ResourcePair, requests: dict[str, Any], limits: dict[str, Any], place: str, *, native_limits: bool
) -> None:
    """Apply the rules to one resource, in place."""
    for where, amounts in ((REQUESTS, requests), (LIMITS, limits)):
        for name in pair:
            if name in amounts:
                _check(name, amounts[name], f"{place}.{where}")
    source = pair.mid if pair.mid in requests or pair.mid in limits else pair.native
    stated = [amounts[source] for amounts in (limits, requests) if source in amounts]
    if not stated or _amount(stated[0], source) == 0:
        return
    limit, request = (_mid_text(source, pair, value) for value in (stated[0], requests.get(source, stated[0])))
    if _amount(request, pair.mid) > _amount(limit, pair.mid):
        raise RulesRefused(
            f"{place}: the request of {source}, {requests[source]}, is above its limit, {stated[0]}; "
            "want a limit of at least the request"
        )
    requests[pair.mid], limits[pair.mid] = request, limit
    if not native_limits:
        requests.pop(pair.native, None)
        limits.pop(pair.native, None)
        return
    is_cpu = pair.native == names.CPU
    cap = quantities.format_cpu_millis(quantities.resource_units(pair.mid, limit)) if is_cpu else limit
    if not 0 < _amount(limits.get(pair.native, _NONE), pair.native) <= _amount(cap, pair.native):
        limits[pair.native] = cap
    if pair.native not in requests or _amount(requests[pair.native], pair.native):
        requests[pair.native] = _NONE


def _check(name: str, value: object, place: str) -> None:
    amount = _amount(value, name, place)
    if amount < 0:
        raise RulesRefused(f"{place}: {name}: {value} is negative; want 0 or more")
    if amount > quantities.MOST // (1000 if name == names.CPU else 1):
        raise RulesRefused(f"{place}: {name}: {value} is more than Kubernetes counts; want a smaller amount")
    if name in names.MID_RESOURCES and amount != int(amount):
        raise RulesRefused(
            f'{place}: {name}: {value} is not a whole number; mid-cpu is counted in milli-cores ("1000" is one core), '
            'mid-memory in bytes ("64Mi")'
        )


def _amount(value: object, name: str, place: str = "resources") -> Decimal:
    """Return the exact amount in cores, bytes or the unit of the Mid resource."""
    try:
        return quantities.parse(value)  # type: ignore[arg-type]
    except quantities.InvalidQuantity as error:
        raise RulesRefused(f"{place}: {name}: {error}") from None


def _mid_text(source: str, pair: ResourcePair, value: Any) -> Any:
    if source == names.CPU:
        return str(quantities.cpu_millis(value))
    if source == pair.mid or quantities.parse(value) == (whole := quantities.resource_units(pair.mid, value)):
        return value
    return str(whole)
