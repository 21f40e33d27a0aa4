"""The closed vocabularies: every extension point and every state has its names here."""

from enum import StrEnum


class Kind(StrEnum):
    """A vocabulary. Its members hash as the texts they are, in C: every request looks up dozens."""

    __hash__ = str.__hash__


class Provisioner(Kind):
    """How a pool's workers come to be."""

    STATIC = "static"
    PROCESS = "process"
    FAKE = "fake"


class Backend(Kind):
    """What kind of server answers, so what may be asked of it."""

    VLLM = "vllm"
    OPENAI = "openai"


class Strategy(Kind):
    """How a route picks among its targets and their workers."""

    WEIGHTED = "weighted"
    LEAST_WORK = "least_work"
    SESSION_AFFINITY = "session_affinity"
    PREFIX_AFFINITY = "prefix_affinity"
    LOWEST_LATENCY = "lowest_latency"
    CHEAPEST = "cheapest"


class Task(Kind):
    """What a model is for."""

    GENERATE = "generate"
    EMBED = "embed"


class Scope(Kind):
    """What an API key may do at the gateway."""

    INFERENCE = "inference"
    DEBUG = "debug"


class Accounting(Kind):
    """What a route does when an event cannot be written: refuse, or serve and count the loss."""

    STRICT = "strict"
    LENIENT = "lenient"


class PriorityClass(Kind):
    """Who waits for whom where there is not room for all, the most urgent first."""

    INTERACTIVE = "interactive"
    DEFAULT = "default"
    BATCH = "batch"


class TaskClass(Kind):
    """What kind of answer a request wants."""

    DEFAULT = "default"
    CODE = "code"
    FACTUAL = "factual"
    EXTRACTION = "extraction"
    CREATIVE = "creative"


class Weekday(Kind):
    """Days of a schedule, in the order of `datetime.weekday`."""

    MONDAY = "monday"
    TUESDAY = "tuesday"
    WEDNESDAY = "wednesday"
    THURSDAY = "thursday"
    FRIDAY = "friday"
    SATURDAY = "saturday"
    SUNDAY = "sunday"


class LimitSubject(Kind):
    """Whose requests a limit counts together."""

    ORGANISATION = "organisation"
    TEAM = "team"
    PROJECT = "project"
    KEY = "key"
    END_USER = "end_user"
    MODEL = "model"
    ROUTE = "route"


class LimitUnit(Kind):
    """What a limit counts: all but `parallel` in a window, that one at any moment."""

    REQUESTS = "requests"
    INPUT_TOKENS = "input_tokens"
    OUTPUT_TOKENS = "output_tokens"
    TOTAL_TOKENS = "total_tokens"
    PARALLEL = "parallel"


class LimitWindow(Kind):
    """Over what time a limit counts; windows begin at whole ones of the store's clock, in UTC."""

    SECOND = "second"
    MINUTE = "minute"
    HOUR = "hour"
    DAY = "day"


class Enforcement(Kind):
    """What a limit does when the store cannot be asked: refuse, or serve, mark and count.

    A strict limit on tokens takes the most a request may use beforehand, so that it is never
    passed; a lenient one counts what was used, and may be passed by what is under way.
    """

    STRICT = "strict"
    LENIENT = "lenient"


class BudgetSubject(Kind):
    """Whose spending a budget counts together; of tags, each one that a request has."""

    ORGANISATION = "organisation"
    TEAM = "team"
    PROJECT = "project"
    KEY = "key"
    END_USER = "end_user"
    TAG = "tag"
    MODEL = "model"
    ROUTE = "route"


class BudgetPeriod(Kind):
    """Over what time a budget counts: by the calendar in the organisation's zone, or rolling.

    Weeks begin on Monday. A period of the calendar begins at its first moment on the wall clock, so
    a day may have 23 or 25 hours. A rolling one is the last 60 minutes, 24 hours, 7, 30 or 90 days.
    """

    HOUR = "hour"
    DAY = "day"
    WEEK = "week"
    MONTH = "month"
    QUARTER = "quarter"


class BudgetAction(Kind):
    """What a budget does to requests: those it has no room for are refused; from a share of it on
    they go slower or to a cheaper model; or people are told, and that is all.
    """

    BLOCK = "block"
    CHEAPER = "cheaper"
    THROTTLE = "throttle"
    NOTIFY = "notify"


class RefusalReason(Kind):
    """Why a request was turned away before any pool saw it; what its caller got wrong is none."""

    BUDGET = "budget"
    LIMIT = "limit"
    SWITCH = "switch"
    CAPACITY = "capacity"


class ProofVerdict(Kind):
    """What a gateway process did with a made-up request under a copy of a budget that has next to
    nothing left: refused it, made it wait, would have sent it to the cheaper model, or let it in.
    Or it has no such budget, has it switched off, or can't ask the state store.
    """

    REFUSED = "refused"
    SLOWED = "slowed"
    CHEAPER = "cheaper"
    LET_IN = "let_in"
    UNKNOWN = "unknown"
    OFF = "off"
    AWAY = "away"


