"""An explanation in words: what each page part says, from the API's own document."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from controlplane.console.details import Fact, State
from controlplane.console.formats import UNKNOWN, about_dollars, count, dollars
from controlplane.console.reviews import Split, split_of
from controlplane.decisions.budgets import period_words
from inference.contract.kinds import BudgetAction, DegradationStep, Endpoint
from inference.decisions.endpoints import PATHS

RULE_STATES: Mapping[str, State] = {
    "matched": State("Matches", "ok", "ok"),
    "mismatched": State("Does not match", "minus", "idle"),
    "disabled": State("Off", "stop", "idle"),
    "unread": State("Not read: one before matched", "nodata", "idle"),
}
LEFT_OUT: Mapping[str, str] = {
    "wrong_endpoint": "doesn't answer this endpoint",
    "not_running": "its pool doesn't run",
    "switched_off": "a kill switch turns it off",
    "context_too_small": "its context is too small",
    "not_bridgeable": "speaks another dialect, which has no words for this request",
}
STANDBY: Mapping[str, State] = {
    "not_ready": State("Not ready", "clock", "idle"),
    "breaker_open": State("Breaker open", "crit", "crit"),
    "full": State("Full", "warn", "warn"),
    "set_aside": State("Said “not now”", "pause", "warn"),
    "not_its_turn": State("Not its turn", "nodata", "idle"),
}
REFUSALS: Mapping[str, str] = {
    "switched_off": "A kill switch turns this caller or route off.",
    "model_not_found": "The caller may use no route of this name.",
    "wrong_endpoint": "No target answers this endpoint.",
    "not_bridgeable": "The dialect of its targets has no words for this request.",
    "targets_switched_off": "Kill switches turn all targets off.",
    "no_capacity": "No target's pool runs.",
}
WHY_NOT: Mapping[str, str] = {
    "over": "it is over",
    "endpoint": "this endpoint asks no model for an answer",
    "target_asked_for": "the caller picks its target",
    "other_requests": "it is about other requests",
    "no_unit": "the request names no {unit}",
    "other_part": "its {unit} is in another part of the layer",
    "not_allocated": "its {unit} is not let in yet",
}
FIELDS: Mapping[str, str] = {"prompt_tokens": "prompt tokens"}


@dataclass(frozen=True, slots=True)
class Rule:
    """One rule, its state, and what of it is not met."""

    name: str
    state: State
    why: Sequence[str]


@dataclass(frozen=True, slots=True)
class Worker:
    """One worker's line: its wait term by term, and how often it is chosen."""

    name: str
    state: State
    terms: Sequence[str]
    wait: str
    under_way: str
    share: str
    is_chosen: bool


@dataclass(frozen=True, slots=True)
class Target:
    """One target's line, and its workers."""

    name: str
    model: str
    place: str
    weight: str
    tier: int
    share: str
    cost: str
    context: str
    why_not: str
    whose: str
    bridge: str
    workers: Sequence[Worker]


def verdict_of(document: Mapping[str, Any]) -> State:
    """The outcome in a few words."""
    if document["refusal"] is not None:
        return State("Refused", "crit", "crit")
    if document["refused_by_limit"] is not None:
        return State("Refused by a limit", "crit", "crit")
    if document["refused_by_budget"] is not None:
        return State("Refused by a budget", "crit", "crit")
    if document["is_shed"]:
        return State("Shed", "crit", "crit")
    if document["choice"] is not None:
        return State("Served", "ok", "ok")
    if document["waits"]:
        return State("Waits for a worker", "clock", "warn")
    return State("Nobody to serve it", "crit", "crit")


def sentence_of(document: Mapping[str, Any]) -> str:
    """What would happen, in a sentence."""
    refusal, choice = document["refusal"], document["choice"]
    if refusal is not None:
        return str(refusal["message"] or REFUSALS[refusal["code"]])
    limit = _named_limit(document)
    if limit is not None:
        most = f"{count(limit['amount'])} {limit['unit'].replace('_', ' ')}"
        return f"The limit {limit['name']} is {most}, and it wants {count(limit['must_be_left'])}."
    budget = _named_budget(document)
    if budget is not None and budget["reserves_nanousd"] is None:
        return f"The budget {budget['name']} refuses what has no price."
    if budget is not None:
        needs, left = _dollars(budget["reserves_nanousd"]), _dollars(budget["left_nanousd"])
        most = _dollars(budget["amount_nanousd"])
        return f"{left} is left of the budget {budget['name']} ({most}); it may cost {needs}."
    if document["is_shed"]:
        return "Its route is too busy for requests of its class, and refuses them for now."
    if choice is None and document["waits"]:
        return "All workers that could take it are full, so it waits in the gateway."
    if choice is None:
        return "No worker of its targets can be sent to now."
    pool = next(one["pool"] for one in document["targets"] if one["id"] == choice["target"])
    others = choice["candidates"] - 1
    told = f"one of {count(choice['candidates'])} candidates" if others else "the only candidate"
    return f"With this chance it goes to {pool}, worker {_short(choice['worker'])}, {told}."


