"""The rules of design.md §6 as SQL over pieces (dedup_spark/islands.py): rows that weigh `length`.

`MARKED` lays the messages of a partition out in two orders: by position, where re-reads, conflicts and gaps lie
between neighbours; and by arrival, where jumps do. `VALUES` lays sends, outcomes and copies of one value side by
side. Both sort and spill; nothing but named results ever comes to the driver.

Pieces are cut by value, so they say nothing of two messages at one position. Where positions rise from arrival to
arrival (any honest reading of a topic) there are none; a run in which they do not is in `SUSPECT`, and all its rows
are judged one by one, by the same statements: rows of length 1.

What design.md leaves open is decided thus, here and in the oracle alike:

- A *lane* is one (partition, stream). Its first message is compared with one below the lowest value that was sent in
  its stream; 0 if none was. Re-reads (all but the first arrival of identical rows) are dropped before all
  else.
- A duplicate *block* is a maximal series of consecutive messages of one lane in which every message was read before
  in that lane, every value is one above the last, and so is the place in the lane of its first copy.
- A *gap* is a range of entries below an extent's end of which nothing was read, or of batch indexes below one that
  was read. What lies at or beyond an extent's end, or in a ledger without one, is nobody's gap. The lowest
  MAX_WITNESSES are named, then how many more there are.
- A value is an `ack_mismatch` if any of its ok outcomes names a position at which it was not read, though it was
  read.
- `position_conflicts` counts positions; its witnesses are the messages read there. `received` is without re-reads.
- A witness names its first MAX_WITNESSES copies.
- `ok` of a value that was never sent counts as positive_ack (and as outcomes_unsent); `unknown` counts sent values
  only."""

from typing import Final

ROWS_READ: Final = "SELECT run, kind, sum(length) AS rows FROM islands GROUP BY run, kind"
"""How many rows the job really read, by run and kind: they must be those of the manifest."""

GAP_OF_ENTRIES: Final = 0

SUSPECT: Final = """
SELECT DISTINCT run FROM (
  SELECT run, arrival, ledger, entry, batch,
         lag(final_arrival) OVER reading AS last_arrival,
         lag(struct(ledger, entry + if(step = 2, length - 1, 0), CAST(batch AS long) + if(step = 3, length - 1, 0)))
           OVER reading AS last_place
  FROM islands WHERE kind = 2
  WINDOW reading AS (PARTITION BY run, partition ORDER BY arrival))
WHERE arrival <= last_arrival OR struct(ledger, entry, CAST(batch AS long)) <= last_place
"""

MARKED: Final = """
WITH begins AS (
  SELECT run, stream, min(value) AS lowest FROM islands WHERE kind = 0 GROUP BY run, stream
), lines AS (
  SELECT run, partition, ledger, entry, batch, final_entry, final_batch, stream, value, length, arrival, offset
  FROM pieces WHERE kind = 2
  UNION ALL  -- a fence stands at the end of each extent, so that what is missing before the end is a gap before a row
  SELECT run, partition, ledger, end, 0, end, 0, NULL, NULL, 0, NULL, NULL FROM extents
), by_position AS (
  SELECT *, lag(final_entry) OVER place AS last_entry, lag(final_batch) OVER place AS last_batch,
            lag(stream) OVER place AS last_stream, lag(value) OVER place AS last_message
  FROM (SELECT /*+ REPARTITION({partitions}, run, partition) */ * FROM lines)
  WINDOW place AS (PARTITION BY run, partition, ledger ORDER BY entry, batch, stream, value, arrival)
), by_neighbour AS (
  SELECT *, value IS NOT NULL AND last_message IS NOT NULL
              AND entry <=> last_entry AND batch <=> last_batch AS same_place,  -- a fence is never in a message's place
            coalesce(stream = last_stream AND value = last_message, false) AS same_message,
            coalesce(last_entry, -1) + 1 AS next_entry, if(entry <=> last_entry, last_batch + 1, 0) AS next_batch
  FROM by_position
), counted AS (
  SELECT *, same_place AND same_message AS re_read, same_place AND NOT same_message AS conflict,
            entry > next_entry OR batch > next_batch AS gap,
            value IS NOT NULL AND NOT (same_place AND same_message) AS counts
  FROM by_neighbour
), by_arrival AS (
  SELECT /*+ BROADCAST(begins) */ counted.*, (sum(length) OVER lane) - length AS place,
            coalesce(lag(value + length - 1) OVER lane, lowest - 1, 0) AS last
  FROM counted LEFT JOIN begins USING (run, stream)
  WINDOW lane AS (PARTITION BY run, partition, stream, counts ORDER BY arrival, offset)
), by_value AS (
  SELECT *, min(place) OVER (PARTITION BY run, partition, stream, counts, value) AS first_place FROM by_arrival
)
SELECT run, partition, ledger, entry, batch, stream, value, length, arrival, last_stream, last_message,
       next_entry, next_batch, re_read, conflict, gap, place, last, first_place,
       counts AND first_place < place AS again, counts AND value != last + 1 AS jumps
FROM by_value
WHERE re_read OR conflict OR gap OR (counts AND (first_place < place OR value != last + 1))
"""

