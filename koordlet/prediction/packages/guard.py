"""Guard around the predictor of a package: whatever one call does, the agent goes on.

| what it does                                                       | what happens                                |
|--------------------------------------------------------------------|---------------------------------------------|
| raises anything but KeyboardInterrupt, SystemExit included         | it is switched off until the agent restarts |
| returns NaN, an infinite or negative number, or another type       | the same                                    |
| needs more than 20 ms of CPU time three times in a row             | the same                                    |
| returns a text from `predict`                                      | no prediction, for that reason              |
| refuses a stored state, or raises there                            | that state is lost; it is built again       |
| saves more than 64 KiB                                             | its state is not stored                     |

Slow calls are counted for each method and resource: a fast one does not excuse a slow one of another kind. The clock is
that of the thread's CPU time, so a busy node makes no call slow. A call that never ends blocks the agent: only its
liveness probe ends it.
"""

from __future__ import annotations

import collections
import math
import numbers
from collections.abc import Callable
from typing import Any, Final, TypeVar

from koordlet.prediction.packages.protocol import Load

ResultT = TypeVar("ResultT")

LONGEST_SECONDS: Final = 0.020
"""CPU time of one call."""
MOST_SLOW_CALLS: Final = 3
"""In a row, of one method and resource."""
MOST_STATE_BYTES: Final = 64 << 10
_LONGEST_TEXT: Final = 200
_UNPRINTABLE: Final = "an error that cannot be printed"


class Failed(Exception):
    """A call gave nothing that can be used; the predictor is switched off."""


def plain(text: str) -> str:
    """Return a text of a package as one short line, also if it is of a class of its own."""
    line = str.encode(text, "utf-8", "replace")[: 4 * (_LONGEST_TEXT + 1)].decode("utf-8", "replace")
    shown = "".join(character if character.isprintable() else " " for character in line).strip()
    return shown if len(shown) <= _LONGEST_TEXT else f"{shown[:_LONGEST_TEXT]}..."


def described(error: BaseException) -> str:
    """Return class and text of an error whose own methods may raise."""
    try:
        return plain(f"{plain(type.__getattribute__(type(error), '__name__'))}: {plain(str(error))}")
    except KeyboardInterrupt:
        raise
    except BaseException:
        return _UNPRINTABLE


