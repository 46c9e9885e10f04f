"""Settings of the uninstallation have bounds: an hour for pods to end, a day in all, names as long as Kubernetes'."""

import pydantic
import pytest

from manager.cli.uninstall import UninstallSettings


@pytest.mark.parametrize(
    ("key", "good", "bad"),
    [
        ("stop_seconds", [0.01, 3600], [0, 3600.5]),
        ("timeout_seconds", [0.01, 86400], [0, 86400.5]),
        ("namespace", ["n", "n" * 63], ["", "n" * 64]),
        ("lease", ["n", "n" * 253], ["", "n" * 254]),
        ("config_map", ["n", "n" * 253], ["", "n" * 254]),
    ],
)
def test_a_value_at_a_bound_is_taken_and_one_beyond_is_refused(key, good, bad):
    assert [getattr(UninstallSettings(**{key: each}), key) for each in good] == good
    for each in bad:
        with pytest.raises(pydantic.ValidationError, match=key):
            UninstallSettings(**{key: each})
