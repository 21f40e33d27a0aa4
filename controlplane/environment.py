"""Process settings of the control plane: the environment in, one checked value out.

Every name starts with HEADWORKS_; the data plane reads the same names. A bad value is reported by
the name of its variable and never by what it holds, which may be a secret.
"""

import base64
import binascii
from collections.abc import Mapping
from dataclasses import dataclass
from dataclasses import field as dataclass_field
from pathlib import Path
from typing import Annotated, Self
from urllib.parse import parse_qsl, unquote, urlencode, urlsplit, urlunsplit

from django.core.exceptions import ImproperlyConfigured
from psycopg import ProgrammingError
from psycopg.conninfo import conninfo_to_dict
from pydantic import Field, SecretStr, ValidationError, field_validator
from pydantic_core import ErrorDetails
from pydantic_settings import BaseSettings, NoDecode, SettingsConfigDict

PREFIX = "HEADWORKS_"
KEY_BYTES = 32
BROKER_DATABASE = 1
CHANNEL_DATABASE = 2
CACHE_DATABASE = 3

_EVERYWHERE = ("0.0.0.0", "[::]", "")

Words = Annotated[tuple[str, ...], NoDecode]
LARGEST_PORT = 65_535
Port = Annotated[int, Field(ge=1, le=LARGEST_PORT)]


@dataclass(frozen=True, slots=True)
class MailServer:
    """Where mail is handed in; `is_tls` from the first byte, `is_starttls` after a greeting."""

    host: str
    port: int
    user: str
    password: str = dataclass_field(repr=False)
    is_tls: bool
    is_starttls: bool


class ProcessSettings(BaseSettings):
    """What console, jobs and recorder run on. Secrets are masked in its repr."""

    model_config = SettingsConfigDict(
        env_prefix=PREFIX, env_ignore_empty=True, extra="ignore", frozen=True
    )

    var: Path = Path("var")
    secret_key: SecretStr = Field(min_length=32)
    data_key: SecretStr
    key_peppers: SecretStr
    database_url: SecretStr
    state_url: SecretStr
    cache_url: SecretStr | None = None
    broker_url: SecretStr | None = None
    console_host: str = "127.0.0.1"
    console_port: Port = 8300
    gateway_port: Port = 8400
    gateway_admin_port: Port | None = None
    own_ports: Annotated[frozenset[int], NoDecode] = frozenset()
    allow_remote_code: bool = False
    allow_fake_workers: bool = False
    allow_private_webhooks: bool = False
    smtp_url: SecretStr | None = None
    mail_from: str = Field(default="headworks@localhost", pattern=r"^[^@\s<>]+@[^@\s<>]+$")
    slack_api_url: str = Field(default="https://slack.com/api/", pattern=r"^https?://[^\s?#]+/$")
    console_url: str | None = Field(default=None, pattern=r"^https?://[^\s/?#]+$")
    allowed_hosts: Words = ("localhost", "127.0.0.1", "[::1]")
    trusted_origins: Words = ()
    https: bool = False
    hsts_s: int = Field(default=31_536_000, ge=0)
    statement_timeout_ms: int = Field(default=30_000, ge=100, le=3_600_000)
    ledger_days: int | None = Field(default=None, ge=185, le=36_500)
    database_pool_size: int = Field(default=10, ge=1, le=1_000)
    metrics_token: SecretStr | None = Field(default=None, min_length=16)
    log_level: str = Field(default="info", pattern="(?i)^(debug|info|warning|error|critical)$")

    @field_validator("allowed_hosts", "trusted_origins", mode="before")
    @classmethod
    def _split_words(cls, value: object) -> object:
        return (
            tuple(word.strip() for word in value.split(",") if word.strip())
            if isinstance(value, str)
            else value
        )

    @field_validator("own_ports", mode="before")
    @classmethod
    def _split_ports(cls, value: object) -> object:
        if not isinstance(value, str):
            return value
        words = [word.strip() for word in value.split(",") if word.strip()]
        if not all(word.isdigit() for word in words):
            raise ValueError("must be port numbers separated by commas")
        return frozenset(int(word) for word in words)

    @field_validator("data_key")
    @classmethod
    def _check_data_key(cls, value: SecretStr) -> SecretStr:
        _decoded_key(value.get_secret_value())
        return value

    @field_validator("key_peppers")
    @classmethod
    def _check_peppers(cls, value: SecretStr) -> SecretStr:
        _decoded_peppers(value.get_secret_value())
        return value

    @field_validator("database_url")
    @classmethod
    def _check_database(cls, value: SecretStr) -> SecretStr:
        _connection_of(value.get_secret_value())
        return value

    @field_validator("state_url", "cache_url")
    @classmethod
    def _check_store(cls, value: SecretStr | None) -> SecretStr | None:
        if value is not None and urlsplit(value.get_secret_value()).scheme not in (
            "redis",
            "rediss",
            "unix",
        ):
            raise ValueError("must start with redis://, rediss:// or unix://")
        return value

    @field_validator("smtp_url")
    @classmethod
    def _check_smtp(cls, value: SecretStr | None) -> SecretStr | None:
        if value is not None:
            _mail_server_of(value.get_secret_value())
        return value

    @property
    def mail_server(self) -> "MailServer | None":
        """Where mail is handed in, None if no mail is sent."""
        return None if self.smtp_url is None else _mail_server_of(self.smtp_url.get_secret_value())

    @property
    def console_address(self) -> str:
        """How people reach the console, for links in messages; no slash at the end."""
        return self.console_url or f"http://{self.console_host}:{self.console_port}"

    @property
    def data_key_bytes(self) -> bytes:
        """The 32 bytes secrets and snapshots are sealed with."""
        return _decoded_key(self.data_key.get_secret_value())

    @property
    def peppers(self) -> Mapping[int, bytes]:
        """Pepper by version; the first is the one new digests are made with."""
        return _decoded_peppers(self.key_peppers.get_secret_value())

    @property
    def connection(self) -> Mapping[str, str]:
        """The parts of the database's address, as libpq names them."""
        return _connection_of(self.database_url.get_secret_value())

    @property
    def hosts(self) -> tuple[str, ...]:
        """Names the console answers to: those of the setting, and the address it listens on."""
        own = f"[{self.console_host}]" if ":" in self.console_host else self.console_host
        if own in (*_EVERYWHERE, *self.allowed_hosts):
            return self.allowed_hosts
        return (*self.allowed_hosts, own)

    @property
    def reserved_ports(self) -> frozenset[int]:
        """Ports of this installation, which nothing an operator types may point at."""
        admin_port = self.gateway_admin_port or min(self.gateway_port + 1, LARGEST_PORT)
        return self.own_ports | {self.console_port, self.gateway_port, admin_port}

    def state_database(self, number: int) -> str:
        """The state store's address with another logical database."""
        return with_database(self.state_url.get_secret_value(), number)

    @property
    def broker(self) -> str:
        """The address of Celery's broker: its own logical database of the state store."""
        if self.broker_url is not None:
            return self.broker_url.get_secret_value()
        return as_broker(self.state_database(BROKER_DATABASE))

    @property
    def known_secrets(self) -> tuple[str, ...]:
        """Every secret of this process in clear, for the redaction of logs alone."""
        peppers = [
            part.partition(":")[2] for part in self.key_peppers.get_secret_value().split(",")
        ]
        return (
            self.secret_key.get_secret_value(),
            self.data_key.get_secret_value(),
            *peppers,
            *filter(None, [self.connection.get("password")]),
            *filter(None, [self.mail_server.password if self.mail_server else None]),
        )

    @classmethod
    def load(cls) -> Self:
        """Read the environment, or raise ImproperlyConfigured naming the variable at fault."""
        try:
            return cls()
        except ValidationError as error:
            lines = [_told(one) for one in error.errors(include_input=False, include_url=False)]
        raise ImproperlyConfigured("; ".join(lines))


