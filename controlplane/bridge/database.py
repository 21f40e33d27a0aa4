"""How this plane waits for the database: never longer than the database itself would let it.

A server that accepts and never answers (stopped, its disk stuck) ends no statement by itself, and a
thread that waits for it can't be cancelled from outside. So the wait ends on this side.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, ClassVar, TypeVar

from psycopg import Connection, Cursor, OperationalError
from psycopg.abc import PQGen
from psycopg.errors import _WaitTimeout

SLACK_S = 2.0
"""How much later than the server's own time limit its silence counts as an outage."""

CHECK_S = 3.0
"""How long an idle connection may take to show that it still answers."""

_INTERVAL_S = 0.1

Result = TypeVar("Result")


class BoundedConnection(Connection[Any]):
    """A connection that is closed, with OperationalError, when an answer takes too long."""

    answer_within_s: float | None = None

    def wait(
        self, gen: PQGen[Result], interval: float = _INTERVAL_S, timeout: float | None = None
    ) -> Result:
        if timeout is not None or self.answer_within_s is None:
            return super().wait(gen, interval, timeout)
        try:
            return super().wait(gen, interval, self.answer_within_s)
        except _WaitTimeout:
            # what the server may still send would be taken for the next statement's answer
            self.close()
            raise OperationalError("the database did not answer in time") from None

    def execute(self, *args: Any, **options: Any) -> Cursor[Any]:
        # the pool alone asks this way, whether a connection is still good; Django uses cursors
        with answering_within(self, CHECK_S):
            return super().execute(*args, **options)


def bounded_connections(statement_timeout_ms: int) -> type[BoundedConnection]:
    """The kind of connection for a server that ends statements after this long."""

    class StatementBound(BoundedConnection):
        answer_within_s: ClassVar[float | None] = statement_timeout_ms / 1_000 + SLACK_S

    return StatementBound


@contextmanager
def answering_within(connection: object, seconds: float | None) -> Iterator[None]:
    """Let statements inside take this long, or with None for ever; others are left as they are."""
    if not isinstance(connection, BoundedConnection):
        yield
        return
    is_inside_another = "answer_within_s" in vars(connection)
    before = connection.answer_within_s
    connection.answer_within_s = seconds
    try:
        yield
    finally:
        # outside of all, the kind of connection has the say again
        if is_inside_another:
            connection.answer_within_s = before
        else:
            del connection.answer_within_s
