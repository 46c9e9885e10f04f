"""The guard around a package's predictor: nothing that it does reaches the agent."""

import numpy as np
import pytest

from koordlet.prediction.packages import guard
from koordlet.prediction.packages.guard import Failed, GuardedPredictor
from tests.koordlet.prediction.packages.loads import load


class Clock:
    """CPU time of the thread, which only a slow call moves."""

    def __init__(self):
        self.seconds = 0.0

    def __call__(self):
        return self.seconds


class Unprintable(Exception):
    def __str__(self):
        raise RuntimeError("no text")

    __repr__ = __str__


class UnnamedType(type):
    @property
    def __name__(cls):
        raise RuntimeError("no name")


class UnnamedError(Exception, metaclass=UnnamedType):
    pass


def predictor(predict=lambda _load: 1.0, **methods):
    """Return a class with these methods, each without `self`."""
    named = {"predict": predict, **methods}
    return type("Predictor", (), {name: staticmethod(method) for name, method in named.items()})


def guarded(build, clock=None):
    warnings = []
    found = GuardedPredictor("a/b", build, clock or Clock(), warnings.append)
    return found, warnings


def raising(error):
    def call(*_):
        raise error

    return call


@pytest.mark.parametrize("answer", [0, 2, 1.5, np.float32(1.5), np.int64(3), np.float64(0)])
def test_a_number_is_a_peak_of_a_plain_type(answer):
    found = guarded(predictor(lambda _: answer))[0].predict(load())
    assert (found, type(found)) == (float(answer), float)


def test_a_text_is_a_reason_and_does_not_switch_off():
    found, warnings = guarded(predictor(lambda _: "no\nring yet " + "x" * 1000))
    assert found.predict(load()).startswith("no ring yet xxx")
    assert len(found.predict(load())) < 300
    assert (found.off_reason, warnings) == (None, [])


@pytest.mark.parametrize(
    "answer", [float("nan"), float("inf"), -0.1, None, True, 1j, [1.0], np.array(1.0), np.array([1.0, 2.0]), b"1"]
)
def test_any_other_answer_switches_off(answer):
    found, warnings = guarded(predictor(lambda _: answer))
    with pytest.raises(Failed, match=r"predict\(cpu\) returned "):
        found.predict(load())
    assert found.off_reason is not None
    assert len(warnings) == 1
    assert warnings[0].startswith("predictor a/b is switched off until the agent restarts: predict(cpu) returned ")


@pytest.mark.parametrize(
    "error",
    [
        ValueError("boom"), SystemExit(3), RecursionError("deep"), MemoryError(), GeneratorExit(), Unprintable(),
        UnnamedError("x"), BaseException("base"),
    ],
    ids=lambda error: type.__getattribute__(type(error), "__mro__")[0].__qualname__,
)  # fmt: skip
def test_anything_that_is_raised_switches_off_and_is_called_no_more(error):
    calls = []
    found, warnings = guarded(predictor(lambda _: calls.append(1) or raising(error)()))
    for _ in range(3):
        with pytest.raises(Failed):
            found.predict(load())
    assert (len(calls), len(warnings)) == (1, 1)


def test_the_interrupt_of_a_user_is_not_caught():
    found, _ = guarded(predictor(raising(KeyboardInterrupt())))
    with pytest.raises(KeyboardInterrupt):
        found.predict(load())


@pytest.mark.parametrize("error", [ValueError("x"), SystemExit(1), Unprintable(), MemoryError()])
def test_a_constructor_that_raises_switches_off(error):
    found, warnings = guarded(raising(error))
    assert found.off_reason.startswith("it cannot be built: ")
    assert len(warnings) == 1
    with pytest.raises(Failed):
        found.predict(load())
    assert (found.save(), found.observes) == (None, False)


@pytest.mark.parametrize("name", ["predict", "observe", "save", "restore"])
def test_an_object_whose_attributes_raise_switches_off(name):
    def getter(_self):
        raise SystemExit(9)

    built = type("Odd", (), {"predict": lambda _self, _load: 1.0, name: property(getter)})
    found, _ = guarded(built)
    assert found.off_reason == "it cannot be built: SystemExit: 9"


def test_an_object_without_predict_switches_off():
    assert guarded(object)[0].off_reason == "it has no method predict(load)"


# CPU time


def spending(clock, seconds, answer=None):
    def call(*_):
        clock.seconds += seconds
        return answer

    return call


def test_three_slow_calls_in_a_row_switch_off():
    clock = Clock()
    found, _ = guarded(predictor(spending(clock, 0.021, 1.0)), clock)
    assert [found.predict(load()) for _ in range(2)] == [1.0, 1.0]
    with pytest.raises(Failed, match=r"predict\(cpu\) needed more than 20 ms of CPU time, 3 times in a row, 21 ms"):
        found.predict(load())


def test_a_fast_call_of_the_same_kind_begins_the_count_again():
    clock = Clock()
    spent = iter([0.021, 0.021, 0.001, 0.021, 0.021])
    found, _ = guarded(predictor(lambda _: spending(clock, next(spent), 1.0)()), clock)
    assert [found.predict(load()) for _ in range(5)] == [1.0] * 5


# State


def test_a_state_is_bytes_of_a_plain_type():
    class Odd(bytes):
        def __len__(self):
            raise RuntimeError

    for state in (b"abc", bytearray(b"abc"), Odd(b"abc")):
        found = guarded(predictor(save=lambda state=state: state))[0].save()
        assert (found, type(found)) == (b"abc", bytes)


@pytest.mark.parametrize("save", [lambda: "text", lambda: None, raising(SystemExit(1)), raising(Unprintable())])
def test_a_state_that_is_not_bytes_or_raises_switches_off(save):
    found, _ = guarded(predictor(save=save))
    assert found.save() is None
    assert found.off_reason.startswith("save() ")


def test_a_large_state_is_not_stored_is_logged_once_and_the_predictor_goes_on():
    found, warnings = guarded(predictor(save=lambda: bytes(guard.MOST_STATE_BYTES + 1)))
    assert [found.save() for _ in range(3)] == [None, None, None]
    assert len(warnings) == 1
    assert "65537 bytes, want at most 65536" in warnings[0]
    assert found.predict(load()) == 1.0
    assert guarded(predictor(save=lambda: bytes(guard.MOST_STATE_BYTES)))[0].save() == bytes(guard.MOST_STATE_BYTES)


@pytest.mark.parametrize("error", [ValueError("old"), SystemExit(1), Unprintable(), MemoryError()])
def test_a_refused_state_costs_only_that_state_and_the_predictor_is_built_again(error):
    built = []

    def build():
        built.append(predictor(restore=raising(error))())
        return built[-1]

    found, warnings = guarded(build)
    found.restore(b"abc")
    assert (found.off_reason, len(warnings), len(built)) == (None, 1, 2)
    assert warnings[0].startswith("predictor a/b: its stored state of 3 bytes is not used and begins again: ")
    assert found.predict(load()) == 1.0
