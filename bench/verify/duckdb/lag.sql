-- What DuckDB takes for the order of a partition alone: each message read beside the one before it, jumps counted.
-- It holds for histories of one partition and one stream only; with PARTITION BY, which others need, it takes longer.
-- `SET VARIABLE folder = 'RUN FOLDER'` comes first, here and in the other scripts.
SELECT
    count(*) FILTER (value > last + 1) AS jumps_forward,
    count(*) FILTER (value <= last) AS jumps_backward
FROM (
    SELECT value, lag(value, 1, 0) OVER (ORDER BY arrival) AS last
    FROM read_parquet(getvariable('folder') || '/received/*.parquet')
);
