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