_MAIL_PORTS = {"smtps": 465, "smtp+starttls": 587, "smtp": 25}


def _mail_server_of(url: str) -> MailServer:
    parts = urlsplit(url)
    if parts.scheme not in _MAIL_PORTS or not parts.hostname or parts.path.strip("/"):
        raise ValueError("must read smtps://, smtp+starttls:// or smtp:// USER:PASSWORD@HOST:PORT")
    return MailServer(
        host=parts.hostname,
        port=parts.port or _MAIL_PORTS[parts.scheme],
        user=unquote(parts.username or ""),
        password=unquote(parts.password or ""),
        is_tls=parts.scheme == "smtps",
        is_starttls=parts.scheme == "smtp+starttls",
    )


def _told(problem: ErrorDetails) -> str:
    name = f"{PREFIX}{str(problem['loc'][0]).upper()}"
    if problem["type"] == "missing":
        return f"{name} is not set"
    return f"{name}: {problem['msg'].removeprefix('Value error, ')}"


def with_database(url: str, number: int) -> str:
    """The same store's address with logical database `number`."""
    parts = urlsplit(url)
    query = [(name, value) for name, value in parse_qsl(parts.query) if name != "db"]
    if parts.scheme == "unix":
        query.append(("db", str(number)))
        return f"unix://{parts.netloc}{parts.path}?{urlencode(query, safe='/')}"
    return urlunsplit(parts._replace(path=f"/{number}", query=urlencode(query, safe="/")))


def as_broker(url: str) -> str:
    """A store's address the way Celery's transport spells it."""
    parts = urlsplit(url)
    if parts.scheme != "unix":
        return url
    query = dict(parse_qsl(parts.query))
    query["virtual_host"] = query.pop("db", "0")
    return f"redis+socket://{parts.netloc}{parts.path}?{urlencode(query, safe='/')}"


def _decoded_key(text: str) -> bytes:
    try:
        key = base64.b64decode(text, altchars=b"-_", validate=True)
    except (binascii.Error, ValueError) as error:
        raise ValueError("must be URL-safe base64") from error
    if len(key) != KEY_BYTES:
        raise ValueError(f"must hold {KEY_BYTES} bytes, not {len(key)}")
    return key


def _decoded_peppers(text: str) -> Mapping[int, bytes]:
    peppers: dict[int, bytes] = {}
    for part in text.split(","):
        version, separator, key = part.partition(":")
        if not separator or not version.isdigit():
            raise ValueError("must read VERSION:KEY, separated by commas")
        peppers[int(version)] = _decoded_key(key)
    return peppers


def _connection_of(url: str) -> Mapping[str, str]:
    if urlsplit(url).scheme not in ("postgresql", "postgres"):
        raise ValueError("must start with postgresql://; no other database will do")
    try:
        parts = conninfo_to_dict(url)
    except ProgrammingError as error:
        raise ValueError("is not a PostgreSQL address") from error
    if not parts.get("dbname"):
        raise ValueError("names no database")
    return {name: str(value) for name, value in parts.items() if value is not None}
