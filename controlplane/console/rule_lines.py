"""Rules in words: for differences, and for people who look for a name and not an id."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

from controlplane.console.diffs import Line
from controlplane.console.scope import Scope
from controlplane.console.targets import place_of, shares_in_tiers, tier_words, times_of_own, told
from controlplane.decisions.route_rules import REFERENCES, condition_words
from controlplane.selectors.names import list_names
from controlplane.services.route_rules import References

Document = Mapping[str, Any]
NameOf = Callable[[str], str]


def conditions_of(rule: Document) -> Mapping[str, Any]:
    """The conditions of a document; the audit trail tells none as words."""
    when = rule.get("when")
    return when if isinstance(when, Mapping) else {}


def names_in(scope: Scope, rules: Iterable[Document]) -> dict[str, str]:
    """The names of the keys, teams and projects that rules name, as far as they are known."""
    ids = {
        one for rule in rules for kind in REFERENCES for one in conditions_of(rule).get(kind) or ()
    }
    return list_names(scope.access, ids)


def writable_names(scope: Scope, rules: Sequence[Document]) -> dict[str, str]:
    """Of those, the names that a form can show instead of the id: they lead back to it."""
    names = names_in(scope, rules)
    found: dict[str, str] = {}
    whens = [
        {kind: [names.get(one, one) for one in conditions_of(rule).get(kind) or ()]
         for kind in REFERENCES}
        for rule in rules
    ]  # fmt: skip
    known = References(scope.organisation.pk, [{"when": when} for when in whens])
    for rule, when in zip(rules, whens, strict=True):
        for kind in REFERENCES:
            ids = conditions_of(rule).get(kind) or ()
            for pk, name, back in zip(ids, when[kind], known.ids_of(kind, when), strict=True):
                if pk == back and not {",", "\n"} & set(name):
                    found[pk] = name
    return found


def rule_words(rule: Document, names: Mapping[str, str], name_of: NameOf) -> str:
    """A rule in a sentence: its conditions, and where its requests go."""
    conditions = " and ".join(condition_words(conditions_of(rule), names)) or "any request"
    state = "" if rule["is_enabled"] else " (off)"
    return f"{rule['name']}{state}: {conditions}, to {targets_words(rule['targets'], name_of)}"


def targets_words(targets: Sequence[Document], name_of: NameOf) -> str:
    """Targets by tier: `llama 80 (80.0 %), qwen 20 (20.0 %), fallback 1 small 1 (100.0 %)`."""
    shares = shares_in_tiers(targets)
    return ", ".join(
        f"{f'{tier_words(tier)} ' if tier else ''}{name_of(one['pool'])} {one['weight']} "
        f"({told(shares[pool, tier])}{times_of_own(one)})"
        for one in targets
        for pool, tier in (place_of(one),)
    )


def rule_lines(
    old: Sequence[Document], new: Sequence[Document], names: Mapping[str, str], name_of: NameOf
) -> Sequence[Line]:
    """A line for each rule that comes, goes or differs; then one for their order."""
    was, now = ({_key(one): one for one in side} for side in (old, new))
    lines = []
    for key in dict.fromkeys((*was, *now)):
        before, after = (
            None if side.get(key) is None else rule_words(side[key], names, name_of)
            for side in (was, now)
        )
        if before != after:
            label = (now.get(key) or was[key])["name"]
            lines.append(Line(f"Rule {label}", before, after))
    both = [[key for key in side if key in was and key in now] for side in (was, now)]
    if both[0] != both[1] or not lines:
        sides = (", ".join(one["name"] for one in side) or "none" for side in (old, new))
        lines.append(Line("Order of rules", *sides))
    return lines


def _key(rule: Document) -> str:
    return str(rule.get("id") or rule["name"])
