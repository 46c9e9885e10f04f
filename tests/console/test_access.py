"""The console is read-only, is for one browser, and answers to its own name only."""

import pytest

from console.web import server
from tests.console import browsers, fleets

pytestmark = pytest.mark.slow

TOKEN = "t" * 43


@pytest.fixture
def guarded():
    return browsers.app(fleets.seen(fleets.nodes(2)), token=TOKEN)[0]


@pytest.fixture
def open_app():
    return browsers.app(fleets.seen(fleets.nodes(2)))[0]


@pytest.mark.parametrize(
    "host", ["koord.example", "127.0.0.1.example", "localhost.example:80", "127.0.0.1:x", "evil@127.0.0.1", "[::2]", ""]
)
async def test_another_host_is_refused(open_app, host):
    async with browsers.client(open_app) as client:
        answer = await client.get("/", headers={"Host": host})
    assert answer.status_code == 400


@pytest.mark.parametrize("host", ["127.0.0.1", "127.0.0.1:8080", "localhost:1", "[::1]:8080"])
async def test_own_names_are_accepted(open_app, host):
    async with browsers.client(open_app) as client:
        answer = await client.get("/", headers={"Host": host})
    assert answer.status_code == 200


@pytest.mark.parametrize("method", ["POST", "PUT", "DELETE", "PATCH", "OPTIONS", "TRACE", "CONNECT", "GETX"])
@pytest.mark.parametrize("path", ["/", "/static/koord.css", "/nodes/worker-0001"])
async def test_only_reads_are_served(open_app, method, path):
    async with browsers.client(open_app) as client:
        answer = await client.request(method, path)
    assert (answer.status_code, answer.headers["allow"]) == (405, "GET, HEAD")


async def test_the_token_is_valid_once_and_gives_a_cookie_for_this_site_only(guarded):
    async with browsers.client(guarded) as client:
        entered = await client.get(f"/?token={TOKEN}")
        assert entered.status_code == 200
        flags = entered.headers["set-cookie"].lower()
        assert all(flag in flags for flag in ("httponly", "samesite=strict", "path=/"))
        assert TOKEN not in entered.text + flags
        assert (await client.get("/")).status_code == 200
        client.cookies.clear()
        assert (await client.get(f"/?token={TOKEN}")).status_code == 403


@pytest.mark.parametrize(
    "path", ["/", "/?token=", "/?token=x", f"/?x=1&token={TOKEN}", "/static/koord.css", "/nodes/worker-0001"]
)
async def test_without_the_token_nothing_is_served(guarded, path):
    async with browsers.client(guarded) as client:
        answer = await client.get(path)
    assert (answer.status_code, "worker" in answer.text) == (403, False)


async def test_a_preview_does_not_use_up_the_token(guarded):
    async with browsers.client(guarded) as client:
        assert (await client.head(f"/?token={TOKEN}")).status_code == 403
        assert (await client.get(f"/?token={TOKEN}")).status_code == 200


@pytest.mark.parametrize("cookie", ["{name}=x", "{name}=", "{name}=\xe4", "a=b; {name}", "{name}=;" * 200, "a/b=1"])
async def test_another_cookie_is_refused(guarded, cookie):
    name = guarded.cookie_name
    async with browsers.client(guarded) as client:
        answer = await client.get("/", headers={"Cookie": cookie.format(name=name).encode("latin-1")})
    assert answer.status_code == 403


@pytest.mark.parametrize(
    "path", ["/", "/static/koord.css", "/nodes/none", "/none", "/static/../access.py", "/?token=x"]
)
async def test_every_answer_has_the_headers(open_app, guarded, path):
    for asgi in (open_app, guarded):
        async with browsers.client(asgi) as client:
            headers = (await client.get(path)).headers
        policy = headers["content-security-policy"]
        assert policy.startswith("default-src 'none'; script-src 'self'; style-src 'self'")
        assert "unsafe" not in policy
        assert headers["cache-control"] == "no-store"
        assert headers["referrer-policy"] == "no-referrer"
        assert headers["x-content-type-options"] == "nosniff"


@pytest.mark.parametrize(
    "path",
    [
        "/static/../web/access.py",
        "/static/%2e%2e/access.py",
        "/static/..%2f..%2faccess.py",
        "/static//etc/passwd",
        "/static/%2fetc%2fpasswd",
        "/static/koord.css%00.py",
        "/templates/base.html",
    ],
)
async def test_no_other_file_is_served(open_app, path):
    async with browsers.client(open_app) as client:
        answer = await client.get(path)
    assert answer.status_code == 404


async def test_two_consoles_have_two_cookies():
    one, other = (server.Access(lambda *_: None, "x") for _ in range(2))
    assert one.cookie_name != other.cookie_name
