"""Names of the cluster for a completion: read as the caller that the flags name, one page of them."""

import json

import pytest

from koordctl.completion import cluster_names, words
from tests.fakes import apiserver
from tests.fleet import cluster


def kubeconfig(folder, url):
    file = folder / "kubeconfig"
    file.write_text(
        json.dumps(
            {
                "clusters": [{"name": "c", "cluster": {"server": url}}],
                "contexts": [{"name": "x", "context": {"cluster": "c", "user": "u"}}],
                "users": [{"name": "u", "user": {"token": "t"}}],
                "current-context": "x",
            }
        )
    )
    return ["--kubeconfig", str(file)]


@pytest.mark.parametrize(
    ("flags", "user"), [([], None), (["--as", "jane"], "jane"), (["--as", "joe", "-o", "json", "--as", "jane"], "jane")]
)
async def test_names_are_read_as_the_last_user_of_the_flags(tmp_path, flags, user):
    async with apiserver.running() as server:
        server.on("GET", "/api/v1/nodes", apiserver.Answer(cluster.listing(cluster.node("a"), cluster.node("b"))))
        found = await cluster_names._read(words.NODES, [*kubeconfig(tmp_path, server.url), *flags], "")
    assert found == ["a", "b"]
    (asked,) = server.requests
    headers = {name.lower(): value for name, value in asked.headers.items()}
    assert headers.get("impersonate-user") == user
    assert int(asked.query["limit"]) > 0


@pytest.mark.parametrize("flag", ["-n", "--namespace"])
async def test_pods_are_those_of_the_namespace_of_the_flag_or_of_the_begun_name(tmp_path, flag):
    async with apiserver.running() as server:
        server.on("GET", "/api/v1/namespaces/shop/pods", apiserver.Answer(cluster.listing(cluster.pod("web-0"))))
        server.on("GET", "/api/v1/namespaces", apiserver.Answer(cluster.listing({"metadata": {"name": "shop"}})))
        connection = kubeconfig(tmp_path, server.url)
        assert await cluster_names._read(words.PODS, [*connection, flag, "shop"], "w") == ["web-0"]
        assert await cluster_names._read(words.PODS, connection, "shop/w") == ["shop/web-0"]
        assert await cluster_names._read(words.PODS, connection, "sh") == ["shop/"]


def test_what_cannot_be_read_has_no_names(tmp_path):
    assert cluster_names.of(words.NODES, ["--kubeconfig", str(tmp_path / "none")], "") == []
