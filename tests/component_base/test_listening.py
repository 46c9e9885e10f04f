import errno
import socket

import pytest

from component_base import listening


def without_ipv6(monkeypatch, number):
    """Let the kernel refuse sockets of IPv6; return the families that were tried."""
    tried = []
    create = socket.create_server

    def refusing(address, *, family, dualstack_ipv6):
        tried.append(family)
        if family == socket.AF_INET6:
            raise OSError(number, "refused")
        return create(address, family=family, dualstack_ipv6=dualstack_ipv6)

    monkeypatch.setattr(socket, "create_server", refusing)
    monkeypatch.setattr(
        socket,
        "getaddrinfo",
        lambda address, port, **_: [
            (socket.AF_INET6 if ":" in address else socket.AF_INET, socket.SOCK_STREAM, 6, "", (address, port))
        ],
    )
    return tried


@pytest.mark.parametrize("number", [errno.EAFNOSUPPORT, errno.EADDRNOTAVAIL, errno.EPROTONOSUPPORT])
def test_every_address_of_a_host_without_ipv6_is_every_one_of_ipv4(monkeypatch, number):
    without_ipv6(monkeypatch, number)
    with listening.listen("::", 0, purpose="pages", fix="choose another port") as opened:
        assert opened.getsockname()[0] == "0.0.0.0"
        assert not opened.getblocking()


@pytest.mark.parametrize(
    ("address", "number", "where"),
    [("::", errno.EADDRINUSE, "[::]:7001"), ("::1", errno.EADDRNOTAVAIL, "[::1]:7001")],
)
def test_any_other_refusal_names_the_address_and_tries_no_other_one(monkeypatch, address, number, where):
    tried = without_ipv6(monkeypatch, number)
    with pytest.raises(listening.CannotListen) as refused:
        listening.listen(address, 7001, purpose="pages", fix="choose another port")
    assert str(refused.value) == f"cannot listen on {where} for pages: refused; choose another port"
    assert tried == [socket.AF_INET6]
