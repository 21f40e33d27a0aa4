"""A cache policy's bypass in its form: conditions as rules of routes have them, without targets.

The editor is that of a route's rules, and so are the names of its controls and buttons.
"""

from collections.abc import Mapping, Sequence
from typing import Any

from django.core.exceptions import ValidationError
from django.forms import Field

from controlplane.console.rules import RuleRow, RulesWidget, conditions_in, saved_rule
from controlplane.decisions.route_rules import condition_words

Document = Mapping[str, Any]


class BypassField(Field):
    """Its value is a list of conditions as the service takes them, references as typed."""

    widget = RulesWidget

    def clean(self, value: Any) -> list[dict[str, Any]]:
        found, problems = [], []
        for row in value or ():
            when, problem = conditions_in(row)
            found.append(when)
            if problem:
                problems.append(f"Bypass {row.number}: {problem}")
        if problems:
            raise ValidationError(problems)
        return found


def saved_bypass(index: int, when: Document, names: Mapping[str, str]) -> RuleRow:
    """Conditions as a row of the form; `names` are what to write for ids."""
    document = {"name": "", "is_enabled": True, "when": when, "targets": []}
    return saved_rule(index, document, names)


def as_rules(conditions: Sequence[Document]) -> list[dict[str, Any]]:
    """Conditions as the rules that `console.rule_lines` finds names in."""
    return [{"when": one} for one in conditions]


def bypass_words(when: Document, names: Mapping[str, str], zone: str = "") -> str:
    """Conditions in a sentence."""
    return " and ".join(condition_words(when, names, zone))
