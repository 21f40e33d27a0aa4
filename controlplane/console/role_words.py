"""What roles let their holders do, asked of access itself, in words. Nothing here is a rule."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from controlplane.models import Role, RoleBinding
from controlplane.selectors.access import Access, Grant

_ANY = "any"

NOUN_WORDS: Mapping[str, str] = {
    "organisations": "the organisation itself",
    "service_accounts": "service accounts",
    "bindings": "roles of others",
    "snapshots": "roll-backs",
    "reports": "closing of months",
    "report_schedules": "scheduled reports",
    "statements": "opening of closed months",
    "caches": "cache policies",
    "purges": "purges of caches",
    "switches": "kill switches",
    "tokens": "API tokens",
    "alert_rules": "alert rules",
    "channels": "alert channels",
    "silences": "silences of alerts",
    "deliveries": "messages of alerts",
}
PLACES = ("organisation", "team", "project")


@dataclass(frozen=True, slots=True)
class Row:
    """One noun: the places, widest first, in which each role may change it."""

    noun: str
    by_role: Sequence[tuple[str, Sequence[str]]]


@dataclass(frozen=True, slots=True)
class Permission:
    """Whether somebody may change a noun at a place, and by which role."""

    noun: str
    is_allowed: bool
    why: str


def role_matrix() -> Sequence[Row]:
    """Every noun by every role, in the order of `Role`."""
    return [
        Row(
            words_of(noun),
            [(role.value, [one for one in PLACES if _may(role, noun, one)]) for role in Role],
        )
        for noun in _nouns()
    ]


def _nouns() -> Sequence[str]:
    """All that can be changed: whoever may do everything knows it."""
    return Access(is_platform_admin=True).writable_nouns(_ANY)


def words_of(noun: str) -> str:
    """A noun as people call it."""
    return NOUN_WORDS.get(noun, noun)


def place_words(binding: RoleBinding) -> str:
    """Where a role is held."""
    if binding.project is not None:
        return f"project {binding.project.name}"
    if binding.team is not None:
        return f"team {binding.team.name}"
    return "the whole organisation"


def permissions_of(
    access: Access,
    organisation_id: str,
    bindings: Mapping[str, RoleBinding],
    place: Mapping[str, str | None],
) -> Sequence[Permission]:
    """What somebody may change at a place and why; `bindings` are his roles by id."""
    found = []
    for noun in _nouns():
        grant = access.why(noun, organisation_id, **place)
        is_allowed = access.may_write(noun, organisation_id, **place)
        found.append(Permission(words_of(noun), is_allowed, _why(access, grant, bindings)))
    return found


def _why(access: Access, grant: Grant | None, bindings: Mapping[str, RoleBinding]) -> str:
    if grant is None:
        return (
            "as the platform's administrator" if access.is_platform_admin else "no role allows it"
        )
    binding = bindings.get(grant.binding_id)
    where = "elsewhere" if binding is None else f"in {place_words(binding)}"
    return f"{grant.role} {where}"


def _may(role: Role, noun: str, place: str) -> bool:
    """Whether a role held at one kind of place lets its holder change the noun there."""
    held = Grant(
        binding_id=_ANY,
        role=role,
        organisation_id=_ANY,
        team_id=_ANY if place == "team" else None,
        project_id=_ANY if place == "project" else None,
        project_ids=frozenset((_ANY,)),
    )
    asked = {"team_id": held.team_id, "project_id": held.project_id}
    return Access((held,)).may_write(noun, _ANY, **asked)