VALUES: Final = """
WITH by_position AS (
  SELECT run, stream, value, length, max(kind = 0) AS sent, min(if(kind = 1, outcome, NULL)) AS lowest,
         max(if(kind = 1, outcome, NULL)) AS highest, max(kind = 2) AS read,
         placed = 1 AND NOT max(kind = 2) AS elsewhere
  FROM (SELECT /*+ REPARTITION({partitions}, run, stream, value) */ run, stream, value, length, kind, outcome, placed,
               partition, ledger, entry, batch FROM pieces)
  GROUP BY run, stream, value, length, placed, partition, ledger, entry, batch
)
SELECT run, stream, value, length, sent, copies, coalesce(lowest = 0, false) AS ok,
       coalesce(lowest = 1 AND highest = 1, false) AS fail, lowest IS NOT NULL AS told, elsewhere
FROM (
  SELECT run, stream, value, length, max(sent) AS sent, min(lowest) AS lowest, max(highest) AS highest,
         count_if(read) AS copies, max(elsewhere) AS elsewhere
  FROM by_position GROUP BY run, stream, value, length)
"""

ANOMALIES: Final = {
    "ack_mismatch": "elsewhere AND copies > 0",
    "failed_but_received": "fail AND copies > 0",
    "not_received": "ok AND copies = 0",
    "outcomes_missing": "sent AND NOT told",
    "outcomes_unsent": "told AND NOT sent",
    "phantom": "copies > 0 AND NOT sent",
    "received_no_ack": "copies = 1 AND NOT ok",
    "values_with_duplicates": "copies > 1",
}
"""Each anomaly of a value, as a condition on a row of VALUES: the same text counts it and finds its witnesses."""

NUMBERS: Final = {
    "send": "sent",
    "ack": "ok OR fail",
    "positive_ack": "ok",
    "negative_ack": "fail",
    "unknown": "sent AND NOT ok AND NOT fail",
} | ANOMALIES
"""Each count of values, as a condition on a row of VALUES."""

COUNTS_OF_VALUES: Final = f"""
SELECT run, {", ".join(f"sum(if({condition}, length, 0)) AS {name}" for name, condition in NUMBERS.items())},
       sum(copies * length) AS received, sum(greatest(copies - 1, 0) * length) AS extra_copies
FROM values_ GROUP BY run
"""

COUNTS_OF_MARKED: Final = """
SELECT run, count_if(re_read) AS re_reads,
       count(DISTINCT if(conflict, struct(partition, ledger, entry, batch), NULL)) AS position_conflicts,
       count_if(jumps AND NOT again AND value > last) AS jump_forward,
       count_if(jumps AND NOT again AND value <= last) AS jump_backward,
       count_if(jumps AND again AND value > last) AS duplicate_jump_forward,
       count_if(jumps AND again AND value <= last) AS duplicate_jump_backward
FROM marked GROUP BY run
"""

