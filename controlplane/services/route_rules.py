"""The rules of routes: from documents as people write them to records as gateways read them.

A document is `{"id", "name", "is_enabled", "when": {...}, "targets": [TargetChoice]}`; conditions
are named as in `decisions.route_rules.when_document`, and what isn't given is no condition.
"""

import re
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from enum import StrEnum
from typing import Any, TypeVar

from django.db.models import Model, Q

from controlplane.compiler import rules_of, stored_rules
from controlplane.decisions.route_rules import REFERENCES, document_of, minute_of
from controlplane.errors import Invalid
from controlplane.models import Key, Project, Route, Team
from controlplane.models.keys import public_key_id
from controlplane.models.rows import rule_id
from controlplane.services import edits, rows
from controlplane.services.actors import Actor
from controlplane.services.route_targets import Pools, TargetChoice, chosen_targets, told_target
from inference.contract.kinds import PriorityClass, TaskClass, Weekday
from inference.contract.params import MAX_RULES, MINUTES_A_DAY
from inference.contract.snapshot import MatchRecord, RuleRecord, ScheduleRecord
from inference.decisions.route_problems import findings_in_match

Document = Mapping[str, Any]
Member = TypeVar("Member", bound=StrEnum)

MAX_VALUES = 200
"""How many of a kind one condition names at most."""

_KINDS: Mapping[str, type[Model]] = {"keys": Key, "teams": Team, "projects": Project}
_HEADER_PART = re.compile(r"^headers\.([0-9]+)\.([01])$")


def place_rules(route: Route, documents: Sequence[Document]) -> list[Any]:
    """The rules a route is to have, as its row stores them; raises Invalid at `rules.0.…`.

    Without an `id`, a rule of the same name keeps its identity; targets as in `TargetChoice`.
    """
    if len(documents) > MAX_RULES:
        raise Invalid.field("rules", f"A route has at most {MAX_RULES} rules.")
    choices = [one for document in documents for one in document["targets"]]
    pools = Pools(route.organisation_id, choices)
    known = References(route.organisation_id, documents)
    left = {rule.id: rule for rule in rules_of(route.rules)}
    claimed = {document["id"] for document in documents if document.get("id")}
    placed: list[RuleRecord] = []
    for position, document in enumerate(documents):
        place = f"rules.{position}"
        kept = _kept(document, left, claimed, place)
        placed.append(_rule(document, kept, pools, known, place))
    return stored_rules(placed)


def _kept(
    document: Document, left: dict[str, RuleRecord], claimed: Collection[str], place: str
) -> RuleRecord | None:
    """The rule this is an edit of, taken out of those that are left; None is a new one."""
    asked = document.get("id")
    if asked:
        if asked not in left:
            raise Invalid.field(f"{place}.id", "The route has no such rule, or it is named twice.")
        return left.pop(asked)
    named = (one for one in left.values() if one.name == document["name"] and one.id not in claimed)
    found = next(named, None)
    return None if found is None else left.pop(found.id)


def _rule(
    document: Document, kept: RuleRecord | None, pools: Pools, known: "References", place: str
) -> RuleRecord:
    is_enabled = document.get("is_enabled", True)
    when = match_of(document.get("when") or {}, known, f"{place}.when")
    held = () if kept is None or is_enabled else (*kept.when.key_ids, *_homes(kept))
    known.refuse_unknown(document.get("when") or {}, held, f"{place}.when")
    choices: Sequence[TargetChoice] = document["targets"]
    existing = () if kept is None else kept.targets
    targets = chosen_targets(pools, choices, existing, f"{place}.targets")
    own_id = rule_id() if kept is None else kept.id
    return RuleRecord(own_id, document["name"], when, tuple(targets), is_enabled)


def _homes(rule: RuleRecord) -> Iterable[str]:
    return (*rule.when.team_ids, *rule.when.project_ids)


