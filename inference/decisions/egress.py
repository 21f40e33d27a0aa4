"""Where an operator may point the data plane: one policy for every address a person can type.

`problem_with_address` judges the text when it is saved and published; `is_forbidden_endpoint`
judges again the address a name resolved to, when it is connected, because a name may change its
mind between the two.
"""

import re
from ipaddress import IPv4Address, IPv6Address, IPv6Network, ip_address, ip_network
from urllib.parse import SplitResult, urlsplit

MAX_URL_LENGTH = 2_048

_LABEL = re.compile(r"[A-Za-z0-9_]([A-Za-z0-9_-]{0,61}[A-Za-z0-9_])?")
_NUMERIC_LABEL = re.compile(r"[0-9]+|0[xX][0-9A-Fa-f]*")
_MAX_NAME_LENGTH = 253

# Every address below hands out credentials or configuration of the machine it is asked from.
_METADATA_ADDRESSES = frozenset(
    ip_address(text)
    for text in (
        "169.254.169.254",  # nearly every cloud; link-local already, listed for the reader
        "100.100.100.200",  # Alibaba
        "168.63.129.16",  # Azure wire server
        "192.0.0.192",  # Oracle
        "fd00:ec2::254",  # Amazon
        "fd20:ce::254",  # Google
        "fd00:42::42",  # Scaleway
    )
)
_METADATA_NAMES = frozenset(
    ("metadata.google.internal", "metadata.goog", "instance-data", "instance-data.ec2.internal")
)
_THIS_NETWORK = ip_network("0.0.0.0/8")  # 0.x reaches the own host on Linux
_CARRIER_V4 = IPv6Network("64:ff9b::/96")  # NAT64
_COMPATIBLE_V4 = IPv6Network("::/96")  # obsolete spelling of IPv4 addresses


def problem_with_address(url: str, own_ports: frozenset[int]) -> str | None:
    """Say in words why this base URL may not be called, or None if it may.

    Loopback and private addresses are allowed, except `own_ports` on loopback. A name is judged
    by its spelling alone: what it resolves to is for `is_forbidden_endpoint`.
    """
    if len(url) > MAX_URL_LENGTH:
        return f"is longer than {MAX_URL_LENGTH} characters"
    if not url.isascii() or not url.isprintable() or " " in url or "\\" in url:
        return "may hold printable ASCII characters only, no spaces or backslashes"
    try:
        parts = urlsplit(url)
        port = parts.port
    except ValueError:
        return "is not a URL with a valid host and port"
    return _problem_with_form(url, parts) or _problem_with_host(
        parts.hostname or "", _port_of(parts.scheme, port), own_ports
    )


def is_forbidden_ip(ip: str) -> bool:
    """Tell whether nothing an operator points at may ever be at this address.

    True for link-local, metadata, unspecified, multicast, reserved and IPv4-mapped addresses, and
    for text that is no IP address.
    """
    try:
        address = ip_address(ip)
    except ValueError:
        return True
    return _is_forbidden(address)


def is_forbidden_endpoint(ip: str, port: int, own_ports: frozenset[int]) -> bool:
    """Tell whether a resolved address and port may not be connected to."""
    return is_forbidden_ip(ip) or (port in own_ports and ip_address(ip).is_loopback)


def _port_of(scheme: str, port: int | None) -> int:
    if port is not None:
        return port
    return 443 if scheme == "https" else 80


def _problem_with_form(url: str, parts: SplitResult) -> str | None:
    if parts.scheme not in ("http", "https") or "://" not in url:
        return "must start with http:// or https://"
    if "@" in parts.netloc:
        return "may not carry a user name or password"
    if "#" in url:
        return "may not carry a fragment"
    if not parts.hostname:
        return "has no host"
    if parts.port == 0 or parts.netloc.endswith(":"):
        return "has no valid port"
    return None


def _problem_with_host(host: str, port: int, own_ports: frozenset[int]) -> str | None:
    try:
        address = ip_address(host)
    except ValueError:
        return _problem_with_name(host, port, own_ports)
    if _is_forbidden(address):
        return "points at a link-local, metadata, multicast, reserved or unspecified address"
    if address.is_loopback and port in own_ports:
        return f"points at port {port} of this installation"
    return None


def _problem_with_name(name: str, port: int, own_ports: frozenset[int]) -> str | None:
    labels = name.split(".")
    if len(name) > _MAX_NAME_LENGTH or not all(_LABEL.fullmatch(label) for label in labels):
        return "has a host that is neither a name nor a plain IP address"
    if _NUMERIC_LABEL.fullmatch(labels[-1]):
        # 2130706433, 0x7f.1 and 0177.0.0.1 are all 127.0.0.1 to a resolver
        return "spells an IP address in an unusual way"
    if name in _METADATA_NAMES:
        return "points at a metadata service"
    if labels[-1] == "localhost" and port in own_ports:
        return f"points at port {port} of this installation"
    return None


def _is_forbidden(address: IPv4Address | IPv6Address) -> bool:
    if address in _METADATA_ADDRESSES:
        return True
    if address.is_link_local or address.is_multicast or address.is_unspecified:
        return True
    if isinstance(address, IPv4Address):
        return address in _THIS_NETWORK or address.is_reserved
    return _is_forbidden_v6(address)


def _is_forbidden_v6(address: IPv6Address) -> bool:
    if address.is_loopback:
        return False
    if address.ipv4_mapped is not None or address in _COMPATIBLE_V4 or address.is_site_local:
        return True
    carried = address.sixtofour
    if carried is None and address in _CARRIER_V4:
        carried = IPv4Address(address.packed[-4:])
    if carried is not None:
        return carried.is_loopback or _is_forbidden(carried)
    return address.teredo is not None or (address.scope_id is not None)
