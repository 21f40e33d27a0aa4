"""The sockets a gateway listens on, and how to stop listening without losing a caller.

Closing a listening socket resets what waits on it to be accepted. So first no new connection is let
in, then those that wait are accepted, then it is closed.
"""

import ctypes
import os
import socket
import struct
from contextlib import suppress

BACKLOG = 2048

# Linux: <asm-generic/socket.h>; Python doesn't name it.
_SO_ATTACH_FILTER = 26

# Drop a packet that has SYN set (bit 1 of the TCP header's byte 13), let any other pass.
_NO_NEW_CONNECTIONS = b"".join(
    struct.pack("HBBI", *instruction)
    for instruction in (
        (0x30, 0, 0, 13),  # load the byte
        (0x45, 0, 1, 0x02),  # is the bit set?
        (0x06, 0, 0, 0),  # drop
        (0x06, 0, 0, 0xFFFFFFFF),  # pass
    )
)

# Where struct tcp_info of a listening socket tells how many wait to be accepted.
_WAITING_AT = 24
_TCP_INFO_BYTES = 28


class CannotListen(Exception):
    """An address is taken or isn't ours; `settings` names what it was set by."""

    def __init__(self, settings: str, *, host: str, port: int, why: str) -> None:
        super().__init__(f"{settings}: {host} port {port}: {why}")
        self.settings = settings
        self.host = host
        self.port = port
        self.why = why


def bind(host: str, port: int, *, settings: str) -> socket.socket:
    """Open a listening socket, or raise CannotListen."""
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    try:
        return socket.create_server((host, port), family=family, backlog=BACKLOG)
    except OSError as error:
        why = os.strerror(error.errno) if error.errno else str(error)
        raise CannotListen(settings, host=host, port=port, why=why) from error


def turn_away(listener: socket.socket) -> None:
    """Let no new connection come to be on this socket, in any process; those that are stay.

    A caller tries again in a second and is refused by then. Where the system has no such filter,
    callers are let in until the socket is closed.
    """
    program = ctypes.create_string_buffer(_NO_NEW_CONNECTIONS)
    address = struct.pack("HP", len(_NO_NEW_CONNECTIONS) // 8, ctypes.addressof(program))
    with suppress(OSError):
        listener.setsockopt(socket.SOL_SOCKET, _SO_ATTACH_FILTER, address)


def waiting_on(listener: socket.socket) -> int:
    """How many connections wait to be accepted."""
    info = listener.getsockopt(socket.IPPROTO_TCP, socket.TCP_INFO, _TCP_INFO_BYTES)
    waiting: int = struct.unpack_from("I", info, _WAITING_AT)[0]
    return waiting
