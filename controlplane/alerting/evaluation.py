"""One look at every rule that is on, and the messages that follow."""

from datetime import datetime

import structlog

from controlplane.alerting.base import Facts, Grid, Question
from controlplane.alerting.registry import REGISTRY
from controlplane.decisions.alert_kinds import AlertKind
from controlplane.models import AlertRule
from controlplane.selectors.alerts import list_firing_places, list_watching
from controlplane.services import episodes, telling

log = structlog.get_logger(__name__)


def evaluate(now: datetime) -> int:
    """Look at every rule once and queue what is to be told; returns how many messages.

    A rule that can't be looked at is logged and holds up no other.
    """
    facts = Facts()
    for rule in list_watching():
        try:
            look(rule, facts, now)
        except Exception:
            log.exception("alert rule could not be looked at", rule=rule.pk, kind=rule.kind)
    episodes.note_dead_channels(now)
    return telling.tell_due(now)


def look(rule: AlertRule, facts: Facts, now: datetime) -> None:
    """Measure what the rule watches now, and write down what follows."""
    question = Question.of(rule)
    places = question.places(now, firing=list_firing_places(rule), least_percent=rule.threshold)
    facts.said()
    values = REGISTRY[AlertKind(rule.kind)](question, places, Grid(now), facts)
    last = {pk: told[-1] for pk, told in values.items()}
    episodes.note_looks(rule, places, last, now, said=facts.said())
