"""A service's tables in PostgreSQL, and how the tester asks what is in them: by `psql`, not by the service's driver.

Each table has the run's name, so that one server serves many runs. `remembered` has the orders that were processed;
`payments` the row that processing one writes; `outbox` the events to be emitted, in the columns that Debezium's event
router reads.
"""

import csv
from pathlib import Path
from typing import Final, NamedTuple

from dedup_runners.commands import answer
from dedup_runners.services.orders import Order
from dedup_runners.waiting import until

ANSWER_S: Final = 60.0
CAPTURED_S: Final = 300.0
"""Kafka Connect may have been started again, and waits longer each time."""
TABLES: Final = """
CREATE TABLE remembered (run text, stream integer, value bigint, PRIMARY KEY (run, stream, value));
CREATE TABLE payments (run text, life integer, partition integer, position bigint, stream integer, value bigint);
CREATE TABLE outbox (id uuid PRIMARY KEY DEFAULT gen_random_uuid(), aggregatetype text NOT NULL,
  aggregateid text NOT NULL, type text NOT NULL, payload text NOT NULL);
"""


class Database(NamedTuple):
    """A server, by its URL, and PostgreSQL's client for it.

    The URL has no password: its `passfile` names the file that has it, as PostgreSQL's clients read it, or it is in the
    environment.
    """

    url: str
    psql: Path

    def make_tables(self) -> None:
        self.ask(TABLES)

    def rows(self, run: str) -> tuple[Order, ...]:
        """The rows that were written for the orders of a run."""
        columns = ", ".join(("life", "partition", "position", "stream", "value"))
        found = self.ask(f"SELECT {columns} FROM payments WHERE run = :'run' ORDER BY {columns};", run=run)
        return tuple(Order(*map(int, row)) for row in found)

    def wait_captured(self) -> None:
        """Wait until change data capture reads the database's log: of what is written before, it emits nothing."""
        active = "SELECT 1 FROM pg_replication_slots WHERE active AND confirmed_flush_lsn IS NOT NULL;"
        until(lambda: bool(self.ask(active)), CAPTURED_S, "change data capture reads the database's log", 0.2)

    def lives(self) -> list[list[str]]:
        """Which database it is, since when it runs, and who reads its log since when: others after any restart."""
        return self.ask(
            "SELECT system_identifier::text, pg_postmaster_start_time()::text FROM pg_control_system() "
            "UNION ALL SELECT application_name, backend_start::text FROM pg_stat_replication ORDER BY 1, 2;"
        )

    def put_last(self, topic: str, event: str) -> None:
        """Write an event into the outbox, behind all those that are there."""
        row = "INSERT INTO outbox (aggregatetype, aggregateid, type, payload) VALUES (:'topic', '', 'last', :'event');"
        self.ask(row, topic=topic, event=event)

    def ask(self, sql: str, **values: str) -> list[list[str]]:
        """The rows of an answer, as text; `:'name'` stands for a value. PlatformError in PostgreSQL's own words."""
        given = [each for value in values.items() for each in ("-v", "=".join(value))]
        quiet = ["-w", "-X", "-q", "-t", "--csv", "-v", "ON_ERROR_STOP=1"]
        found = answer(
            [str(self.psql), self.url, *quiet, *given],
            where="PostgreSQL",
            rule="it answers the tester",
            todo="read its log",
            timeout_s=ANSWER_S,
            said=sql,
        )
        return list(csv.reader(found.splitlines()))