def match_of(when: Document, known: "References", place: str) -> MatchRecord:
    """Conditions as gateways read them; raises Invalid at `<place>.<condition>`."""
    for field, values in when.items():
        if isinstance(values, list) and len(values) > MAX_VALUES:
            message = f"A condition names at most {MAX_VALUES} of a kind."
            raise Invalid.field(f"{place}.{field}", message)
    headers = ((one["name"].lower(), one["value"]) for one in when.get("headers") or ())
    match = MatchRecord(
        key_ids=_unique(map(public_key_id, known.ids_of("keys", when))),
        team_ids=_unique(known.ids_of("teams", when)),
        project_ids=_unique(known.ids_of("projects", when)),
        tags=_unique(when.get("tags") or ()),
        headers=tuple(dict.fromkeys(headers)),
        aliases=_unique(when.get("aliases") or ()),
        tasks=_members(TaskClass, when, "tasks", place),
        priorities=_members(PriorityClass, when, "priorities", place),
        prompt_tokens_min=when.get("prompt_tokens_min"),
        prompt_tokens_max=when.get("prompt_tokens_max"),
        schedule=_schedule(when.get("schedule"), place),
    )
    problems: dict[str, list[str]] = {}
    for field, _, message in findings_in_match(match):
        problems.setdefault(f"{place}.{_as_written(field)}", []).append(message)
    if problems:
        raise Invalid("Some fields are not valid.", fields=problems)
    return match


def _as_written(field: str) -> str:
    """Where a finding's field stands in a document."""
    part = _HEADER_PART.match(field)
    return field if part is None else f"headers.{part[1]}.{('name', 'value')[int(part[2])]}"


def _unique(values: Iterable[str]) -> tuple[str, ...]:
    return tuple(dict.fromkeys(values))


def _members(kind: type[Member], when: Document, field: str, place: str) -> tuple[Member, ...]:
    values = list(dict.fromkeys(when.get(field) or ()))
    allowed = {one.value for one in kind}
    for position, value in enumerate(values):
        if value not in allowed:
            message = f"Choose from {', '.join(sorted(allowed))}."
            raise Invalid.field(f"{place}.{field}.{position}", message)
    return tuple(kind(value) for value in values)


def _schedule(document: Document | None, place: str) -> ScheduleRecord | None:
    if document is None:
        return None
    here = f"{place}.schedule"
    ends = []
    for field, default in (("from", 0), ("to", MINUTES_A_DAY)):
        minute = minute_of(document[field]) if field in document else default
        if minute is None:
            raise Invalid.field(f"{here}.{field}", "Give a time as HH:MM, from 00:00 to 24:00.")
        ends.append(minute)
    days = _members(Weekday, document, "days", place)
    return ScheduleRecord(tuple(day for day in Weekday if day in days), *ends)


class References:
    """Keys, teams and projects of the organisation that documents name, by name or id.

    One query a kind. Revoked keys are none.
    """

    def __init__(self, organisation_id: str, documents: Iterable[Document]) -> None:
        self._ids: dict[str, dict[str, str]] = {}
        whens = [document.get("when") or {} for document in documents]
        for kind, model in _KINDS.items():
            asked = {one for when in whens for one in when.get(kind) or ()}
            self._ids[kind] = _ids_by_name(model, organisation_id, asked) if asked else {}

    def ids_of(self, kind: str, when: Document) -> list[str]:
        """The ids that are meant; who isn't known stands as written."""
        return [self._ids[kind].get(one, one) for one in when.get(kind) or ()]

    def refuse_unknown(self, when: Document, held: Collection[str], place: str) -> None:
        """Raise Invalid at the first that isn't there; `held` are ids that may be gone."""
        for kind, ids in self._ids.items():
            for position, one in enumerate(when.get(kind) or ()):
                bare = public_key_id(one) if kind == "keys" else one
                if one not in ids and bare not in held:
                    message = f"There is no {kind.removesuffix('s')} of this name or id."
                    raise Invalid.field(f"{place}.{kind}.{position}", message)


