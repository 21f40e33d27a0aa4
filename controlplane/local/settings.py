"""What the launcher is told by the environment: read once, checked, frozen."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from urllib.parse import parse_qsl, urlsplit

from controlplane.local.problems import LocalProblem

_ENGINES = ("vllm", "none")
_HELPERS = ("on", "off")
_LARGEST_PORT = 65_535
_DEFAULT_PORTS = {
    "postgresql": 5432,
    "postgres": 5432,
    "redis": 6379,
    "rediss": 6379,
    "http": 80,
    "https": 443,
}


@dataclass(frozen=True, slots=True)
class LocalSettings:
    """One installation's settings. A URL that is given means that part is not started here."""

    var: Path
    console_host: str
    console_port: int
    gateway_host: str
    gateway_port: int
    gateway_admin_port: int
    database_url: str | None = field(repr=False)
    state_url: str | None = field(repr=False)
    cache_url: str | None = field(repr=False)
    broker_url: str | None = field(repr=False)
    has_engine: bool
    has_helper: bool
    engine_python: Path | None
    models: Path | None
    given_ports: frozenset[int]
    environ: Mapping[str, str] = field(repr=False)

    @property
    def console_url(self) -> str:
        return _url(self.console_host, self.console_port)

    @property
    def gateway_url(self) -> str:
        return _url(self.gateway_host, self.gateway_port)

    @property
    def has_upstream(self) -> bool:
        """Whether the demo is given a server of the user's own."""
        return bool(self.environ.get("HEADWORKS_DEMO_UPSTREAM_URL"))

    @property
    def own_ports(self) -> str:
        """Ports no operator-given address may point at: ours, and those of stores outside."""
        stores = (self.database_url, self.state_url, self.cache_url, self.broker_url)
        ports = {port for url in stores if url for port in _ports_of(url)}
        ports |= {self.console_port, self.gateway_port, self.gateway_admin_port}
        ports |= self.given_ports
        return ",".join(str(port) for port in sorted(ports))


def load_local_settings(environ: Mapping[str, str]) -> LocalSettings:
    """Read the settings, or raise LocalProblem naming the variable at fault."""
    engine = environ.get("HEADWORKS_DEMO_ENGINE") or "vllm"
    if engine not in _ENGINES:
        raise LocalProblem(f"HEADWORKS_DEMO_ENGINE must be one of {', '.join(_ENGINES)}")
    helper = environ.get("HEADWORKS_HELPER") or "on"
    if helper not in _HELPERS:
        raise LocalProblem(f"HEADWORKS_HELPER must be one of {', '.join(_HELPERS)}")
    gateway_port = _port(environ, "HEADWORKS_GATEWAY_PORT", 8400)
    beside = min(gateway_port + 1, _LARGEST_PORT)
    return LocalSettings(
        var=Path(environ.get("HEADWORKS_VAR") or "var").absolute(),
        console_host=environ.get("HEADWORKS_CONSOLE_HOST") or "127.0.0.1",
        console_port=_port(environ, "HEADWORKS_CONSOLE_PORT", 8300),
        gateway_host=environ.get("HEADWORKS_GATEWAY_HOST") or "127.0.0.1",
        gateway_port=gateway_port,
        gateway_admin_port=_port(environ, "HEADWORKS_GATEWAY_ADMIN_PORT", beside),
        database_url=environ.get("HEADWORKS_DATABASE_URL") or None,
        state_url=environ.get("HEADWORKS_STATE_URL") or None,
        cache_url=environ.get("HEADWORKS_CACHE_URL") or None,
        broker_url=environ.get("HEADWORKS_BROKER_URL") or None,
        has_engine=engine == "vllm",
        has_helper=helper == "on",
        engine_python=_path(environ, "HEADWORKS_ENGINE_PYTHON"),
        models=_path(environ, "HEADWORKS_MODELS"),
        given_ports=_ports(environ, "HEADWORKS_OWN_PORTS"),
        environ=environ,
    )


def _port(environ: Mapping[str, str], name: str, default: int) -> int:
    text = environ.get(name) or str(default)
    if not text.isdecimal() or not 0 < int(text) <= _LARGEST_PORT:
        raise LocalProblem(f"{name} must be a port number, not {text!r}")
    return int(text)


def _path(environ: Mapping[str, str], name: str) -> Path | None:
    text = environ.get(name)
    return Path(text).absolute() if text else None


def _ports_of(url: str) -> Iterator[int]:
    """The ports a server's URL leads to, written or its scheme's own; a socket has none."""
    parts = urlsplit(url)
    query = dict(parse_qsl(parts.query))
    if parts.scheme not in _DEFAULT_PORTS or query.get("host", "").startswith("/"):
        return
    default = int(query.get("port", _DEFAULT_PORTS[parts.scheme]))
    for host in parts.netloc.rpartition("@")[2].split(","):
        yield urlsplit(f"//{host}").port or default


def _ports(environ: Mapping[str, str], name: str) -> frozenset[int]:
    words = [word.strip() for word in (environ.get(name) or "").split(",")]
    if not all(word.isdecimal() for word in words if word):
        raise LocalProblem(f"{name} must be port numbers separated by commas")
    return frozenset(int(word) for word in words if word)


def _url(host: str, port: int) -> str:
    reachable = {"0.0.0.0": "127.0.0.1", "::": "[::1]"}.get(host, host)
    if ":" in reachable and not reachable.startswith("["):
        reachable = f"[{reachable}]"
    return f"http://{reachable}:{port}"
