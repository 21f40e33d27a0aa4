"""Process settings of the data plane: the environment in, one frozen value out.

Every name starts with HEADWORKS_. A bad or missing value ends the process with that name.
"""

import base64
import binascii
import os
import re
import socket
import ssl
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from urllib.parse import unquote

_MIB = 1024 * 1024
# 107, of which a new socket's own name beside it takes some until it is in its place.
_SOCKET_BYTES = 98
_TRACES_PATH = "/v1/traces"
_OWN_HEADERS = frozenset(("content-length", "content-type", "host", "transfer-encoding"))
_TOKEN = re.compile(r"[!#$%&'*+\-.^_`|~0-9A-Za-z]+")


class SettingsError(ValueError):
    """A setting is missing or cannot be read; the message starts with its name."""


@dataclass(frozen=True, slots=True)
class Settings:
    """What gateway and supervisor run on. Secrets are left out of the repr."""

    var: Path
    state_url: str = field(repr=False)
    data_key: bytes = field(repr=False)
    peppers: Mapping[int, bytes] = field(repr=False)
    gateway_id: str
    gateway_host: str
    gateway_port: int
    gateway_admin_port: int
    gateway_processes: int
    gateway_is_hot: bool
    body_limit_bytes: int
    engine_python: Path | None
    models_folder: Path | None
    own_ports: frozenset[int]
    allow_remote_code: bool
    allow_fake_workers: bool
    log_level: str
    ca_bundle: Path | None = None
    otlp_url: str | None = None
    otlp_headers: bytes = field(default=b"", repr=False)
    trace_ratio: float = 0.01
    trusts_trace_flags: bool = False
    traces_engines: bool = False
    limit_end_users: int = 20_000
    cache_url: str | None = field(default=None, repr=False)
    cache_local_bytes: int = 64 * _MIB
    cache_embedding_bytes: int = 32 * _MIB
    helper_socket: Path | None = None


@dataclass(frozen=True, slots=True)
class HelperSettings:
    """What the helper runs on. Without a cache store it shares its entries with nobody."""

    socket: Path
    model: Path
    bytes_max: int
    data_key: bytes = field(repr=False)
    cache_url: str | None = field(repr=False)
    log_level: str


def load_settings(environ: Mapping[str, str]) -> Settings:
    """Read the settings, or raise SettingsError naming the variable at fault."""
    port = _integer(environ, "HEADWORKS_GATEWAY_PORT", 8400, 1, 65_535)
    admin_port = _admin_port(environ, port)
    default_id = f"{socket.gethostname()}-{port}"
    return Settings(
        var=Path(environ.get("HEADWORKS_VAR", "var")).resolve(),
        state_url=_required(environ, "HEADWORKS_STATE_URL"),
        data_key=_key(environ, "HEADWORKS_DATA_KEY"),
        peppers=_peppers(environ, "HEADWORKS_KEY_PEPPERS"),
        gateway_id=environ.get("HEADWORKS_GATEWAY_ID") or default_id,
        gateway_host=environ.get("HEADWORKS_GATEWAY_HOST", "127.0.0.1"),
        gateway_port=port,
        gateway_admin_port=admin_port,
        gateway_processes=_integer(environ, "HEADWORKS_GATEWAY_PROCESSES", 2, 1, 256),
        gateway_is_hot=environ.get("HEADWORKS_GATEWAY_HOT", "1") != "0",
        body_limit_bytes=_integer(environ, "HEADWORKS_BODY_LIMIT_MB", 32, 1, 1024) * _MIB,
        engine_python=_path(environ, "HEADWORKS_ENGINE_PYTHON"),
        models_folder=_path(environ, "HEADWORKS_MODELS"),
        own_ports=_ports(environ, "HEADWORKS_OWN_PORTS") | {port, admin_port},
        allow_remote_code=environ.get("HEADWORKS_ALLOW_REMOTE_CODE", "0") == "1",
        allow_fake_workers=environ.get("HEADWORKS_ALLOW_FAKE_WORKERS", "0") == "1",
        log_level=environ.get("HEADWORKS_LOG_LEVEL", "info"),
        ca_bundle=_ca_bundle(environ, "HEADWORKS_CA_BUNDLE"),
        otlp_url=_traces_url(environ, "HEADWORKS_OTLP_ENDPOINT"),
        otlp_headers=_header_lines(environ, "HEADWORKS_OTLP_HEADERS"),
        trace_ratio=_share(environ, "HEADWORKS_TRACE_RATIO", 0.01),
        trusts_trace_flags=environ.get("HEADWORKS_TRACE_TRUST", "0") == "1",
        traces_engines=environ.get("HEADWORKS_TRACE_ENGINES", "0") == "1",
        cache_url=environ.get("HEADWORKS_CACHE_URL") or None,
        cache_local_bytes=_integer(environ, "HEADWORKS_CACHE_LOCAL_MB", 64, 1, 65_536) * _MIB,
        cache_embedding_bytes=_integer(environ, "HEADWORKS_CACHE_EMBEDDING_MB", 32, 1, 65_536)
        * _MIB,
        limit_end_users=_integer(environ, "HEADWORKS_LIMIT_END_USERS", 20_000, 1, 10_000_000),
        helper_socket=_helper_socket(environ),
    )


