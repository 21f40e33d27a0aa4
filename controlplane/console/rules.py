"""A route's rules in its form: what was typed, rule by rule, and what that comes to."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from django.core.exceptions import ValidationError
from django.forms import Field, Widget
from django.http import QueryDict

from controlplane.console.targets import (
    TargetRow,
    cleaned,
    counted,
    filled,
    row_of,
    rows_of,
    typed,
)
from controlplane.decisions.route_rules import REFERENCES, minute_of
from controlplane.models.kinds import Choices, choices_of, priorities, task_classes
from inference.contract.kinds import Weekday

OF = "rules"
ADD_RULE, ADD_TARGET, UP, DOWN, REMOVE = "rule-add", "target", "up", "down", "remove"

_TEXTS = (*REFERENCES, "tags", "aliases", "headers")
_NUMBERS = ("prompt_tokens_min", "prompt_tokens_max")
_CLOCKS = ("from", "to")
_MARKS: Mapping[str, Choices] = {
    "tasks": task_classes(),
    "priorities": priorities(),
    "days": choices_of(Weekday),
}
_MARK_LABELS = ("Task", "Class", "Days")
_CONTROLS = (
    ("keys", "Keys", "names or ids, with commas"),
    ("teams", "Teams", "names or ids, with commas"),
    ("projects", "Projects", "names or ids, with commas"),
    ("tags", "Tags", "of the key or the request"),
    ("aliases", "Asked for as", "names callers wrote"),
    ("headers", "Headers", "name: value, one a line"),
    ("prompt_tokens_min", "Prompt from, tokens", ""),
    ("prompt_tokens_max", "Prompt to, tokens", ""),
    ("from", "From, HH:MM", "00:00"),
    ("to", "To, HH:MM", "24:00"),
)


@dataclass(frozen=True, slots=True)
class RuleRow:
    """One rule as it stands in the form, sound or not.

    `texts` are controls people type into, `marks` the values ticked of a list; `took` says what it
    has measurably taken, if it is there already.
    """

    index: int
    id: str = ""
    name: str = ""
    is_enabled: bool = True
    texts: Mapping[str, str] = field(default_factory=dict)
    marks: Mapping[str, Sequence[str]] = field(default_factory=dict)
    targets: Sequence[TargetRow] = ()
    took: str = ""

    @property
    def prefix(self) -> str:
        return f"{OF}-{self.index}"

    @property
    def number(self) -> int:
        return self.index + 1

    @property
    def of_targets(self) -> str:
        """What the names of the controls of its targets begin with."""
        return f"{self.prefix}-targets"

    @property
    def number_text(self) -> str:
        return str(self.number)

    @property
    def text_fields(self) -> Sequence[tuple[str, str, str, str]]:
        """What people type into: name, label, hint, what was typed."""
        return [(name, label, hint, self.texts.get(name, "")) for name, label, hint in _CONTROLS]

    @property
    def mark_fields(self) -> Sequence[tuple[str, str, Sequence[tuple[str, str, bool]]]]:
        """The lists to tick: name, label, and of each its value, words and whether it is ticked."""
        return [
            (name, label, [(one, words, one in self.marks.get(name, ())) for one, words in choices])
            for (name, choices), label in zip(_MARKS.items(), _MARK_LABELS, strict=True)
        ]

    @property
    def is_blank(self) -> bool:
        pools = (one.pool for one in self.targets)
        return not any((self.name, *self.texts.values(), *self.marks.values(), *pools))

    @property
    def conditions(self) -> str:
        """What is written of its conditions, in short; "" is none."""
        typed_in = [
            f"{label.partition(',')[0].lower()} {text}"
            for _, label, _, text in self.text_fields
            if text
        ]
        ticked = [
            f"{label.lower()} {', '.join(words for _, words, is_ticked in choices if is_ticked)}"
            for name, label, choices in self.mark_fields
            if self.marks.get(name)
        ]
        return "; ".join((*typed_in, *ticked)).replace("\n", ", ")

    def at(self, index: int) -> "RuleRow":
        """The same rule at another place of the list."""
        moved = replace(self, index=index)
        return replace(moved, targets=[replace(one, of=moved.of_targets) for one in self.targets])


class RulesWidget(Widget):
    """Reads the rules of the page's own template; those with nothing in them are left out."""

    def value_from_datadict(self, data: QueryDict, files: Any, name: str) -> Any:
        return [rule for rule in rules_in(data) if not rule.is_blank]

    def value_omitted_from_data(self, data: QueryDict, files: Any, name: str) -> bool:
        return f"{OF}-count" not in data


class RulesField(Field):
    """Its value is a list of documents as the service takes them, references as typed."""

    widget = RulesWidget

    def clean(self, value: Any) -> list[dict[str, Any]]:
        found, problems = [], []
        for rule in value or ():
            document, problem = _document(rule)
            found.append(document)
            if problem:
                problems.append(f"Rule {rule.number}: {problem}")
        if problems:
            raise ValidationError(problems)
        return found


def rules_in(data: QueryDict) -> Sequence[RuleRow]:
    """The rules a page sent, in its order."""
    return [_read(data, index) for index in range(counted(data, OF))]


