"""A question about one request as people and programs put it, and its answer as a document."""

from collections.abc import Mapping
from datetime import datetime
from typing import Any

from django.db.models import Q

from controlplane.bridge.configurations import live_configuration
from controlplane.bridge.explaining import Question, answer, key_of
from controlplane.decisions.explanations import document_of
from controlplane.errors import Invalid
from controlplane.models import Organisation
from controlplane.models.keys import public_key_id
from controlplane.selectors.access import Access
from controlplane.selectors.keys import list_keys
from controlplane.selectors.projects import list_projects
from inference.contract.kinds import Endpoint, PriorityClass, TaskClass
from inference.contract.snapshot import KeyRecord
from inference.decisions.cost import MAX_TOKENS, bound_prompt_tokens
from inference.decisions.endpoints import COUNTING, READING
from inference.decisions.facts import RequestFacts

BYTES_PER_TOKEN = 4
"""As gateways estimate a prompt's tokens."""

_ENVELOPE_BYTES = 60
"""About what a body has beside the text of its one message."""


def ask(
    access: Access,
    organisation: Organisation,
    values: Mapping[str, Any],
    *,
    now: datetime,
    drafted: Mapping[str, object] | None = None,
) -> dict[str, Any]:
    """Explain the request that these values describe; nothing of them is kept.

    `values` are by the names of the API's question. Raises Invalid at a field, or Conflict without
    a configuration.
    """
    at = values.get("at") or now
    question = Question(
        identity=_identity(access, organisation, values),
        facts=facts_of(values),
        now_s=at.timestamp(),
        drafted=drafted,
        process=values.get("process") or None,
        plan_u=values.get("plan_u", 0.5),
        worker_u=values.get("worker_u", 0.5),
    )
    found = answer(access, question, clock_s=now.timestamp())
    if question.process is not None and found.described.process != question.process:
        raise Invalid.field("process", "No gateway process of this name reports.")
    return document_of(
        found.explanation,
        facts=found.facts,
        snapshot=found.snapshot,
        described=found.described,
        is_load_known=found.is_load_known,
        is_spending_known=found.is_spending_known,
        is_draft=found.is_draft,
        at_s=question.now_s,
        now=now,
    )


def facts_of(values: Mapping[str, Any]) -> RequestFacts:
    """What a gateway would know of the request; of its prompt the length alone."""
    endpoint = Endpoint(values.get("endpoint") or Endpoint.CHAT)
    text = values.get("prompt")
    if text is None:
        tokens = values.get("prompt_tokens") or 0
        most = min(tokens * BYTES_PER_TOKEN, MAX_TOKENS)
    else:
        size = len(text.encode(errors="replace")) + _ENVELOPE_BYTES
        most = bound_prompt_tokens(body_bytes=size, messages=1)
        tokens = most // BYTES_PER_TOKEN
    priority, task = values.get("priority"), values.get("task")
    headers = values.get("headers") or {}
    generates = endpoint not in READING and endpoint not in COUNTING
    return RequestFacts(
        model=values["model"],
        prompt_tokens_max=most,
        output_tokens_requested=values.get("max_tokens"),
        answers=(values.get("answers") or 1) if generates else 0,
        endpoint=endpoint,
        prompt_tokens=tokens,
        end_user=values.get("end_user") or None,
        tags=tuple(values.get("tags") or ()),
        priority=PriorityClass(priority) if priority else None,
        task=TaskClass(task) if task else None,
        session=values.get("session") or None,
        headers=tuple(sorted((name.lower(), value) for name, value in headers.items())),
    )


def _identity(access: Access, organisation: Organisation, values: Mapping[str, Any]) -> KeyRecord:
    """The key it comes with, or one of the project that may use every route."""
    asked = values.get("key")
    if asked:
        keys = list_keys(access).filter(organisation_id=organisation.pk)
        row = _found(keys, asked)
        if row is None:
            raise Invalid.field("key", "There is none of this name or id.")
        record = key_of(live_configuration(), public_key_id(row.pk))
        if record is None:
            raise Invalid.field("key", "It is revoked, so gateways don't know it.")
        return record
    projects = list_projects(access).filter(organisation_id=organisation.pk)
    project = _found(projects, values.get("project") or "")
    if project is None:
        raise Invalid.field("project", "There is none of this name or id.")
    return KeyRecord("", organisation.pk, project.team_id, project.pk, ())


def _found(rows: Any, asked: str) -> Any:
    plain = asked.replace("\0", "")
    return rows.filter(Q(pk=plain) | Q(name=plain)).order_by("pk").first()
