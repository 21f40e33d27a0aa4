"""What is wrong with prompts."""

import re
from collections import Counter, defaultdict
from collections.abc import Iterator

from inference.contract.params import (
    MAX_PROMPT_CHARS,
    MAX_PROMPT_MESSAGES,
    MAX_PROMPT_VARIABLES,
    ROUTE_NAME_PATTERN,
)
from inference.contract.snapshot import ConfigSnapshot, PromptRecord
from inference.decisions.problems import Finding, Host, Problem, named, organisation_findings
from inference.decisions.prompts import has_stray_braces, variables_of

_NAME = re.compile(ROUTE_NAME_PATTERN)


def prompt_problems(snapshot: ConfigSnapshot, name: str, host: Host) -> Iterator[Problem | None]:
    """Problems of all versions of prompts."""
    records = snapshot.prompts.values()
    versions = Counter((one.prompt_id, one.version) for one in records)
    current = Counter(one.prompt_id for one in records if one.is_current)
    called: dict[tuple[str, str], set[str]] = defaultdict(set)
    for one in records:
        for called_by in (one.name, one.prompt_id):
            called[one.organisation_id, called_by].add(one.prompt_id)
    for one in records:
        yield from named(name, one.id, _findings_in_prompt(snapshot, one))
        if versions[one.prompt_id, one.version] > 1:
            message = "The prompt has this version twice."
            yield Problem(name, one.id, "version", "duplicate", message)
        if one.is_current and current[one.prompt_id] > 1:
            message = "A prompt has one current version."
            yield Problem(name, one.id, "is_current", "duplicate", message)
        if len(called[one.organisation_id, one.name]) > 1:
            message = "The organisation has this name twice."
            yield Problem(name, one.id, "name", "duplicate", message)


def _findings_in_prompt(snapshot: ConfigSnapshot, prompt: PromptRecord) -> Iterator[Finding]:
    yield from organisation_findings(snapshot, prompt.organisation_id)
    if not _NAME.fullmatch(prompt.name):
        yield "name", "invalid", f"A prompt's name must match {ROUTE_NAME_PATTERN}."
    if prompt.version < 1:
        yield "version", "out_of_range", "It must be at least 1."
    if not prompt.messages:
        yield "messages", "required", "A prompt needs at least one message."
    if len(prompt.messages) > MAX_PROMPT_MESSAGES:
        message = f"A prompt has at most {MAX_PROMPT_MESSAGES} messages."
        yield "messages", "out_of_range", message
    if sum(len(one.content) for one in prompt.messages) > MAX_PROMPT_CHARS:
        message = f"A prompt has at most {MAX_PROMPT_CHARS:,} characters."
        yield "messages", "out_of_range", message
    if len(variables_of(prompt)) > MAX_PROMPT_VARIABLES:
        message = f"A prompt has at most {MAX_PROMPT_VARIABLES} variables."
        yield "messages", "out_of_range", message
    for position, one in enumerate(prompt.messages):
        place = f"messages.{position}.content"
        if not one.content.strip():
            yield place, "required", "A message says something."
        if has_stray_braces(one.content):
            yield place, "invalid", "Two braces stand around the name of a variable: {{name}}."
