"""One POST to an address that somebody typed, under the policy on addresses.

The text is judged when it is saved. The name is judged again once it is resolved, and the
connection goes to the very address that was judged. Redirects are not followed; of the answer only
its status and `Retry-After` count.
"""

import socket
from collections.abc import Mapping
from contextlib import suppress
from email.utils import parsedate_to_datetime
from http.client import HTTPConnection, HTTPException, HTTPSConnection
from ipaddress import ip_address
from ssl import create_default_context
from threading import Timer
from urllib.parse import urlsplit

from django.conf import settings
from django.utils import timezone

from controlplane.decisions.deliveries import Failure, failure_of_status
from controlplane.notify.base import Undelivered
from inference.decisions.egress import is_forbidden_endpoint, problem_with_address

TIMEOUT_S = 10.0
"""Of each step; a receiver that gives byte by byte is left after WHOLE_S."""

WHOLE_S = 20.0
_PRIVATE = (
    "points at a private or loopback address; HEADWORKS_ALLOW_PRIVATE_WEBHOOKS=1 on the host "
    "allows that"
)


def problem_with_url(url: str) -> str | None:
    """Say in words why no message may go to this address, or None if it may."""
    told = problem_with_address(url, settings.HEADWORKS.reserved_ports)
    if told is not None or settings.HEADWORKS.allow_private_webhooks:
        return told
    host = urlsplit(url).hostname or ""
    if host.rpartition(".")[2] == "localhost":
        return _PRIVATE
    try:
        return None if ip_address(host).is_global else _PRIVATE
    except ValueError:
        # a name is judged once it is resolved
        return None


def post(url: str, body: bytes, headers: Mapping[str, str]) -> int:
    """Send it and return the status of success; raises Undelivered."""
    problem = problem_with_url(url)
    if problem is not None:
        raise Undelivered(Failure(f"The address {problem}.", is_final=True))
    parts = urlsplit(url)
    port = parts.port or (443 if parts.scheme == "https" else 80)
    path = (parts.path or "/") + (f"?{parts.query}" if parts.query else "")
    connection = _connection(parts.scheme, parts.hostname or "", port)
    clock = Timer(WHOLE_S, _hang_up, [connection])
    clock.start()
    try:
        connection.request("POST", path, body=body, headers=dict(headers))
        response = connection.getresponse()
        # what it says beside its status is read by nobody
        status, retry_after = response.status, response.getheader("Retry-After")
    except TimeoutError as error:
        told = Failure(f"No answer within {TIMEOUT_S:.0f} s.", is_uncertain=True)
        raise Undelivered(told) from error
    except (OSError, HTTPException) as error:
        # only the kind: the message may hold the address, which may be a secret
        told = Failure(f"No connection: {type(error).__name__}.", is_uncertain=True)
        raise Undelivered(told) from error
    finally:
        clock.cancel()
        connection.close()
    failure = failure_of_status(status, _seconds(retry_after))
    if failure is not None:
        raise Undelivered(failure)
    return status


def _hang_up(connection: HTTPConnection) -> None:
    """End a call from outside: whoever waits for its answer is told that there is none."""
    sock = connection.sock
    if sock is not None:
        with suppress(OSError):
            sock.shutdown(socket.SHUT_RDWR)


def _connection(scheme: str, host: str, port: int) -> HTTPConnection:
    """A connection to an address of the host that was judged, the name kept for TLS and Host."""
    sock = _connected(_allowed_address(host, port), port)
    if scheme == "https":
        connection: HTTPConnection = HTTPSConnection(host, port, timeout=TIMEOUT_S)
        try:
            sock = create_default_context().wrap_socket(sock, server_hostname=host)
        except OSError as error:
            sock.close()
            raise Undelivered(Failure(f"No TLS: {type(error).__name__}.")) from error
    else:
        connection = HTTPConnection(host, port, timeout=TIMEOUT_S)
    connection.sock = sock
    return connection


def _connected(address: str, port: int) -> socket.socket:
    try:
        return socket.create_connection((address, port), timeout=TIMEOUT_S)
    except OSError as error:
        raise Undelivered(Failure(f"No connection: {type(error).__name__}.")) from error


def _allowed_address(host: str, port: int) -> str:
    try:
        found = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)
    except OSError as error:
        raise Undelivered(Failure("The host's name could not be resolved.")) from error
    for *_, place in found:
        if is_allowed(str(place[0]), port):
            return str(place[0])
    told = "The host's name leads to an address no message may go to."
    raise Undelivered(Failure(told, is_final=True))


def is_allowed(ip: str, port: int) -> bool:
    """Tell whether a message may go to this resolved address."""
    if is_forbidden_endpoint(ip, port, settings.HEADWORKS.reserved_ports):
        return False
    return settings.HEADWORKS.allow_private_webhooks or ip_address(ip).is_global


def _seconds(told: str | None) -> float | None:
    """`Retry-After` in seconds, whichever way it is written; None if it makes no sense."""
    if told is None:
        return None
    if told.strip().isdecimal():
        return float(told)
    try:
        at = parsedate_to_datetime(told)
    except ValueError:
        return None
    if at.tzinfo is None:
        return None
    return max(0.0, (at - timezone.now()).total_seconds())