class GuardedPredictor:
    """One predictor of a package, and whether it is switched off. `build` returns the object of the package."""

    def __init__(
        self, name: str, build: Callable[[], Any], thread_seconds: Callable[[], float], warn: Callable[[str], None]
    ) -> None:
        self.name = name
        self.off_reason: str | None = None
        """Why it is switched off; None while it is not."""
        self._build = build
        self._thread_seconds = thread_seconds
        self._warn = warn
        self._slow_calls: collections.Counter[tuple[str, str]] = collections.Counter()
        self._has_large_state = False
        self._predictor: Any = None
        self._optional: dict[str, Callable[..., Any] | None] = {}
        self._rebuild()

    @property
    def observes(self) -> bool:
        """Return whether it is to be given every load."""
        return self.off_reason is None and self._optional.get("observe") is not None

    def predict(self, load: Load) -> float | str:
        """Return the peak of the warm pods and S, or the reason for none. Raises Failed."""
        return self._call("predict", load.resource, lambda: _checked(self._predictor.predict(load)))

    def observe(self, load: Load) -> None:
        """Pass a load to a predictor that learns."""
        self._try("observe", load.resource, load)

    def save(self, most_bytes: int = MOST_STATE_BYTES) -> bytes | None:
        """Return the state to store, None without one, and for one that is too large: that is logged once."""
        state: bytes | None = self._try("save", "")
        if state is None:
            return None
        if len(state) > most_bytes:
            if not self._has_large_state:
                self._warn(
                    f"predictor {self.name}: its state has {len(state)} bytes, want at most {most_bytes}: it is "
                    "not stored, and is lost when the agent restarts; return less from save()"
                )
            self._has_large_state = True
            return None
        return state

    def restore(self, state: bytes) -> None:
        """Load a stored state; one that is refused is lost, and the predictor is built again."""
        method = self._optional.get("restore")
        if self.off_reason is not None or method is None:
            return
        try:
            method(state)
        except KeyboardInterrupt:
            raise
        except BaseException as error:
            self._warn(
                f"predictor {self.name}: its stored state of {len(state)} bytes is not used and begins again: "
                f"{described(error)}"
            )
            self._rebuild()

    def forget(self) -> None:
        """Build the predictor again, without a state."""
        if self.off_reason is None:
            self._rebuild()

    def _rebuild(self) -> None:
        try:
            self._predictor = self._build()
            self._optional = {name: _method(self._predictor, name) for name in ("observe", "save", "restore")}
            is_predictor = _method(self._predictor, "predict") is not None
        except KeyboardInterrupt:
            raise
        except BaseException as error:
            self._switch_off(f"it cannot be built: {described(error)}")
            return
        if not is_predictor:
            self._switch_off("it has no method predict(load)")

    def _try(self, method: str, resource: str, *arguments: Any) -> Any:
        """Call an optional method; None without it, and after a failure."""
        bound = self._optional.get(method)
        if self.off_reason is not None or bound is None:
            return None
        try:
            checked = _saved if method == "save" else lambda _answer: None
            return self._call(method, resource, lambda: checked(bound(*arguments)))
        except Failed:
            return None

    def _call(self, method: str, resource: str, call: Callable[[], ResultT]) -> ResultT:
        """Return the result of a call, and count its CPU time. Raises Failed."""
        if self.off_reason is not None:
            raise Failed(self.off_reason)
        shown = f"{method}({resource})"
        key = (method, resource)
        begin = self._thread_seconds()
        try:
            result = call()
        except KeyboardInterrupt:
            raise
        except BaseException as error:
            reason = str(error) if type(error) is _Unusable else f"raised {described(error)}"
            raise self._switch_off(f"{shown} {reason}") from None
        spent = self._thread_seconds() - begin
        self._slow_calls[key] = self._slow_calls[key] + 1 if spent > LONGEST_SECONDS else 0
        if self._slow_calls[key] >= MOST_SLOW_CALLS:
            limit = f"more than {1000 * LONGEST_SECONDS:g} ms of CPU time, {MOST_SLOW_CALLS} times in a row"
            raise self._switch_off(f"{shown} needed {limit}, {1000 * spent:.0f} ms the last time")
        return result

    def _switch_off(self, reason: str) -> Failed:
        self.off_reason = reason
        self._predictor, self._optional = None, {}
        self._warn(
            f"predictor {self.name} is switched off until the agent restarts: {reason}; fix or remove its package"
        )
        return Failed(reason)


class _Unusable(Exception):
    """What a call returned cannot be used."""


def _method(predictor: Any, name: str) -> Callable[..., Any] | None:
    attribute = getattr(predictor, name, None)
    return attribute if callable(attribute) else None


def _checked(answer: Any) -> float | str:
    """Return a number or a text of plain types. Raises _Unusable."""
    if isinstance(answer, str):
        return plain(answer) or "it gave no reason"
    if isinstance(answer, bool) or not isinstance(answer, numbers.Real):
        raise _Unusable(f"returned {_type_name(answer)}, want a number or a text")
    number = float(answer)
    if not 0 <= number < math.inf:
        raise _Unusable(f"returned {number}, want a finite number that is not negative")
    return number


def _saved(state: Any) -> bytes:
    if not isinstance(state, bytes | bytearray):
        raise _Unusable(f"returned {_type_name(state)}, want bytes")
    return memoryview(state).tobytes()  # of plain bytes, whatever the class


def _type_name(value: Any) -> str:
    return plain(type.__getattribute__(type(value), "__name__"))
