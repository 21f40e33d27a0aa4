"""Every name under which the planes meet in the state store, in one place."""

from collections.abc import Sequence

LINEAGE = "hw:lineage"
SEEDED_AT = "hw:seeded_at"

MANIFEST = "hw:snapshot:manifest"
SNAPSHOT_CHANGED = "hw:snapshot:changed"

DIRECTORY = "hw:fleet:directory"
DIRECTORY_CHANGED = "hw:fleet:changed"
LEADER = "hw:fleet:leader"
FENCING = "hw:fleet:fencing"

USAGE_STREAM = "hw:usage:stream"
USAGE_GROUP = "recorder"
USAGE_FIELD = "e"
USAGE_START_FIELD = "s"
"""In place of an end: `<journal id> <seq>`, when a journal is fed again and has no more the ends up
to there. They were marked as recorded once; a ledger that was put back may lack them for good."""

JOURNAL_MARKS = "hw:usage:marks"

VITALS_PREFIX = "hw:vitals:"
SEEN = "hw:fleet:seen"
"""A sorted set: processes that write vitals, by when they last did; a clean stop removes one."""


def section_key(digest: str) -> str:
    """Where the section of this content digest is kept."""
    return f"hw:snapshot:section:{digest}"


def vitals_key(process: str) -> str:
    """Where one process keeps its vitals record."""
    return f"{VITALS_PREFIX}{process}"


WORKER_LOG_LIFE_S = 30
"""How long a wish for a worker's log lasts, and the tail shipped for it, unless renewed."""

WORKER_LOG_AT, WORKER_LOG_SIZE, WORKER_LOG_TEXT = "at", "size", "text"
"""The fields of a shipped tail: when the file was read (seconds since the epoch, a decimal), bytes
of the whole file then, and its last lines as UTF-8 with credentials blanked out."""

WORKER_LOG_TAIL_BYTES = 64 * 1024
"""No more than the end of a log is shipped, from the first line that is whole on."""


def worker_log_key(worker_id: str) -> str:
    """Where the tail of a worker's log is shipped: a hash of the three fields above.

    The leading supervisor writes it within a second of the wish, then at most once a second and
    only if the file changed; it lives WORKER_LOG_LIFE_S past the last look at the file. A worker
    we start that has printed nothing yet gets size 0; one that is only an address gets no hash.
    """
    return f"hw:logs:{worker_id}"


def worker_log_wish(worker_id: str) -> str:
    """Set to anything, to live WORKER_LOG_LIFE_S, and again for as long as somebody reads."""
    return f"hw:logs-wanted:{worker_id}"


LIMITS_KEYS = "hw:limits:*"
"""All that gateways keep about limits."""

LIMITS_EPOCH = "hw:limits:epoch"
"""`<the store's run>:<since when, in its milliseconds>`: which life of the store the counters are
of. Gateways write it; a store that was restarted or emptied has another or none."""

LIMITS_CHANNEL = "hw:limits:asked"
"""`?<question> <counter>` asks whoever holds units of it ahead to give them back; `!<counter>`
tells that somebody has answered."""


BUDGETS_SEEDED = "hw:limits:budgets"
"""The epoch, as above, in which the control plane told the store what the ledger has of budgets
whose periods were under way: without it, a budget that blocks can't be checked."""

BUDGET_LEDGER = "ledger"
"""The holder by whose name the control plane tells a budget's counter what nobody else does:
spending that is in the ledger and that no living gateway process has told."""


BUDGET_PROOFS = "hw:limits:proofs"
"""Budgets that gateways are to put to the test: a hash of a word for each to the budget's id."""

BUDGET_PROOF_LIFE_S = 10
"""How long a wish for a test lasts, and what processes found."""


def budget_proof_key(word: str) -> str:
    """What gateway processes found in one test: a hash of the process to a ProofVerdict, a space
    and words for people."""
    return f"hw:limits:proof:{word}"


LIMITS_DEAD_S = 3.0
"""Three missed heartbeats: what a process had reserved is nobody's any more."""


def limits_holders_key(organisation_id: str) -> str:
    """Which processes hold units of an organisation's counters, and when each was last heard.

    `clock` is a clock in milliseconds, as of `at` by the store's own; of each process it has
    `<that clock when it was heard>:<the number of its call>`.
    """
    return f"hw:limits:{{{organisation_id}}}:holders"


def limits_counter_key(organisation_id: str, digest: str) -> str:
    """Where one counter of an organisation is kept: what is counted, and who holds how much."""
    return f"hw:limits:{{{organisation_id}}}:{digest}"


CACHE_KEYS = "hw:cache:*"
"""All that is kept in the cache store; each lives for a time that was set with it."""


SEMANTIC_STREAM = "hw:cache:semantic"
"""A stream in the cache store: messages that the helpers of all hosts find, each sealed."""

SEMANTIC_FIELD = "m"


def cached_answer_key(organisation_id: str, digest: str) -> str:
    """Where the cache store has an answer, or the vector of one input, sealed."""
    return f"hw:cache:{{{organisation_id}}}:{digest}"


def cache_flight_key(organisation_id: str, digest: str) -> str:
    """Set while a gateway process has that answer made: others wait for it."""
    return f"hw:cache:{{{organisation_id}}}:{digest}:flight"


def key_section(bucket: str) -> str:
    """The section that holds one bucket of API keys."""
    return f"keys/{bucket}"


def section_names(key_buckets: Sequence[str]) -> tuple[str, ...]:
    """All sections of a snapshot with these key buckets."""
    return (*SECTIONS, *(key_section(bucket) for bucket in key_buckets))


SECTIONS = (
    "organisations",
    "models",
    "prices",
    "pools",
    "routes",
    "gateways",
    "limits",
    "budgets",
    "switches",
    "caches",
    "purges",
    "experiments",
    "prompts",
)

LATER_SECTIONS = frozenset(
    {"gateways", "limits", "budgets", "switches", "caches", "purges", "experiments", "prompts"}
)
"""Sections that manifests written before they existed lack: then they are empty."""