def _named_limit(document: Mapping[str, Any]) -> Mapping[str, Any] | None:
    """The limit that refuses it, if one does."""
    refusing = document["refused_by_limit"]
    return next((one for one in document["limits"] if one["id"] == refusing), None)


def _named_budget(document: Mapping[str, Any]) -> Mapping[str, Any] | None:
    """The budget that refuses it, if one does."""
    refusing = document["refused_by_budget"]
    return next((one for one in document["budgets"] if one["id"] == refusing), None)


def _dollars(nanousd: str) -> str:
    return dollars(int(nanousd))


def budgets_told(document: Mapping[str, Any]) -> Sequence[Mapping[str, str]]:
    """The budgets it is counted on."""
    return [
        {
            "name": one["name"],
            "for": ", ".join(one["counts_for"]),
            "id": one["id"],
            "most": f"{_dollars(one['amount_nanousd'])} "
            f"{period_words(one['period'], is_rolling=one['is_rolling'])}",
            "left": _dollars(one["left_nanousd"]) if document["is_spending_known"] else UNKNOWN,
            "short": "too little left for it" if one["is_short"] else "",
            "reserves": "unknown"
            if one["reserves_nanousd"] is None
            else _dollars(one["reserves_nanousd"]),
            "action": _ACTIONS[BudgetAction(one["action"])],
        }
        for one in document["budgets"]
    ]


_ACTIONS: Mapping[BudgetAction, str] = {
    BudgetAction.BLOCK: "refuses",
    BudgetAction.CHEAPER: "takes a cheaper model",
    BudgetAction.THROTTLE: "lets in fewer",
    BudgetAction.NOTIFY: "only counts",
}


def rules_of(document: Mapping[str, Any]) -> Sequence[Rule]:
    """The rules in their order."""
    return [
        Rule(
            one["name"],
            RULE_STATES[one["state"]],
            [_mismatch(miss) for miss in one["mismatches"]],
        )
        for one in document["rules"]
    ]


def targets_of(document: Mapping[str, Any]) -> Sequence[Target]:
    """The targets: those of the plan in its order, then those left out."""
    ordered = sorted(document["targets"], key=lambda one: (one["place"] is None, one["place"] or 0))
    is_skipped = DegradationStep.SMALLER_MODEL in document["degraded"]
    names = {
        variant["id"]: variant["name"]
        for one in document["experiments"]
        for variant in one["variants"]
    }
    return [_target(one, names, is_skipped=is_skipped) for one in ordered]


def experiments_told(document: Mapping[str, Any]) -> Sequence[Mapping[str, str]]:
    """What experiments on its route make of it."""
    return [
        {
            "name": one["name"],
            "phase": count(one["phase"]),
            "unit": _words(one["unit"]),
            "place": _draw(one["place"]),
            "draw": _draw(one["draw"]),
            "variant": one["variant"] or "none",
            "share": "" if one["share_bp"] is None else f"{one['share_bp'] / 100:g} % get it",
            "sets": ", ".join(f"{name} = {text}" for name, text in one["parameters"].items()),
            "why_not": WHY_NOT[one["why_not"]].format(unit=_words(one["unit"]))
            if one["why_not"]
            else "",
        }
        for one in document["experiments"]
    ]


def _draw(draw: float | None) -> str:
    return UNKNOWN if draw is None else f"{draw:.4f}"


def split_told(document: Mapping[str, Any]) -> Split | None:
    """How requests like this one divide."""
    shares = [
        (one["pool"] or one["pool_id"], one["share"]) for one in document["targets"] if one["share"]
    ]
    if not shares:
        return None
    return split_of("Of all requests like this, over all chances", shares)


def facts_told(document: Mapping[str, Any]) -> Sequence[Fact]:
    """What the gateway knows of the request, and what it counts as."""
    facts, standing = document["facts"], document["standing"]
    prompt, output = document["prompt_tokens_max"], document["output_tokens_max"]
    return [
        Fact("Asked for", facts["model"], is_mono=True),
        Fact("Prompt, estimated", count(facts.get("prompt_tokens", 0)), unit="tokens"),
        Fact("Prompt, at most", count(prompt), unit="" if prompt is None else "tokens"),
        Fact("Output, at most", count(output), unit="" if output is None else "tokens"),
        Fact("Cost, at most", _cost(document["cost_max_nanousd"], document["refusal"])),
        Fact("Priority", standing["priority"]),
        Fact("Task", standing["task"]),
        Fact("Tags", ", ".join(standing["tags"]) or "none"),
        *_degraded(document["degraded"]),
    ]


def _degraded(steps: Sequence[str]) -> Sequence[Fact]:
    if not steps:
        return ()
    return (Fact("Served less well", ", ".join(one.replace("_", " ") for one in steps)),)


