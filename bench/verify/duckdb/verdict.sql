-- Every count of a verdict (core/dedup/judgement/counts.py), by the rules of docs/verdicts.md, from a run folder's files.
-- It is meant as an engineer who knows SQL would write it for DuckDB: each table is grouped once, the values of all three are
-- brought together once, and only the messages that jump are looked up again. Gaps, witnesses and blocks it leaves out.
WITH
reads AS MATERIALIZED (  -- re-reads dropped
    SELECT partition, ledger, entry, batch, stream, value, min(arrival) AS arrival, count(*) AS times
    FROM read_parquet(getvariable('folder') || '/received/*.parquet')
    GROUP BY ALL
),
outcomes AS (SELECT * FROM read_parquet(getvariable('folder') || '/outcomes/*.parquet')),
sends AS (SELECT * FROM read_parquet(getvariable('folder') || '/sent/*.parquet')),
states AS (
    SELECT
        flags & 1 > 0 AS sent,
        flags & 14 > 0 AS told,
        flags & 2 > 0 AS ok,
        flags & 14 = 4 AS fail,
        copies
    FROM (
        SELECT bit_or(flag) AS flags, sum(copy) AS copies
        FROM (
            SELECT stream, value, 1::UTINYINT AS flag, 0::UTINYINT AS copy FROM sends
            UNION ALL SELECT stream, value, CASE outcome WHEN 0 THEN 2 WHEN 1 THEN 4 ELSE 8 END::UTINYINT, 0 FROM outcomes
            UNION ALL SELECT stream, value, 0, 1 FROM reads
        )
        GROUP BY stream, value
    )
),
by_value AS (
    SELECT
        count(*) FILTER (sent) AS send,
        count(*) FILTER (ok OR fail) AS ack,
        count(*) FILTER (ok) AS positive_ack,
        count(*) FILTER (fail) AS negative_ack,
        count(*) FILTER (sent AND NOT ok AND NOT fail) AS unknown,
        count(*) FILTER (ok AND copies = 0) AS not_received,
        count(*) FILTER (copies = 1 AND NOT ok) AS received_no_ack,
        count(*) FILTER (copies > 1) AS values_with_duplicates,
        coalesce(sum(copies - 1) FILTER (copies > 1), 0) AS extra_copies,
        count(*) FILTER (copies > 0 AND NOT sent) AS phantom,
        count(*) FILTER (fail AND copies > 0) AS failed_but_received,
        count(*) FILTER (sent AND NOT told) AS outcomes_missing,
        count(*) FILTER (told AND NOT sent) AS outcomes_unsent
    FROM states
),
elsewhere AS (
    SELECT count(DISTINCT (stream, value)) AS ack_mismatch
    FROM (
        FROM (FROM outcomes WHERE outcome = 0 AND entry <> -1)
        ANTI JOIN reads USING (stream, value, partition, ledger, entry, batch)
    )
    SEMI JOIN reads USING (stream, value)
),
homes AS (  -- of each stream the partition that it is sent to, if the manifest says so
    SELECT stream_partitions
    FROM read_json(getvariable('folder') || '/manifest.json', columns = {stream_partitions: 'INTEGER[]'})
),
in_another AS (
    SELECT count(DISTINCT (stream, value)) AS misplaced FROM reads, homes WHERE stream_partitions[stream + 1] <> partition
),
by_position AS (
    SELECT count(*) FILTER (messages > 1) AS position_conflicts
    FROM (SELECT count(*) AS messages FROM reads GROUP BY partition, ledger, entry, batch)
),
begins AS (SELECT stream, min(value) - 1 AS before FROM sends GROUP BY stream),
jumps AS MATERIALIZED (  -- and what lies behind a higher value
    SELECT partition, stream, value, arrival, coalesce(last, before, 0) AS last, highest
    FROM (
        SELECT *, lag(value) OVER own AS last, max(value) OVER own AS highest
        FROM reads WINDOW own AS (PARTITION BY partition, stream ORDER BY arrival)
    ) LEFT JOIN begins USING (stream)
    WHERE value <> coalesce(last, before, 0) + 1 OR value < highest
),
by_jump AS (
    SELECT
        count(DISTINCT (stream, value)) FILTER (value < highest AND arrival = first) AS send_backwards,
        count(*) FILTER (value > last + 1 AND arrival = first) AS jump_forward,
        count(*) FILTER (value <= last AND arrival = first) AS jump_backward,
        count(*) FILTER (value > last + 1 AND arrival > first) AS duplicate_jump_forward,
        count(*) FILTER (value <= last AND arrival > first) AS duplicate_jump_backward
    FROM jumps JOIN (
        SELECT partition, stream, value, min(arrival) AS first
        FROM reads SEMI JOIN jumps USING (partition, stream, value)
        GROUP BY ALL
    ) USING (partition, stream, value)
),
falls AS (
    SELECT count(*) FILTER ((ledger, entry, batch) < (last_ledger, last_entry, last_batch)) AS position_falls
    FROM (
        SELECT
            ledger, entry, batch,
            lag(ledger) OVER own AS last_ledger, lag(entry) OVER own AS last_entry, lag(batch) OVER own AS last_batch
        FROM reads WINDOW own AS (PARTITION BY partition ORDER BY arrival)
    )
    WHERE last_ledger IS NOT NULL
)
SELECT
    (SELECT count(*) FROM reads) AS received,
    (SELECT coalesce(sum(times - 1), 0) FROM reads) AS re_reads,
    0 AS copied_by_retry, 0 AS copied_by_resend, 0 AS copied_by_session, 0 AS unsent_copies,  -- of histories without sends
    0 AS processed_twice, 0 AS never_processed, 0 AS processed_unread,  -- and without an application
    0 AS aborted_read, 0 AS torn_transaction, 0 AS in_aborted, 0 AS in_unresolved, 0 AS sent_outside,  -- or transactions
    0 AS hanging_transaction,
    0 AS reread_below_commit, 0 AS skipped_above_commit,  -- or commits
    *
FROM by_value, elsewhere, in_another, by_position, by_jump, falls;