EVENTS: Final = """
SELECT run, concat(if(again, 'D', ''), if(value > last, 'JF', 'JB')) AS jump, partition, stream, last, value, arrival
FROM (SELECT *, row_number() OVER (PARTITION BY run ORDER BY arrival) AS rank FROM marked WHERE jumps)
WHERE rank <= {most} ORDER BY run, arrival
"""

BLOCKS: Final = """
WITH steps AS (
  SELECT *, place = lag(place + length) OVER lane AND value = lag(value + length) OVER lane
            AND first_place = lag(first_place + length) OVER lane AS follows
  FROM marked WHERE again WINDOW lane AS (PARTITION BY run, partition, stream ORDER BY place)
), numbered AS (
  SELECT *, count_if(NOT coalesce(follows, false)) OVER (PARTITION BY run, partition, stream ORDER BY place) AS block
  FROM steps
), lengths AS (
  SELECT run, sum(length) AS length FROM numbered GROUP BY run, partition, stream, block
)
SELECT run, length, count(*) AS blocks FROM lengths GROUP BY run, length ORDER BY run, length
"""

GAPS: Final = """
WITH missing AS (
  SELECT m.run, m.partition, m.ledger, m.entry, m.batch, 0 AS kind, m.next_entry AS first, m.entry - 1 AS final
  FROM marked m JOIN extents e USING (run, partition, ledger)
  WHERE m.gap AND m.entry <= e.end AND m.entry > m.next_entry
  UNION ALL
  SELECT m.run, m.partition, m.ledger, m.entry, m.batch, 1, m.next_batch, m.batch - 1
  FROM marked m JOIN extents e USING (run, partition, ledger) WHERE m.gap AND m.entry < e.end AND m.batch > m.next_batch
), ranked AS (
  SELECT *, row_number() OVER (PARTITION BY run ORDER BY partition, ledger, entry, batch, kind) AS rank,
            count(*) OVER (PARTITION BY run) AS total
  FROM missing
)
SELECT * FROM ranked WHERE rank <= {most} ORDER BY run, rank
"""

WITNESSES: Final = f"""
WITH found AS (
  SELECT run, stream, value, length, explode(array_compact(array(
    {", ".join(f"if({condition}, '{name}', NULL)" for name, condition in ANOMALIES.items())}))) AS anomaly
  FROM values_ WHERE {" OR ".join(f"({condition})" for condition in ANOMALIES.values())}
  UNION ALL
  SELECT DISTINCT run, stream, value, 1, 'position_conflicts' FROM (
    SELECT run, stream, value FROM marked WHERE conflict
    UNION ALL SELECT run, last_stream, last_message FROM marked WHERE conflict)
)
SELECT run, anomaly, stream, value FROM (
  SELECT run, anomaly, stream, value, row_number() OVER (PARTITION BY run, anomaly ORDER BY stream, value) AS rank
  FROM (
    SELECT run, anomaly, stream, explode(sequence(value, value + least(length, {{most}}) - 1)) AS value FROM found))
WHERE rank <= {{most}} ORDER BY run, anomaly, stream, value
"""

COPIES: Final = """
WITH places AS (
  SELECT /*+ BROADCAST(w) */ w.run, w.stream, w.value, p.partition, p.ledger,
         p.entry + if(p.final_entry > p.entry, w.value - p.value, 0) AS entry,
         p.batch + if(p.final_batch > p.batch, w.value - p.value, 0) AS batch,
         min(struct(p.arrival, p.offset)) AS arrival
  FROM pieces p JOIN (SELECT DISTINCT run, stream, value FROM witnesses) w
    ON p.kind = 2 AND p.run = w.run AND p.stream = w.stream AND w.value BETWEEN p.value AND p.value + p.length - 1
  GROUP BY ALL
)
SELECT run, stream, value, concat(partition, '/', ledger, ':', entry, ':', batch) AS position
FROM (SELECT *, row_number() OVER (PARTITION BY run, stream, value ORDER BY partition, arrival) AS rank FROM places)
WHERE rank <= {most} ORDER BY run, stream, value, rank
"""
