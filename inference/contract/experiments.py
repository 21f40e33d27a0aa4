"""Which of a route's requests are served how, to learn which way is better."""

from collections.abc import Mapping
from dataclasses import dataclass, field

from inference.contract.kinds import ExperimentMode, ExperimentUnit
from inference.contract.matching import MatchRecord
from inference.contract.targets import TargetRecord


@dataclass(frozen=True, slots=True)
class VariantRecord:
    """One way in which an experiment serves requests; what isn't given is as on the route.

    `share_bp` is of the 10,000 of the experiment's own units. `targets` take the place of the
    route's and of its rules'. `parameters` are members that the body gets or has replaced, by name,
    each as JSON text.
    """

    id: str
    name: str
    share_bp: int
    targets: tuple[TargetRecord, ...] = ()
    parameters: Mapping[str, str] = field(default_factory=dict)
    cache_policy_id: str | None = None
    prompt_version_id: str | None = None


@dataclass(frozen=True, slots=True)
class ExperimentRecord:
    """Variants of a route, of which each unit gets the same one for as long as the split stands.

    The first variant is the control. A unit's place in the `layer` is in [0, 10,000): the
    experiment has the part from `layer_from_bp` to before `layer_to_bp`, and of this part the first
    `allocation_bp` of 10,000 take part, so nobody moves when that grows. Experiments of one layer
    have parts of their own, those of different layers know nothing of each other. What a unit gets
    depends on `salt` and nothing else, so the salt stays when the name changes.

    `ramp` are (epoch seconds, allocation) steps: the last that has begun takes the place of
    `allocation_bp`, which counts until the first begins. Only requests that fit `when` take part.
    From `ends_at` (epoch seconds) on, and while it isn't `is_running`, it has no effect at all.
    Another split is another `phase`, counted from 1.
    """

    id: str
    organisation_id: str
    route_id: str
    name: str
    salt: str
    unit: ExperimentUnit
    phase: int
    variants: tuple[VariantRecord, ...]
    allocation_bp: int
    layer: str
    layer_from_bp: int = 0
    layer_to_bp: int = 10_000
    when: MatchRecord | None = None
    ramp: tuple[tuple[float, int], ...] = ()
    ends_at: float | None = None
    is_running: bool = True
    mode: ExperimentMode = ExperimentMode.FIXED