class TooLong(Kind):
    """What a budget that blocks does with an answer that may cost more than is left: it refuses
    the request, or lowers its maximum to what is left buys.
    """

    REFUSE = "refuse"
    LOWER = "lower"


class UnknownPrice(Kind):
    """What a budget that blocks does with a request whose cost nobody knows, which is not zero."""

    REFUSE = "refuse"
    ALLOW = "allow"


class SwitchSubject(Kind):
    """What a kill switch turns off."""

    ORGANISATION = "organisation"
    PROJECT = "project"
    KEY = "key"
    MODEL = "model"
    ROUTE = "route"
    POOL = "pool"


class CacheTier(Kind):
    """Where answers are kept: in the process, in the cache store, by nearness in the helper's
    index, or (embeddings) by each input by itself.
    """

    LOCAL = "local"
    SHARED = "shared"
    SEMANTIC = "semantic"
    EMBEDDING = "embedding"


class CacheScope(Kind):
    """Whose requests may be answered from one another's.

    Up to an organisation's each route has its own; `shared` is the organisation's, and all routes
    of the policy together. Nothing is ever shared between organisations.
    """

    KEY = "key"
    PROJECT = "project"
    TEAM = "team"
    ORGANISATION = "organisation"
    SHARED = "shared"


class CacheOutcome(Kind):
    """What a cache did for a request.

    A stale answer was served while it is renewed. Bypassed is what the caller or a rule kept from
    it, or what may not be kept. A semantic hit is now and then checked: the fresh answer is served
    and compared with it. One that joined waited for another's identical request. Off is a cache
    none of whose tiers could be asked.
    """

    HIT = "hit"
    STALE = "stale"
    MISS = "miss"
    BYPASS = "bypass"
    CHECKED = "checked"
    JOINED = "joined"
    OFF = "off"


class PurgeKind(Kind):
    """What a purge names: all answers kept under it are never served again."""

    POLICY = "policy"
    NAMESPACE = "namespace"
    PREFIX = "prefix"
    TAG = "tag"
    ENTRY = "entry"


class ExperimentUnit(Kind):
    """What is assigned to a variant, and keeps it: the end user or session that a caller names,
    the API key, or each request by itself.
    """

    USER = "user"
    SESSION = "session"
    KEY = "key"
    REQUEST = "request"


class ExperimentMode(Kind):
    """How an experiment's shares come about: people set them; callers get the control's answers and
    the others are asked beside it; or they follow what was learned.
    """

    FIXED = "fixed"
    SHADOW = "shadow"
    BANDIT = "bandit"


class DegradationStep(Kind):
    """What a route does less well to serve more, in the order in which steps are taken."""

    TRIM_BATCH = "trim_batch"
    SMALLER_MODEL = "smaller_model"
    SHED_BATCH = "shed_batch"
    SHED_DEFAULT = "shed_default"


class PoolPower(Kind):
    """The desired state of a whole pool; drained workers run on and are sent nothing new."""

    RUNNING = "running"
    DRAINED = "drained"
    STOPPED = "stopped"


class WorkerState(Kind):
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


class BreakerState(Kind):
    """What one gateway process lets through to one worker: all, nothing, or one trial request."""

    CLOSED = "closed"
    OPEN = "open"
    HALF_OPEN = "half_open"


class Endpoint(Kind):
    """The inference endpoints a request can come in by."""

    CHAT = "chat"
    COMPLETIONS = "completions"
    RESPONSES = "responses"
    MESSAGES = "messages"
    EMBEDDINGS = "embeddings"
    RERANK = "rerank"
    SCORE = "score"
    TOKENIZE = "tokenize"
    DETOKENIZE = "detokenize"
    COUNT_TOKENS = "count_tokens"


class Outcome(Kind):
    """How a request ended."""

    OK = "ok"
    REFUSED = "refused"
    ERROR = "error"
    CANCELLED = "cancelled"
    LOST_GATEWAY = "lost_gateway"


class ChargeKind(Kind):
    """How sure a charge is: the engine's closing usage, the last frame seen, or bounds alone."""

    FINAL = "final"
    CUT = "cut"
    ESTIMATED = "estimated"


class GuardKind(Kind):
    """What may keep the answer to one question from answering one that lies near it."""

    QUOTES = "quotes"
    CODE = "code"
    NUMBERS = "numbers"
    NEGATION = "negation"
    DATES = "dates"
    UNITS = "units"
    LANGUAGE = "language"
    PERSONS = "persons"
    QUESTIONS = "questions"
    ANTONYMS = "antonyms"
    NAMES = "names"
    WORDS = "words"
    ORDER = "order"


class ProcessRole(Kind):
    """Which kind of process writes a vitals record."""

    GATEWAY = "gateway"
    POOLS = "pools"
