"""Incomplete points, long lists of names, and the TLS settings of providers."""

import ssl

import pytest

from scheduler_plugin.load_watcher.providers import http_source, prometheus, registry, signalfx
from scheduler_plugin.load_watcher.providers.http_source import Reach
from scheduler_plugin.load_watcher.providers.provider_spec import ProviderSpec


def test_a_point_of_signalfx_without_a_value_is_skipped() -> None:
    assert signalfx._values([[1], [2, 20], [3, None], "x", [4, 40, 1]]) == [20.0, 40.0]


@pytest.mark.parametrize(
    ("names", "text"),
    [(["a"], "'a'"), (["a", "b", "c"], "'a', 'b', 'c'"), (["a", "b", "c", "d"], "'a', 'b', 'c' and 1 more")],
)
def test_three_names_are_listed_and_the_others_counted(names: list[str], text: str) -> None:
    assert prometheus._some(names) == text


@pytest.mark.parametrize(("skip", "mode"), [(True, ssl.CERT_NONE), (False, ssl.CERT_REQUIRED)])
def test_certificates_are_checked_unless_the_provider_is_set_to_skip_that(skip: bool, mode: ssl.VerifyMode) -> None:
    spec = ProviderSpec.model_validate({"type": "Prometheus", "address": "https://p", "insecureSkipVerify": skip})
    reach: Reach = registry._reach(spec, "", dict, 1.0)
    context = http_source._tls(reach)
    assert (context.verify_mode, context.check_hostname) == (mode, not skip)