def load_helper_settings(environ: Mapping[str, str]) -> HelperSettings:
    """Read the helper's settings, or raise SettingsError naming the variable at fault."""
    return HelperSettings(
        socket=_helper_socket(environ),
        model=Path(_required(environ, "HEADWORKS_HELPER_MODEL")).absolute(),
        bytes_max=_integer(environ, "HEADWORKS_HELPER_MEMORY_MB", 256, 1, 65_536) * _MIB,
        data_key=_key(environ, "HEADWORKS_DATA_KEY"),
        cache_url=environ.get("HEADWORKS_CACHE_URL") or None,
        log_level=environ.get("HEADWORKS_LOG_LEVEL", "info"),
    )


def _helper_socket(environ: Mapping[str, str]) -> Path:
    """Where the helper of this host listens. A socket's path has 107 bytes at most."""
    name = "HEADWORKS_HELPER_SOCKET"
    default = Path(environ.get("HEADWORKS_VAR", "var")).resolve() / "run" / "helper.sock"
    path = _path(environ, name) or default
    if len(os.fsencode(path)) > _SOCKET_BYTES:
        raise SettingsError(f"{name} must be a path of at most {_SOCKET_BYTES} bytes")
    return path


def _required(environ: Mapping[str, str], name: str) -> str:
    value = environ.get(name)
    if not value:
        raise SettingsError(f"{name} is not set")
    return value


def _integer(environ: Mapping[str, str], name: str, default: int, least: int, most: int) -> int:
    text = environ.get(name)
    if not text:
        return default
    try:
        value = int(text)
    except ValueError as error:
        raise SettingsError(f"{name} must be a whole number, not {text!r}") from error
    if not least <= value <= most:
        raise SettingsError(f"{name} must be between {least} and {most}, not {value}")
    return value


def _admin_port(environ: Mapping[str, str], gateway_port: int) -> int:
    """The port beside the gateway's, unless it is given; they can't be one."""
    name = "HEADWORKS_GATEWAY_ADMIN_PORT"
    port = _integer(environ, name, min(gateway_port + 1, 65_535), 1, 65_535)
    if port == gateway_port:
        raise SettingsError(f"{name} must not be the gateway's own port {port}")
    return port


def _key(environ: Mapping[str, str], name: str) -> bytes:
    return _decoded(_required(environ, name), name)


def _decoded(text: str, name: str) -> bytes:
    try:
        key = base64.urlsafe_b64decode(text)
    except (binascii.Error, ValueError) as error:
        raise SettingsError(f"{name} must be URL-safe base64") from error
    if len(key) != 32:
        raise SettingsError(f"{name} must hold 32 bytes, not {len(key)}")
    return key


def _peppers(environ: Mapping[str, str], name: str) -> Mapping[int, bytes]:
    """Read `2:base64,1:base64`; the first is the current one, the rest are still accepted."""
    peppers: dict[int, bytes] = {}
    for part in _required(environ, name).split(","):
        version, separator, text = part.partition(":")
        if not separator or not version.isdigit():
            raise SettingsError(f"{name} must read VERSION:KEY, separated by commas")
        peppers[int(version)] = _decoded(text, name)
    return peppers


def _path(environ: Mapping[str, str], name: str) -> Path | None:
    text = environ.get(name)
    return Path(text).absolute() if text else None


def _ca_bundle(environ: Mapping[str, str], name: str) -> Path | None:
    """A file of certificates, tried before anybody relies on it."""
    path = _path(environ, name)
    if path is not None:
        try:
            ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT).load_verify_locations(cafile=path)
        except OSError as error:  # that of TLS is one
            raise SettingsError(f"{name} must be a file of certificates in PEM") from error
    return path


def _ports(environ: Mapping[str, str], name: str) -> frozenset[int]:
    text = environ.get(name, "")
    try:
        return frozenset(int(part) for part in text.split(",") if part)
    except ValueError as error:
        raise SettingsError(f"{name} must be port numbers separated by commas") from error


def _traces_url(environ: Mapping[str, str], name: str) -> str | None:
    """Where traces go at a receiver of OTLP over HTTP, of which its base URL is given."""
    url = (environ.get(name) or "").rstrip("/")
    if not url:
        return None
    return url if url.endswith(_TRACES_PATH) else url + _TRACES_PATH


def _header_lines(environ: Mapping[str, str], name: str) -> bytes:
    """Read `name=value,name=value`, values percent-encoded, into lines ready to send."""
    lines = []
    for part in filter(None, (one.strip() for one in (environ.get(name) or "").split(","))):
        header, separator, text = part.partition("=")
        header, value = header.strip().lower(), unquote(text.strip())
        if not separator or not _TOKEN.fullmatch(header) or header in _OWN_HEADERS:
            raise SettingsError(f"{name} must read NAME=VALUE, separated by commas")
        if not (value.isascii() and value.isprintable()):
            raise SettingsError(f"{name} may hold printable ASCII values only")
        lines.append(f"{header}: {value}\r\n")
    return "".join(lines).encode()


def _share(environ: Mapping[str, str], name: str, default: float) -> float:
    text = environ.get(name)
    if not text:
        return default
    try:
        value = float(text)
    except ValueError as error:
        raise SettingsError(f"{name} must be a number, not {text!r}") from error
    if not 0 <= value <= 1:
        raise SettingsError(f"{name} must be between 0 and 1, not {text}")
    return value