def _read(data: QueryDict, index: int) -> RuleRow:
    of = f"{OF}-{index}"
    return RuleRow(
        index,
        typed(data, f"{of}-id"),
        typed(data, f"{of}-name"),
        bool(data.get(f"{of}-is_enabled")),
        {name: typed(data, f"{of}-{name}") for name in (*_TEXTS, *_NUMBERS, *_CLOCKS)},
        {name: data.getlist(f"{of}-{name}") for name in _MARKS},
        rows_of(data, f"{of}-targets"),
    )


def arranged(rules: Sequence[RuleRow], step: str) -> Sequence[RuleRow]:
    """The rules after a button of the editor: one more, moved, gone, or with one more target."""
    found = list(rules)
    if step == ADD_RULE:
        found.append(RuleRow(len(found)))
    kind, _, rest = step.partition("-")
    number, _, act = rest.partition("-")
    if kind == "rule" and number.isascii() and number.isdigit() and int(number) < len(found):
        _act(found, int(number), act)
    return [_with_target(rule.at(index)) for index, rule in enumerate(found)]


def _act(rules: list[RuleRow], index: int, act: str) -> None:
    if act == REMOVE:
        del rules[index]
    elif act == UP and index > 0:
        rules.insert(index - 1, rules.pop(index))
    elif act == DOWN:
        rules.insert(index + 1, rules.pop(index))
    elif act == ADD_TARGET:
        rule = rules[index]
        more = TargetRow(len(rule.targets), "", "", of=rule.of_targets)
        rules[index] = replace(rule, targets=[*rule.targets, more])


def _with_target(rule: RuleRow) -> RuleRow:
    """The rule with a row for a target, at least an empty one."""
    if rule.targets:
        return rule
    return replace(rule, targets=[TargetRow(0, "", "1", of=rule.of_targets)])


def saved_rule(index: int, document: Mapping[str, Any], names: Mapping[str, str]) -> RuleRow:
    """A document as a row of the form; `names` are what to write for ids."""
    when = document.get("when") or {}
    when = when if isinstance(when, Mapping) else {}
    schedule = when.get("schedule") or {}
    texts = {
        name: ", ".join(names.get(one, one) for one in when.get(name) or ())
        for name in (*REFERENCES, "tags", "aliases")
    }
    texts["headers"] = "\n".join(
        f"{one['name']}: {one['value']}" for one in when.get("headers") or ()
    )
    numbers = {name: when.get(name) for name in _NUMBERS}
    texts |= {name: "" if value is None else str(value) for name, value in numbers.items()}
    texts |= {name: str(schedule.get(name, "")) for name in _CLOCKS}
    marks = {name: list(when.get(name) or ()) for name in ("tasks", "priorities")}
    marks["days"] = list(schedule.get("days") or ())
    rule = RuleRow(
        index, document.get("id") or "", document["name"], document["is_enabled"], texts, marks
    )
    targets = [row_of(place, one, rule.of_targets) for place, one in enumerate(document["targets"])]
    return _with_target(replace(rule, targets=targets))


def _document(rule: RuleRow) -> tuple[dict[str, Any], str]:
    """What a row comes to, and what is wrong with it in words, "" if nothing."""
    targets, problem = cleaned(filled(rule.targets))
    if not targets:
        problem = problem or "it needs a target."
    if not rule.name:
        problem = "give it a name."
    when, wrong = conditions_in(rule)
    document = {"name": rule.name, "is_enabled": rule.is_enabled, "when": when, "targets": targets}
    return ({"id": rule.id} if rule.id else {}) | document, problem or wrong


def conditions_in(rule: RuleRow) -> tuple[dict[str, Any], str]:
    """What a row's conditions come to, and what is wrong with them in words, "" if nothing."""
    when: dict[str, Any] = {name: words_in(rule.texts[name]) for name in (*REFERENCES, "tags")}
    headers, wrong = _headers(rule.texts["headers"])
    when |= {"headers": headers, "aliases": words_in(rule.texts["aliases"])}
    for name in ("tasks", "priorities"):
        when[name] = [value for value, _ in _MARKS[name] if value in rule.marks[name]]
    for name in _NUMBERS:
        text = rule.texts[name]
        is_number = text.isascii() and text.isdigit() and len(text) < 10
        if text and not is_number:
            wrong = wrong or "bounds of the prompt are whole tokens."
        when[name] = int(text) if is_number else None
    schedule, late = _schedule(rule)
    when["schedule"] = schedule
    return when, wrong or late


def words_in(text: str) -> list[str]:
    """Words with commas or line breaks between them, each once."""
    parts = (part.strip() for part in text.replace("\n", ",").split(","))
    return list(dict.fromkeys(part for part in parts if part))


def _headers(text: str) -> tuple[list[dict[str, str]], str]:
    found = []
    for line in filter(None, map(str.strip, text.splitlines())):
        name, colon, value = line.partition(":")
        if not (colon and name.strip() and value.strip()):
            return [], "write each header as name: value, one a line."
        found.append({"name": name.strip().lower(), "value": value.strip()})
    return found, ""


def _schedule(rule: RuleRow) -> tuple[dict[str, Any] | None, str]:
    days = [value for value, _ in _MARKS["days"] if value in rule.marks["days"]]
    begin, end = (rule.texts[name] for name in _CLOCKS)
    if not (days or begin or end):
        return None, ""
    schedule = {"days": days, "from": begin or "00:00", "to": end or "24:00"}
    if minute_of(schedule["from"]) is None or minute_of(schedule["to"]) is None:
        return None, "give times as HH:MM, from 00:00 to 24:00."
    return schedule, ""
