"""The egress policy: what an operator may point a pool at, as text and as a resolved address."""

import pytest

from inference.decisions.egress import (
    MAX_URL_LENGTH,
    is_forbidden_endpoint,
    is_forbidden_ip,
    problem_with_address,
)

OWN_PORTS = frozenset({8300, 8400, 443})

ALLOWED = [
    "http://127.0.0.1:8001/v1",
    "http://127.8.9.1:8001/v1",
    "http://localhost:8001/v1",
    "http://[::1]:8001/v1",
    "http://10.1.2.3/v1",
    "http://172.16.0.9:9000",
    "http://192.168.1.10:8000/v1",
    "http://100.64.3.4:8000/v1",
    "http://[fd12:3456::1]:8000/v1",
    "https://api.example.com/v1",
    "HTTPS://API.EXAMPLE.COM:8443/v1",
    "http://engine-0.engines.svc.cluster.local:8000/v1",
    "http://my_pod:8000",
    "http://10.1.2.3:8300/v1",
    "http://example.com:8300/v1",
]


@pytest.mark.parametrize("url", ALLOWED)
def test_addresses_of_workers_are_allowed(url: str) -> None:
    assert problem_with_address(url, OWN_PORTS) is None


FORBIDDEN_ADDRESS = "points at a link-local, metadata, multicast, reserved or unspecified address"
UNUSUAL = "spells an IP address in an unusual way"
NOT_A_HOST = "has a host that is neither a name nor a plain IP address"
SCHEME = "must start with http:// or https://"
CHARACTERS = "may hold printable ASCII characters only, no spaces or backslashes"

REFUSED = [
    ("", SCHEME),
    ("api.example.com/v1", SCHEME),
    ("//api.example.com/v1", SCHEME),
    ("ftp://example.com", SCHEME),
    ("file:///etc/passwd", SCHEME),
    ("unix:///run/engine.sock", SCHEME),
    ("http:example.com", SCHEME),
    ("http://", "has no host"),
    ("http:///v1", "has no host"),
    ("http://:8000/v1", "has no host"),
    ("http://user@example.com/", "may not carry a user name or password"),
    ("http://user:pass@example.com/", "may not carry a user name or password"),
    ("http://@example.com/", "may not carry a user name or password"),
    ("http://example.com/v1#x", "may not carry a fragment"),
    ("http://example.com/v1#", "may not carry a fragment"),
    ("http://example.com:0/v1", "has no valid port"),
    ("http://example.com:/v1", "has no valid port"),
    ("http://example.com:70000/v1", "is not a URL with a valid host and port"),
    ("http://example.com:http/v1", "is not a URL with a valid host and port"),
    ("http://[::1/v1", "is not a URL with a valid host and port"),
    ("http://example.com/v1\n", CHARACTERS),
    ("http://exa\tmple.com/v1", CHARACTERS),
    (" http://example.com/v1", CHARACTERS),
    ("http://example.com\\@169.254.169.254/", CHARACTERS),
    ("http://\uff11\uff12\uff17.0.0.1/", CHARACTERS),
    ("http://exämple.com/", CHARACTERS),
    ("http://" + "a" * MAX_URL_LENGTH, f"is longer than {MAX_URL_LENGTH} characters"),
    ("http://169.254.169.254/latest", FORBIDDEN_ADDRESS),
    ("http://169.254.1.1/v1", FORBIDDEN_ADDRESS),
    ("http://100.100.100.200/v1", FORBIDDEN_ADDRESS),
    ("http://168.63.129.16/v1", FORBIDDEN_ADDRESS),
    ("http://192.0.0.192/v1", FORBIDDEN_ADDRESS),
    ("http://0.0.0.0:8001/v1", FORBIDDEN_ADDRESS),
    ("http://0.1.2.3:8001/v1", FORBIDDEN_ADDRESS),
    ("http://224.0.0.1/v1", FORBIDDEN_ADDRESS),
    ("http://255.255.255.255/v1", FORBIDDEN_ADDRESS),
    ("http://[::]:8001/v1", FORBIDDEN_ADDRESS),
    ("http://[fe80::1]/v1", FORBIDDEN_ADDRESS),
    ("http://[fe80::1%25eth0]/v1", FORBIDDEN_ADDRESS),
    ("http://[ff02::1]/v1", FORBIDDEN_ADDRESS),
    ("http://[fd00:ec2::254]/v1", FORBIDDEN_ADDRESS),
    ("http://[FD00:EC2:0:0:0:0:0:254]/v1", FORBIDDEN_ADDRESS),
    ("http://[::ffff:127.0.0.1]/v1", FORBIDDEN_ADDRESS),
    ("http://[::ffff:a9fe:a9fe]/v1", FORBIDDEN_ADDRESS),
    ("http://[::7f00:1]/v1", FORBIDDEN_ADDRESS),
    ("http://[64:ff9b::a9fe:a9fe]/v1", FORBIDDEN_ADDRESS),
    ("http://[2002:a9fe:a9fe::1]/v1", FORBIDDEN_ADDRESS),
    ("http://[2002:7f00:1::1]/v1", FORBIDDEN_ADDRESS),
    ("http://2130706433/v1", UNUSUAL),
    ("http://0x7f000001/v1", UNUSUAL),
    ("http://017700000001/v1", UNUSUAL),
    ("http://0177.0.0.1/v1", UNUSUAL),
    ("http://0x7f.0.0.1/v1", UNUSUAL),
    ("http://127.1/v1", UNUSUAL),
    ("http://169.254.43518/v1", UNUSUAL),
    ("http://1.2.3.4.5/v1", UNUSUAL),
    ("http://169.254.169.254./v1", NOT_A_HOST),
    ("http://example.com./v1", NOT_A_HOST),
    ("http://exam%70le.com/v1", NOT_A_HOST),
    ("http://-bad-.com/v1", NOT_A_HOST),
    ("http://a..b/v1", NOT_A_HOST),
    ("http://" + ".".join(["a" * 60] * 5), NOT_A_HOST),
    ("http://metadata.google.internal/v1", "points at a metadata service"),
    ("http://METADATA.google.internal/v1", "points at a metadata service"),
    ("http://127.0.0.1:8400/v1", "points at port 8400 of this installation"),
    ("http://127.9.9.9:8400/v1", "points at port 8400 of this installation"),
    ("http://[::1]:8300/v1", "points at port 8300 of this installation"),
    ("http://localhost:8300/v1", "points at port 8300 of this installation"),
    ("http://x.localhost:8300/v1", "points at port 8300 of this installation"),
    ("https://127.0.0.1/v1", "points at port 443 of this installation"),
]


