"""Which of several feeds is the active one: a session lock of the database, on its own connection.

The connection is not of the pool: a lock must not outlive its holder in a connection somebody else
is handed next.
"""

from psycopg import Connection, Error, connect

LEAD_KEY = 5_077_310_002
"""Any number; this one is the feed's."""

CONNECT_TIMEOUT_S = 3


class Lead:
    """The lead, taken if it is free and kept while the connection lives."""

    def __init__(self, conninfo: str) -> None:
        self._conninfo = conninfo
        self._connection: Connection | None = None

    def holds(self) -> bool:
        """Whether the lead is ours; raises psycopg.Error when the database does not answer."""
        if self._connection is not None:
            try:
                self._connection.execute("SELECT 1")
            except Error:
                self.release()
                raise
            return True
        connection = connect(
            self._conninfo,
            autocommit=True,
            connect_timeout=CONNECT_TIMEOUT_S,
            application_name="headworks feed",
            options="-c statement_timeout=5000",
            tcp_user_timeout=10_000,
        )
        row = connection.execute("SELECT pg_try_advisory_lock(%s)", (LEAD_KEY,)).fetchone()
        if row is None or not row[0]:
            connection.close()
            return False
        self._connection = connection
        return True

    def release(self) -> None:
        """Let go of it; another may take it at once."""
        if self._connection is not None:
            self._connection.close()
            self._connection = None
