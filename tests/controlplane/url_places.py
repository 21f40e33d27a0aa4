"""Who may go where: the tables test_every_url.py holds every path of console and API to."""

from collections.abc import Mapping
from dataclasses import dataclass

from tests.controlplane.url_rows import ALERTS

WHOLE = frozenset({"viewer", "operator", "finance", "admin", "platform admin"})
OF_A = WHOLE | {"team operator", "project viewer"}
OPERATORS = frozenset({"operator", "admin", "platform admin"})
FINANCE = frozenset({"finance", "admin", "platform admin"})
ADMINS = frozenset({"admin", "platform admin"})
ROOT = frozenset({"platform admin"})
OUTSIDERS = frozenset({"none", "admin of b"})
CALLERS = (*sorted(OF_A), *sorted(OUTSIDERS), "nobody")
WEAKER: Mapping[str, frozenset[str]] = {
    "viewer": frozenset(),
    "operator": frozenset({"viewer"}),
    "finance": frozenset({"viewer"}),
    "admin": frozenset({"viewer", "operator", "finance"}),
}
"""Roles of the whole organisation: each may what its weaker ones may, and more."""

ANYBODY = OF_A | OUTSIDERS | {"nobody"}
KNOWN = OF_A | OUTSIDERS
WITH_A_ROLE = OF_A | {"admin of b"}


def is_implied(caller: str, who_may: frozenset[str]) -> bool:
    """Whether the answer to one of another role says what this one's would be.

    What a weaker role may needn't be asked for a stronger one, nor what a stronger one may not for
    a weaker one; the last to be asked is always there, and so is the platform's administrator.
    """
    if caller not in WEAKER:
        return False
    if caller in who_may:
        return bool(WEAKER[caller] & who_may)
    return any(caller in weaker and role not in who_may for role, weaker in WEAKER.items())


@dataclass(frozen=True)
class Noun:
    """Who reads one row of it in organisation A, and who writes it."""

    readers: frozenset[str]
    writers: frozenset[str]


NOUNS: Mapping[str, Noun] = {
    "organisation": Noun(OF_A, ADMINS),
    "team": Noun(WHOLE | {"team operator"}, OPERATORS | {"team operator"}),
    "project": Noun(OF_A, OPERATORS | {"team operator"}),
    "key": Noun(OF_A, OPERATORS | {"team operator"}),
    "model": Noun(OF_A, OPERATORS),
    "price": Noun(OF_A, FINANCE),
    "repricing": Noun(WHOLE, FINANCE),
    "correction": Noun(WHOLE, FINANCE),
    "gpu-price": Noun(OF_A, FINANCE),
    "pool": Noun(OF_A, OPERATORS),
    "route": Noun(OF_A, OPERATORS),
    # those here are of the canary project and of the key in it
    "limit": Noun(OF_A, OPERATORS),
    "budget": Noun(OF_A, FINANCE),
    "cache-policy": Noun(OF_A, OPERATORS),
    "purge": Noun(WHOLE, OPERATORS),
    "switch": Noun(OF_A, OPERATORS),
    "replay": Noun(WHOLE, OPERATORS),
    # whoever reads them may ask for one
    "report-export": Noun(WHOLE, WHOLE),
    "report-schedule": Noun(WHOLE, FINANCE),
    "statement": Noun(WHOLE, FINANCE),
    **dict.fromkeys(ALERTS, Noun(WHOLE, OPERATORS)),
    "service-level": Noun(WHOLE, frozenset()),
    "request": Noun(OF_A, frozenset()),
    "snapshot": Noun(WHOLE, OPERATORS),
    "audit": Noun(WHOLE, frozenset()),
    "user": Noun(WHOLE, ADMINS),
    "binding": Noun(WHOLE, ADMINS),
    "service-account": Noun(WHOLE, ADMINS),
    "token": Noun(WHOLE, ADMINS),
    # all organisations share them
    "gateway": Noun(WHOLE | {"admin of b"}, ROOT),
}
# What isn't one row of a noun: who gets an answer that isn't a refusal.
PLACES: Mapping[str, frozenset[str]] = {
    **dict.fromkeys(("status", "api-schema", "api-docs"), ANYBODY),
    # by the names of loopback alone, or with its token
    "metrics": frozenset(),
    "slack-acts": frozenset(),
    "api-me": KNOWN,
    "me": KNOWN,
    "my": KNOWN,
    "my-usage-export": WITH_A_ROLE,
    "home": WITH_A_ROLE,
    "overview": WITH_A_ROLE,
    "propagation": WITH_A_ROLE,
    "explain": WITH_A_ROLE,
    "api-explain": WITH_A_ROLE,
    "usage": WITH_A_ROLE,
    "spend": WITH_A_ROLE,
    "api-spend": WITH_A_ROLE,
    "api-budget-warnings": WITH_A_ROLE,
    "reports": WHOLE | {"admin of b"},
    "api-report-list": WHOLE | {"admin of b"},
    "report-files": WHOLE | {"admin of b"},
    "report-close": FINANCE | {"admin of b"},
    "report-reopen": ADMINS | {"admin of b"},
    "api-usage": WITH_A_ROLE,
    "price-export": WITH_A_ROLE,
    "price-import": FINANCE | {"admin of b"},
    **dict.fromkeys(("api-price-export", "api-price-unpriced"), WITH_A_ROLE),
    **dict.fromkeys(("api-price-import", "api-price-preview"), FINANCE | {"admin of b"}),
    **dict.fromkeys(("api-own-cost", "own-costs"), WHOLE | {"admin of b"}),
    **dict.fromkeys(("api-margin", "margins"), WHOLE | {"admin of b"}),
    "live": WHOLE,
    "api-live": WHOLE | {"admin of b"},
    "api-attention": WHOLE | {"admin of b"},
    "api-gateway-list": WITH_A_ROLE,
    "gateways": ADMINS | {"admin of b"},
    **dict.fromkeys(
        ("cache-savings", "api-cache-policy-savings", "api-cache-policy-false-hits"),
        WHOLE | {"admin of b"},
    ),
    "system": ADMINS | {"admin of b"},
    "api-system": ADMINS | {"admin of b"},
}
# Making takes a role in what a row stands in, so do removing and, for some, a whole organisation.
WRITERS: Mapping[tuple[str, str], frozenset[str]] = {
    ("organisation", "create"): ROOT,
    ("organisation", "delete"): ROOT,
    ("team", "create"): OPERATORS,
    ("team", "delete"): OPERATORS,
    # an empty body names no team and no project, which leaves the organisation itself
    ("project", "create"): OPERATORS,
    ("key", "create"): OPERATORS,
    ("statement", "reopen"): ADMINS,
    ("request", "wrong-answer"): OPERATORS,
    # it tells, and changes nothing
    ("cache-policy", "what-if"): WHOLE,
}
