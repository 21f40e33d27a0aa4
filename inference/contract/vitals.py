"""Facts that may be lost: one whole record a process, once a second, living five seconds."""

from collections.abc import Mapping
from dataclasses import dataclass, field

from inference.contract.kinds import ProcessRole

VITALS_PERIOD_S = 1.0
VITALS_LIFE_S = 5.0


@dataclass(frozen=True, slots=True)
class Applied:
    """The configuration a process runs on, or why it refused a newer one."""

    lineage: str | None = None
    version: int | None = None
    refused_version: int | None = None
    refused_why: str | None = None


@dataclass(frozen=True, slots=True)
class Vitals:
    """`gateway` names the parent, `process` this process. In-flight counts are by worker id."""

    role: ProcessRole
    gateway: str
    process: str
    pid: int
    started_at: float
    written_at: float
    applied: Applied
    directory_generation: int | None = None
    inflight: Mapping[str, int] = field(default_factory=dict)
    arrivals_total: int = 0
    events_lost_total: int = 0
    journal_backlog: int = 0
    is_leader: bool = False
