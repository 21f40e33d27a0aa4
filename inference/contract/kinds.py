"""The closed vocabularies: every extension point and every state has its names here."""

from enum import StrEnum


class Provisioner(StrEnum):
    """How a pool's workers come to be."""

    STATIC = "static"
    PROCESS = "process"
    FAKE = "fake"


class Backend(StrEnum):
    """What kind of server answers, so what may be asked of it."""

    VLLM = "vllm"
    OPENAI = "openai"


class Strategy(StrEnum):
    """How a route picks among its targets and their workers."""

    WEIGHTED = "weighted"
    LEAST_WORK = "least_work"


class Task(StrEnum):
    """What a model is for."""

    GENERATE = "generate"
    EMBED = "embed"


class Scope(StrEnum):
    """What an API key may do at the gateway."""

    INFERENCE = "inference"
    DEBUG = "debug"


class Accounting(StrEnum):
    """What a route does when an event cannot be written: refuse, or serve and count the loss."""

    STRICT = "strict"
    LENIENT = "lenient"


class PoolPower(StrEnum):
    """The desired state of a whole pool; drained workers run on and are sent nothing new."""

    RUNNING = "running"
    DRAINED = "drained"
    STOPPED = "stopped"


class WorkerState(StrEnum):
    """Where one worker is in its life, as the supervisor sees it.

    A draining worker is sent nothing new. A drained one runs, and every live gateway has said that
    it has nothing under way there.
    """

    STARTING = "starting"
    READY = "ready"
    DRAINING = "draining"
    DRAINED = "drained"
    BACKING_OFF = "backing_off"
    FAILED = "failed"


class BreakerState(StrEnum):
    """What one gateway process lets through to one worker: all, nothing, or one trial request."""

    CLOSED = "closed"
    OPEN = "open"
    HALF_OPEN = "half_open"


class Endpoint(StrEnum):
    """The inference endpoints a request can come in by."""

    CHAT = "chat"
    COMPLETIONS = "completions"
    EMBEDDINGS = "embeddings"
    TOKENIZE = "tokenize"
    DETOKENIZE = "detokenize"


class Outcome(StrEnum):
    """How a request ended."""

    OK = "ok"
    REFUSED = "refused"
    ERROR = "error"
    CANCELLED = "cancelled"
    LOST_GATEWAY = "lost_gateway"


class ChargeKind(StrEnum):
    """How sure a charge is: the engine's closing usage, the last frame seen, or bounds alone."""

    FINAL = "final"
    CUT = "cut"
    ESTIMATED = "estimated"


class ProcessRole(StrEnum):
    """Which kind of process writes a vitals record."""

    GATEWAY = "gateway"
    POOLS = "pools"