def _ids_by_name(model: type[Model], organisation_id: str, asked: Iterable[str]) -> dict[str, str]:
    wanted = list(asked)
    found = model._default_manager.filter(organisation_id=organisation_id)
    found = found.filter(Q(pk__in=wanted) | Q(name__in=wanted)).order_by("-pk")
    if model is Key:
        found = found.filter(revoked_at__isnull=True)
    pairs = list(found.values_list("pk", "name"))
    return {name: pk for pk, name in pairs} | {pk: pk for pk, _ in pairs}


def with_told_rules(values: Mapping[str, Any]) -> dict[str, Any]:
    """A route's values with its rules as the audit trail tells them: what is given, no more."""
    if "rules" not in values:
        return dict(values)
    return {**values, "rules": [_told(rule) for rule in rules_of(values["rules"])]}


def _told(rule: RuleRecord) -> dict[str, Any]:
    told = document_of(rule)
    given = {name: value for name, value in told["when"].items() if value not in (None, [])}
    targets = [told_target(one) for one in rule.targets]
    bare = [{name: value for name, value in one.items() if name != "id"} for one in targets]
    return {**told, "when": given or "any request", "targets": bare}


def routes_with_pool_in_rules(organisation_id: str, pool_id: str) -> list[str]:
    """The names of routes that send there by a rule."""
    asked = [{"targets": [{"pool_id": pool_id}]}]
    found = Route.objects.filter(organisation_id=organisation_id, rules__contains=asked)
    return list(found.order_by("name").values_list("name", flat=True))


def leave_rules(actor: Actor, organisation_id: str, subject: str, ids: Collection[str]) -> bool:
    """Take keys, teams or projects that go now out of the rules that name them; tells if any did.

    A rule that named nobody else of the kind would begin to match everybody: it keeps the name of
    who is gone, matches nobody, and is switched off. The caller stages the edit it belongs to.
    """
    field = REFERENCES.get(f"{subject}s")
    if field is None:
        return False
    gone = frozenset(public_key_id(one) if subject == "key" else one for one in ids)
    asked = Q()
    for one in gone:
        asked |= Q(rules__contains=[{"when": {field: [one]}}])
    found = Route.objects.select_for_update().filter(asked, organisation_id=organisation_id)
    is_any = False
    for route in found.order_by("pk") if gone else ():
        is_any |= _change_rules(actor, route, lambda rule: _without(rule, field, gone))
    return is_any


def _without(rule: RuleRecord, field: str, gone: Collection[str]) -> RuleRecord:
    named: tuple[str, ...] = getattr(rule.when, field)
    left = tuple(one for one in named if one not in gone)
    if left == named:
        return rule
    if not left:
        return replace(rule, is_enabled=False)
    return replace(rule, when=replace(rule.when, **{field: left}))


def _change_rules(actor: Actor, route: Route, change: Callable[[RuleRecord], RuleRecord]) -> bool:
    changed = rows.change(route, {"rules": stored_rules(map(change, rules_of(route.rules)))})
    if changed is not None:
        before, after = map(with_told_rules, changed)
        edits.note(actor, "update", "routes", route, before=before, after=after)
    return changed is not None


def lost_of(organisation_id: str, stored: object) -> list[str]:
    """Keys, teams and projects that stored rules name and that aren't there (any more), by id."""
    asked: dict[str, set[str]] = {}
    for kind, pk in parents_of(stored):
        asked.setdefault(kind, set()).add(pk)
    lost: set[str] = set()
    for kind, model in _KINDS.items():
        ids = asked.get(kind, set())
        lost |= ids - set(_ids_by_name(model, organisation_id, ids).values()) if ids else set()
    return sorted(lost)


def parents_of(stored: object) -> Iterator[tuple[str, str]]:
    """What stored rules refer to: `pools`, `keys`, `teams` or `projects`, and the id."""
    for rule in rules_of(stored):
        document = document_of(rule)
        for target in document["targets"]:
            yield "pools", target["pool"]
        for kind in REFERENCES:
            for one in document["when"][kind]:
                yield kind, one
