"""Marks of journals that are long gone, taken out of the ledger's tables and of the store."""

from datetime import UTC, datetime, timedelta

from controlplane.bridge.store import open_store
from controlplane.bridge.vitals import read_fleet
from controlplane.selectors.usage_recording import get_marks
from controlplane.services.usage import forget_marks
from inference.contract.wire import JOURNAL_MARKS

KEPT = timedelta(days=30)
"""A journal ends with its process and is removed once all of it is marked. A host that was down
may still bring one back; without its mark that journal would never count as recorded."""

_SCAN_COUNT = 1_000


def forget_old_marks(now: datetime) -> int:
    """Remove the marks nobody will ask for again, and return how many rows that were.

    What moved last before every live gateway started is none of theirs, however idle they are; if
    the store can't tell who lives, nothing is removed. Raises RedisError if it fails later.
    """
    fleet = read_fleet()
    if fleet is None:
        return 0
    starts = [datetime.fromtimestamp(one.started_at, UTC) for one in fleet.gateways]
    forgotten = forget_marks(before=min([now - KEPT, *starts]))
    with open_store() as store:
        # fields before rows: a row is there before its field, so what has no row now is stale
        fields = {field for field, _ in store.hscan_iter(JOURNAL_MARKS, count=_SCAN_COUNT)}
        stale = sorted(fields - {journal.encode() for journal in get_marks()})
        for start in range(0, len(stale), _SCAN_COUNT):
            store.hdel(JOURNAL_MARKS, *stale[start : start + _SCAN_COUNT])
    return forgotten
