"""Tests of what a provider sends to its server beside queries: tokens in files, users and headers."""

from __future__ import annotations

import base64
from collections.abc import Iterator
from pathlib import Path
from urllib.parse import parse_qs

import pytest

from scheduler_plugin.config import loader
from scheduler_plugin.load_watcher import records
from scheduler_plugin.load_watcher.providers import provider_spec, registry
from scheduler_plugin.load_watcher.providers.provider import Provider, ProviderFailed
from scheduler_plugin.load_watcher.providers.provider_spec import ProviderSpec
from scheduler_plugin.plugins.trimaran import args as trimaran_args
from tests.fakes import metrics_source
from tests.fakes.metrics_source import Answer, Asked, Source

EMPTY = b'{"status": "success", "data": {"resultType": "vector", "result": []}}'
WINDOW = records.window_ending_at("15m", 1_700_000_000)


@pytest.fixture
def valid() -> list[str]:
    """Return the token that the server accepts."""
    return ["one"]


@pytest.fixture
def source(valid: list[str]) -> Iterator[Source]:
    def answer(asked: Asked) -> Answer:
        is_valid = asked.headers.get("authorization") == f"Bearer {valid[0]}"
        return Answer(EMPTY) if is_valid else Answer(b"wrong token", 401)

    with metrics_source.answering(answer) as serving:
        yield serving


def prometheus(source: Source, file: Path) -> Provider:
    spec = ProviderSpec(type=provider_spec.PROMETHEUS, address=source.address, token_file=str(file), queries="koordlet")
    return registry.build(spec, registry.ProviderContext(dict, dict, None))


async def test_a_renewed_token_is_used_by_the_next_request(source: Source, valid: list[str], tmp_path: Path) -> None:
    file = tmp_path / "token"
    file.write_text("one\n")
    provider = prometheus(source, file)
    await provider.fetch(WINDOW)
    valid[0] = "two"
    file.write_text("two\n")
    await provider.fetch(WINDOW)
    await provider.close()
    assert "Bearer one" not in [each.headers["authorization"] for each in source.asked[len(source.asked) // 2 :]]


async def test_a_token_renewed_while_a_request_is_sent_is_read_again(tmp_path: Path) -> None:
    file = tmp_path / "token"
    file.write_text("one")

    def answer(asked: Asked) -> Answer:
        file.write_text("two")
        return Answer(EMPTY) if asked.headers["authorization"] == "Bearer two" else Answer(b"wrong token", 401)

    with metrics_source.answering(answer) as source:
        provider = prometheus(source, file)
        assert await provider.is_healthy()
        await provider.close()
    assert [each.headers["authorization"] for each in source.asked] == ["Bearer one", "Bearer two"]


async def test_without_its_file_a_provider_fails_until_the_file_exists(source: Source, tmp_path: Path) -> None:
    provider = prometheus(source, tmp_path / "token")
    with pytest.raises(ProviderFailed, match=r"cannot read the token of Prometheus in .*/token"):
        await provider.fetch(WINDOW)
    assert not source.asked
    (tmp_path / "token").write_text("one")
    await provider.fetch(WINDOW)
    await provider.close()


@pytest.mark.parametrize("content", ["", " \n", "a\nb", "t\u00f6ken", "x" * 70_000])
async def test_a_file_without_a_token_is_a_failure_that_does_not_show_it(
    source: Source, tmp_path: Path, content: str
) -> None:
    file = tmp_path / "token"
    file.write_text(content)
    provider = prometheus(source, file)
    with pytest.raises(ProviderFailed, match="has no token of Prometheus, want 1 to 65536 printable") as failed:
        await provider.fetch(WINDOW)
    assert not content.strip() or content.strip() not in str(failed.value)
    assert not source.asked


async def test_a_user_and_headers_are_sent_and_matchers_are_part_of_every_selector(tmp_path: Path) -> None:
    file = tmp_path / "password"
    file.write_text("pass:word\n")
    keys = {
        "type": "Prometheus",
        "queries": "node-exporter",
        "basicAuth": {"username": "me", "passwordFile": str(file)},
        "headers": {"X-Scope-OrgID": "one"},
        "matchers": ['cluster="a"', 'replica=~"x|y"'],
    }
    with metrics_source.answering(lambda _asked: Answer(EMPTY)) as source:
        args = {"metricProvider": {**keys, "address": source.address}}
        plugin = {"name": "TargetLoadPacking"}
        document = {"plugins": {"score": {"enabled": [plugin]}}, "pluginConfig": [plugin | {"args": args}]}
        (spec,) = trimaran_args.common_specs(loader.parse(document).args)
        provider = registry.build(spec, registry.ProviderContext(dict, dict, None))
        await provider.fetch(WINDOW)
        await provider.close()
    sent = {(asked.headers["authorization"], asked.headers["x-scope-orgid"]) for asked in source.asked}
    assert sent == {(f"Basic {base64.b64encode(b'me:pass:word').decode()}", "one")}
    for text in (parse_qs(asked.body.decode())["query"][0] for asked in source.asked):
        assert text.count("node_") == text.count('{cluster="a", replica=~"x|y"')


@pytest.mark.parametrize(
    ("keys", "problem"),
    [
        ({"matchers": ["cluster=a"]}, "matchers has 'cluster=a', want a label"),
        ({"matchers": ['a="b"} or up{c="d"']}, "want a label, one of = != =~ !~ and a value in double quotes"),
        ({"type": "SignalFx", "token": "t", "matchers": ['a="b"']}, "SignalFx has no selectors"),
        ({"headers": {"Authorization": "x"}}, "tokens and passwords have keys of their own"),
        ({"headers": {"X": "a\nb"}}, "headers has 'X', want names and values of HTTP"),
        ({"type": "NodeMetric", "headers": {"X": "a"}}, "those of a server, and NodeMetric has none"),
        ({"token": "t", "basicAuth": {"username": "me", "passwordFile": "/p"}}, "basicAuth is set beside a token"),
        ({"address": "http://me:x@y", "basicAuth": {"username": "me", "passwordFile": "/p"}}, "or a user in address"),
    ],
)
def test_keys_of_a_server_that_cannot_work_are_named(keys: dict[str, object], problem: str) -> None:
    (found,) = provider_spec.problems(ProviderSpec.model_validate({"type": "Prometheus", **keys}))
    assert problem in found