def limits_told(document: Mapping[str, Any]) -> Sequence[Mapping[str, str]]:
    """The limits it has to keep."""
    models = {one["model_id"]: one["model"] for one in document["targets"] if one["model_id"]}
    return [
        {
            "name": one["name"],
            "for": _counted_for(one, models),
            "most": f"{count(one['amount'])} {_UNITS.get(one['unit'], _words(one['unit']))}",
            "window": _WINDOWS.get(one["window"], f"a {one['window']}"),
            "short": "too small for it" if one["is_short"] else "",
            "needs": count(one["must_be_left"]),
            "takes": count(one["is_taken"]),
        }
        for one in document["limits"]
    ]


_WINDOWS: Mapping[str | None, str] = {None: "at once", "hour": "an hour"}
_UNITS: Mapping[str, str] = {"parallel": "requests", "total_tokens": "tokens in and out"}
_WHOSE: Mapping[str, str] = {
    "organisation": "the whole organisation",
    "team": "its team",
    "project": "its project",
    "key": "its key",
    "route": "its route",
}


def _counted_for(limit: Mapping[str, Any], models: Mapping[str, str | None]) -> str:
    subject, named = limit["subject"], limit["counted_for"]
    if subject == "model":
        named = models.get(named) or named
    return _WHOSE.get(subject) or f"{_words(subject)} {named}"


def _words(name: str) -> str:
    return name.replace("_", " ")


def fleet_told(document: Mapping[str, Any]) -> str:
    """Whose view of the fleet it is, and how old."""
    fleet = document["fleet"]
    if fleet["process"] is None:
        return "No gateway reports, so what is under way is not known; taken as nothing."
    if not fleet["is_load_known"]:
        return "As if nothing were under way: load is for roles of the whole organisation."
    return (
        f"As gateway process {fleet['process']} saw the fleet {fleet['age_s']:.1f} s ago"
        f" ({count(len(fleet['processes']))} report)."
    )


def _mismatch(miss: Mapping[str, Any]) -> str:
    field = FIELDS.get(miss["field"], miss["field"])
    wanted = " or ".join(miss["wanted"])
    if field == "schedule":
        return f"it applies {wanted}"
    found = ", ".join(miss["found"]) or "nothing"
    return f"{field}: wants {wanted}, there is {found}"


def _target(one: Mapping[str, Any], variants: Mapping[str, str], *, is_skipped: bool) -> Target:
    why = LEFT_OUT.get(one["left_out"] or "", "")
    variant = variants.get(one["variant_id"], "")
    if one["stands_in"]:
        whose = "the control's, in case the variant's fail"
    else:
        whose = f"of the variant {variant}" if variant else ""
    if not why and one["place"] is None and variant and not is_skipped:
        why = "another variant's" if one["weight"] else "weight 0"
    elif not why and one["place"] is None:
        skipped = "passed over by the step smaller model" if is_skipped else "not planned"
        why = skipped if one["weight"] else "weight 0"
    return Target(
        name=one["pool"] or one["pool_id"],
        model=one["model"] or UNKNOWN,
        place=UNKNOWN if one["place"] is None else str(one["place"] + 1),
        weight=count(one["weight"]),
        tier=one["tier"],
        share=_percent(one["share"]),
        cost=_cost(one["cost_max_nanousd"], why),
        context=count(one["max_context_tokens"]),
        why_not=why,
        whose=whose,
        bridge="" if one["bridge"] is None else PATHS[Endpoint(one["bridge"])],
        workers=[_worker(worker) for worker in one["workers"]],
    )


def _worker(one: Mapping[str, Any]) -> Worker:
    standby = one["standby"]
    chosen = State("Chosen", "ok", "ok")
    state = chosen if one["is_chosen"] else State("Candidate", "ok", "idle")
    slots = "" if one["slots"] is None else f" of {count(one['slots'])}"
    return Worker(
        name=_short(one["id"]),
        state=state if standby is None else STANDBY[standby],
        terms=[f"{one[name]:.3f}" for name in ("wait_prefill", "wait_requests", "wait_kv")],
        wait=f"{one['wait']:.3f}",
        under_way=UNKNOWN
        if one["inflight"] is None
        else f"{count(one['inflight'])}{slots}, {count(one['peers_inflight'])} elsewhere",
        share=_percent(one["share"]),
        is_chosen=one["is_chosen"],
    )


def _short(worker_id: str) -> str:
    """A worker's number in its pool; the pool is named beside it."""
    return f"#{worker_id.rpartition('-')[2]}"


def _percent(share: float) -> str:
    return f"{100 * share:.1f} %"


def _cost(nanousd: str | None, why_not: object) -> str:
    if nanousd is not None:
        return about_dollars(int(nanousd))
    return UNKNOWN if why_not else "no price"
