from __future__ import annotations

import socket

import pytest

from project.embedded import door


def test_port_zero_finds_a_free_one_and_lets_nobody_in_before_the_web_role():
    with door.bind("127.0.0.1", 0) as bound:
        assert door.address(bound) == f"http://127.0.0.1:{bound.getsockname()[1]}"
        assert not door.listens(bound)

        bound.listen()

        assert door.listens(bound)


def test_a_taken_port_is_refused_by_name():
    with socket.create_server(("127.0.0.1", 0)) as other:
        port = other.getsockname()[1]

        with pytest.raises(door.PortTaken, match=f"Port {port} on 127.0.0.1 is taken"):
            door.bind("127.0.0.1", port)


def test_an_unknown_host_is_refused_by_name():
    with pytest.raises(door.PortTaken, match="no such place"):
        door.bind("no such place", 0)


@pytest.mark.parametrize(
    ("host", "shown"),
    [(next(iter(door.ANYWHERE)), "127.0.0.1"), ("127.0.0.1", "127.0.0.1")],
)
def test_the_address_is_one_a_person_can_open(host, shown):
    with door.bind(host, 0) as bound:
        assert door.address(bound).startswith(f"http://{shown}:")
