-- The order of each partition and stream, and of every message read whether it had been read there before: the four jumps,
-- and how many rows are repeats. That is what islands are made for, and what the rest of a verdict is made from.
SELECT
    count(*) FILTER (WHERE value > last + 1 AND NOT again) AS jump_forward,
    count(*) FILTER (WHERE value <= last AND NOT again) AS jump_backward,
    count(*) FILTER (WHERE value > last + 1 AND again) AS duplicate_jump_forward,
    count(*) FILTER (WHERE value <= last AND again) AS duplicate_jump_backward,
    count(*) FILTER (WHERE again) AS repeats
FROM (
    SELECT
        value,
        lag(value, 1, 0) OVER (PARTITION BY partition, stream ORDER BY arrival) AS last,
        arrival > min(arrival) OVER (PARTITION BY partition, stream, value) AS again
    FROM read_parquet(getvariable('folder') || '/received/*.parquet')
);
