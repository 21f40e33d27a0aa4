"""The soak's reckoning: the ledger against what the upstreams say they served."""

import re
from collections import Counter, defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import psycopg
from psycopg.rows import dict_row

from benchmarks.soak_load import Load
from tests.upstream.fixtures import Upstream
from tests.upstream.script import PROMPT_TOKENS, Call

_CALLS = re.compile(r"^(req_[0-9a-z]+?)(?:-(\d+))?$")
_CHARGES = """
    SELECT event_id, attempt, kind, cost_nanousd, cost_max_nanousd,
           prompt_tokens, completion_tokens, http_status, error_code
    FROM controlplane_charge
"""
_REQUESTS = "SELECT event_id, outcome, client_request_id, cost_nanousd FROM controlplane_request"
_PER = 1_000_000

Attempt = tuple[str, int]
Row = Mapping[str, Any]


@dataclass
class Books:
    """What was compared, and each thing that did not agree."""

    calls: int = 0
    kinds: Counter[str] = field(default_factory=Counter)
    outcomes: Counter[str] = field(default_factory=Counter)
    booked_nanousd: int = 0
    served_nanousd: int = 0
    faults: list[str] = field(default_factory=list)

    def summary(self) -> str:
        kinds = ", ".join(f"{count:,} {kind}" for kind, count in sorted(self.kinds.items()))
        outcomes = ", ".join(f"{count:,} {name}" for name, count in self.outcomes.most_common())
        return (
            f"ledger: {sum(self.outcomes.values()):,} requests ({outcomes})\n"
            f"charges: {kinds}, for {self.calls:,} calls the upstreams saw\n"
            f"booked {self.booked_nanousd / 1e9:.6f} USD of {self.served_nanousd / 1e9:.6f} served"
        )


def compare(
    database_url: str, upstreams: Sequence[Upstream], load: Load, *, price: Mapping[str, int]
) -> Books:
    """Match every call with its charge and every whole answer with its request."""
    calls = _calls(upstreams)
    with psycopg.connect(database_url, row_factory=dict_row) as connection:
        rows = connection.execute(_CHARGES).fetchall()
        requests = connection.execute(_REQUESTS).fetchall()
    charges = {(row["event_id"], row["attempt"]): row for row in rows}
    books = Books(calls=sum(map(len, calls.values())))
    for attempt, seen in calls.items():
        _match(books, attempt, seen, charges.get(attempt), price)
    for attempt, charge in charges.items():
        books.kinds[charge["kind"]] += 1
        books.booked_nanousd += charge["cost_nanousd"] or 0
        if attempt not in calls:
            _unseen(books, attempt, charge)
    _match_answers(books, requests, load)
    return books


def _calls(upstreams: Sequence[Upstream]) -> dict[Attempt, list[Call]]:
    """Every inference call, by request and attempt; two of one attempt are a stale connection's."""
    found: dict[Attempt, list[Call]] = defaultdict(list)
    for upstream in upstreams:
        for call in upstream.calls:
            named = _CALLS.match(call.headers.get("x-request-id", ""))
            if call.method == "POST" and named:
                found[named[1], int(named[2] or 1)].append(call)
    return found


def _match(
    books: Books,
    attempt: Attempt,
    calls: Sequence[Call],
    charge: Row | None,
    price: Mapping[str, int],
) -> None:
    served = sum(_served(call, price) for call in calls)
    books.served_nanousd += served
    if charge is None:
        books.faults.append(f"{attempt} was served {served} nano-USD and has no charge")
        return
    cost, most = charge["cost_nanousd"], charge["cost_max_nanousd"]
    if cost is None or most is None:
        books.faults.append(f"{attempt} has a charge without a price")
    elif charge["kind"] == "final":
        told = [_cost(call.usage, price) for call in calls if call.usage is not None] or [0]
        if told[-1] != cost:
            books.faults.append(f"{attempt}: booked {cost}, the upstream told {told}")
    elif not cost <= served <= most:
        books.faults.append(f"{attempt}: served {served} is not within {cost} and {most}: {charge}")


def _served(call: Call, price: Mapping[str, int]) -> int:
    """What a call was worth as far as it got; without an answer nothing."""
    if call.status != 200:
        return 0
    if not call.served_tokens:
        return _cost(call.usage, price) if call.is_finished else 0
    usage = {"prompt_tokens": PROMPT_TOKENS, "completion_tokens": call.served_tokens}
    return _cost(usage, price)


def _cost(usage: Mapping[str, Any] | None, price: Mapping[str, int]) -> int:
    """Nano-USD of a usage, reckoned apart from the product: summed, then rounded half up."""
    if usage is None:
        return 0
    total = usage["prompt_tokens"] * price["input_nanousd_per_mtok"]
    total += usage.get("completion_tokens", 0) * price["output_nanousd_per_mtok"]
    return (2 * total + _PER) // (2 * _PER)


def _unseen(books: Books, attempt: Attempt, charge: Row) -> None:
    """A charge for what no upstream saw may book nothing.

    It may have a bound where nobody can know whether it got there: a killed gateway's, and that of
    a client that left while it was on its way.
    """
    is_lost = charge["kind"] == "estimated" and charge["error_code"] in (None, "client_left")
    if charge["cost_nanousd"] or (charge["cost_max_nanousd"] and not is_lost):
        books.faults.append(f"{attempt} is charged and no upstream saw it: {charge}")


def _match_answers(books: Books, requests: Sequence[Row], load: Load) -> None:
    by_name: dict[str, list[str]] = defaultdict(list)
    for row in requests:
        books.outcomes[row["outcome"]] += 1
        by_name[row["client_request_id"] or ""].append(row["outcome"])
    for name in load.by_name:
        if load.came_whole(name) and by_name[name] != ["ok"]:
            books.faults.append(f"{name} came whole and is in the ledger as {by_name[name]}")
        elif load.must_be_booked(name) and not by_name[name]:
            books.faults.append(f"{name} was answered and is not in the ledger")
    twice = [name for name, outcomes in by_name.items() if name and len(outcomes) > 1]
    books.faults += [f"{name} is in the ledger twice" for name in twice]
