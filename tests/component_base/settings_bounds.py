"""Bounds of the fields of settings, for the tests of every part."""

import pydantic


def problems(settings, field, value):
    """Return what is wrong with one field, which keeps a value that is accepted; other fields may have to fit to it."""
    try:
        accepted = settings(**{field: value})
    except pydantic.ValidationError as refused:
        return [each for each in refused.errors() if each["loc"] == (field,)]
    assert getattr(accepted, field) == value
    return []


def check_number(settings, field, least, most):
    """Check that a number at its bounds is accepted, and one beyond is not."""
    step = 1 if isinstance(least, int) else 0.01
    assert [problems(settings, field, value) for value in (least, most)] == [[], []]
    assert all(problems(settings, field, value) for value in (least - step, most + step))
