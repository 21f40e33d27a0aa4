"""One budget under many processes at once: `python -m benchmarks.budgets`.

Gateway processes as they are installed, and so many clients that each ask again and again until
they are refused. The worker's answers cost exactly what was reserved for them, so the amount is an
exact number of requests: one more is overspent, one less was refused without need.
"""

import argparse
import asyncio
import json
import os
import signal
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field
from pathlib import Path

from redis import Redis

from benchmarks.gateway import ours
from benchmarks.gateway.loads import WORKERS, compile_programs, mock_workers
from benchmarks.gateway.processes import free_ports, wait_for
from benchmarks.gateway.store_calls import calls_of, told
from inference.contract import wire
from inference.contract.codec import decode_vitals
from inference.contract.kinds import BudgetPeriod, BudgetSubject
from inference.contract.snapshot import BudgetRecord, BudgetScope, PriceRecord
from tests.installation import processes_of

CORES = "0,1"
# within which each process has heard that the store knows what was spent
SEEDED_S = 3.0
AGAIN_S = 0.2
STOPPED_AFTER_S = 1.5
# the worker answers with so many tokens; the prompt costs nothing
TOKENS = 30
SCRIPT = "evalsha"
PRICE = PriceRecord("prc_a", "org_a", "mdl_a", 0, 1_000_000_000)
COST = TOKENS * PRICE.output_nanousd_per_mtok // 1_000_000

BODY = json.dumps(
    {
        "model": ours.MODEL,
        "messages": [{"role": "user", "content": "ping"}],
        "max_tokens": TOKENS,
    }
).encode()


@dataclass
class Tally:
    """What clients were told."""

    statuses: Counter[int] = field(default_factory=Counter)
    codes: Counter[str] = field(default_factory=Counter)


def main(arguments: Sequence[str]) -> int:
    asked = _parser().parse_args(arguments)
    with ExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory()))
        compile_programs(folder)
        first, port = free_ports(WORKERS), free_ports(1)
        stack.enter_context(mock_workers(folder, first, core=CORES))
        workers = range(first, first + WORKERS)
        ports = {"core": CORES, "store_core": CORES, "processes": asked.processes}
        stack.enter_context(ours.gateway(port, workers, folder / "gateway", **ports))
        admin = stack.enter_context(
            Redis.from_url(f"unix://{folder / 'gateway' / 'store.sock'}?db=0")
        )
        ours.seed_budgets(admin)
        publish(admin, workers, asked.requests * COST)
        time.sleep(SEEDED_S)
        before = calls_of(admin)
        began_s = time.monotonic()
        children = processes_of(folder / "gateway" / "var")
        stopped = next(pid for pid, line in children.items() if "gateway-child" in line)
        pause = (stopped, asked.stop_s) if asked.stop_s else None
        tally = asyncio.run(ask(port, asked.clients * asked.processes, pause))
        took_s = time.monotonic() - began_s
        calls = calls_of(admin) - before
        spent, late, past = spent_of(admin)
        served, refused = tally.statuses[200], tally.statuses[429]
        thousands = (served + refused) / 1_000
        sys.stdout.write(
            f"{asked.processes} processes x {asked.clients} clients, a budget of"
            f" {asked.requests} requests\n"
            f"served {served}, refused {refused}, others"
            f" {sum(tally.statuses.values()) - served - refused}; codes {dict(tally.codes)}\n"
            f"overspent {max(served - asked.requests, 0)},"
            f" refused without need {max(asked.requests - served, 0)},"
            f" the store counts {spent / COST:.0f};"
            f" reserved again by processes taken for dead {late / COST:.0f},"
            f" past the amount {past / COST:.0f}\n"
            f"{(served + refused) / took_s:,.0f} requests/s; of the store for 1,000 requests"
            f" {calls[SCRIPT] / thousands:.0f} calls of the lease script,"
            f" {told(calls, thousands)}\n"
        )
        is_exact = spent == served * COST and served >= asked.requests
        return 0 if is_exact and served <= asked.requests + past // COST else 1


def publish(admin: "Redis[bytes]", workers: Sequence[int], amount_nanousd: int) -> None:
    """Have a budget on the organisation; it applies once processes answer by it."""
    scope = BudgetScope(BudgetSubject.ORGANISATION)
    budget = BudgetRecord("bud_a", "org_a", "all", (scope,), amount_nanousd, BudgetPeriod.MONTH)
    changes = {"budgets": (budget,), "prices": (PRICE,)}
    ours.publish(admin, workers, version=2, changes=changes)
    wait_for(lambda: _versions(admin) == {2}, "the budget to apply everywhere")


def _versions(admin: "Redis[bytes]") -> set[int | None]:
    told = [admin.get(key) for key in admin.scan_iter(f"{wire.VITALS_PREFIX}*")]
    return {decode_vitals(one).applied.version for one in told if one}


def spent_of(admin: "Redis[bytes]") -> tuple[int, int, int]:
    """What the store counts as spent of the only budget, once nothing is reserved any more.

    And what processes reserved again after they had been taken for dead, and what of that went past
    the amount: a machine that keeps a process from running for three seconds makes it look so.
    """
    (key,) = [one for one in admin.scan_iter("hw:limits:{org_a}:*") if admin.hexists(one, "w")]
    wait_for(lambda: not int(admin.hget(key, "l") or 0), "reservations to end")
    spent, late, past = (int(one or 0) for one in admin.hmget(key, "g", "late", "past"))
    return spent, late, past


async def ask(port: int, clients: int, pause: tuple[int, float] | None) -> Tally:
    """So many clients, each until it is refused; a process may stand still for some seconds."""
    tally = Tally()
    async with asyncio.TaskGroup() as group:
        if pause is not None:
            group.create_task(_stand_still(*pause))
        for number in range(clients):
            group.create_task(_client(port, tally, number))
    return tally


async def _stand_still(pid: int, for_s: float) -> None:
    await asyncio.sleep(STOPPED_AFTER_S)
    os.kill(pid, signal.SIGSTOP)
    try:
        await asyncio.sleep(for_s)
    finally:
        os.kill(pid, signal.SIGCONT)


async def _client(port: int, tally: Tally, number: int) -> None:
    await asyncio.sleep(number / 2_000)
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    head = (
        f"POST /v1/chat/completions HTTP/1.1\r\nhost: x\r\nauthorization: Bearer {ours.TOKEN}\r\n"
        f"content-type: application/json\r\ncontent-length: {len(BODY)}\r\n\r\n"
    ).encode()
    status = 200
    try:
        while status != 429:
            if status == 503:
                await asyncio.sleep(
                    AGAIN_S
                )  # the store was too slow to be asked: nothing is decided
            writer.write(head + BODY)
            answered = await reader.readuntil(b"\r\n\r\n")
            status = int(answered[9:12])
            length = int(answered.lower().partition(b"content-length: ")[2].split(b"\r", 1)[0])
            body = await reader.readexactly(length)
            tally.statuses[status] += 1
            if status != 200:
                tally.codes[json.loads(body)["error"]["code"]] += 1
    finally:
        writer.close()


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        "python -m benchmarks.budgets", description=(__doc__ or "").partition("\n")[0]
    )
    parser.add_argument("--processes", type=int, default=8)
    parser.add_argument("--clients", type=int, default=200, help="for each process")
    parser.add_argument(
        "--stop-s", type=float, default=0, help="have a process stand still so long"
    )
    parser.add_argument("--requests", type=int, default=20_000, help="what the budget has room for")
    return parser


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
