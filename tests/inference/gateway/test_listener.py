"""A socket that lets nobody new in keeps those who are there."""

import socket
from collections.abc import Iterator

import pytest

from inference.gateway.listener import CannotListen, bind, turn_away, waiting_on


@pytest.fixture
def listener() -> Iterator[socket.socket]:
    with bind("127.0.0.1", 0, settings="HEADWORKS_X") as listening:
        yield listening


def test_those_who_wait_are_counted_and_stay_and_nobody_new_comes(listener: socket.socket) -> None:
    address = listener.getsockname()
    with socket.create_connection(address) as first, socket.create_connection(address) as second:
        assert waiting_on(listener) == 2
        turn_away(listener)
        with pytest.raises(TimeoutError):
            socket.create_connection(address, timeout=0.1)
        for caller in (first, second):
            caller.sendall(b"x")
            accepted, _ = listener.accept()
            with accepted:
                assert accepted.recv(1) == b"x"
        assert waiting_on(listener) == 0


def test_a_taken_address_is_told_by_its_setting(listener: socket.socket) -> None:
    port = listener.getsockname()[1]
    with pytest.raises(CannotListen) as caught:
        bind("127.0.0.1", port, settings="HEADWORKS_X")
    assert (caught.value.settings, caught.value.port) == ("HEADWORKS_X", port)
    assert str(caught.value) == f"HEADWORKS_X: 127.0.0.1 port {port}: Address already in use"
