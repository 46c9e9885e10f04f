"""Flags of `koordctl gain`, and what each has an effect on."""

import json

import pytest

from koordctl import __main__ as koordctl
from tests.koordctl.backtest.prometheus_proxy import Proxy, serving
from tests.koordctl.serving import healthy, kubeconfig_of

pytestmark = pytest.mark.slow
EMPTY = json.dumps({"status": "success", "data": {"result": []}}).encode()


@pytest.mark.parametrize(("output", "begin"), [("html", "<!doctype html>"), ("json", "{")])
def test_the_present_is_read_from_the_cluster_of_the_kubeconfig(tmp_path, capsys, output, begin):
    with kubeconfig_of(tmp_path, **healthy()) as file:
        code = koordctl.main(["gain", "--kubeconfig", str(file), "-o", output])
    assert code in (0, 1)
    assert capsys.readouterr().out.lower().startswith(begin)


def test_queries_have_the_selector_and_the_token(tmp_path, capsys):
    file = tmp_path / "token"
    file.write_text("abc\n")
    with serving(Proxy(change=lambda *_: (200, EMPTY)), token="abc") as proxy:
        words = ["gain", "--prometheus", proxy.url, "--since", "1h", "--selector", 'job="x"', "-o", "json"]
        assert koordctl.main(words) == 3
        assert "refused the credentials: 401" in capsys.readouterr().err
        assert proxy.asked == []
        koordctl.main([*words, "--token-file", str(file)])
        assert "401" not in capsys.readouterr().err
    queries = [given["query"] for _, given in proxy.asked if "query" in given]
    assert queries
    assert all('job="x"' in query for query in queries)