@pytest.mark.parametrize(("url", "problem"), REFUSED)
def test_other_addresses_are_refused_with_their_reason(url: str, problem: str) -> None:
    assert problem_with_address(url, OWN_PORTS) == problem


@pytest.mark.parametrize(
    "ip",
    [
        "169.254.169.254",
        "169.254.0.1",
        "fe80::1",
        "fe80::1%eth0",
        "fd00:ec2::254",
        "fd20:ce::254",
        "0.0.0.0",
        "0.0.0.7",
        "::",
        "224.0.0.251",
        "ff02::fb",
        "240.0.0.1",
        "255.255.255.255",
        "::ffff:10.0.0.1",
        "::ffff:169.254.169.254",
        "2001:0:4136:e378:8000:63bf:3fff:fdd2",
        "fec0::1",
        "fd12::1%eth0",
        "example.com",
        "",
    ],
)
def test_forbidden_ips(ip: str) -> None:
    assert is_forbidden_ip(ip) is True


@pytest.mark.parametrize(
    "ip",
    [
        "127.0.0.1",
        "::1",
        "10.0.0.1",
        "192.168.0.1",
        "100.64.0.1",
        "8.8.8.8",
        "fd12::1",
        "2606:4700::1111",
        "64:ff9b::808:808",
    ],
)
def test_other_ips_may_be_connected(ip: str) -> None:
    assert is_forbidden_ip(ip) is False


def test_a_name_that_resolves_to_our_own_port_is_caught_when_connecting() -> None:
    assert is_forbidden_endpoint("127.0.0.1", 8400, OWN_PORTS) is True
    assert is_forbidden_endpoint("::1", 8400, OWN_PORTS) is True
    assert is_forbidden_endpoint("127.0.0.1", 8401, OWN_PORTS) is False
    assert is_forbidden_endpoint("10.0.0.1", 8400, OWN_PORTS) is False
    assert is_forbidden_endpoint("169.254.169.254", 80, OWN_PORTS) is True
