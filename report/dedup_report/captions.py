"""What stands under a drawing: its numbers in words, and what is not in it."""

from collections.abc import Iterator

from dedup.judgement.summaries import RunRow
from dedup.judgement.tables import milliseconds
from dedup_report.drawings import COLUMNS, ROWS
from dedup_report.latencies import Latencies
from dedup_report.orders import MOST_JUMPS, Grid, Jumps
from dedup_report.rates import SILENCE_S, Rates

NO_TIMES = "Its clock table has too few ticks to tell rates."


def of_timeline(rates: Rates, latencies: Latencies | str, run: RunRow) -> Iterator[str]:
    """How long it took, the longest silence, and how long after each fault acknowledgements flowed again."""
    yield f"{rates.edges_s[-1]:.2f} s from the first send to the last outcome, noted every 10 ms or 10,000 messages."
    if (longest := rates.longest) is None:
        yield f"No silence: an acknowledgement came at least every {SILENCE_S} s while messages waited for one."
    else:
        others = "one silence" if len(rates.silences) == 1 else f"{len(rates.silences)} silences"
        yield (
            f"Longest silence: {longest.seconds:.2f} s without an acknowledgement while messages waited for one, "
            f"from {longest.begin_s:.2f} s to {longest.end_s:.2f} s; {others} of {SILENCE_S} s or more in all."
        )
    for span in rates.spans:
        if span.whole:
            yield f"Fault {span.name} was in force for the whole run."
    for each in rates.recoveries:
        if each.seconds is None:
            yield f"Fault {each.fault}: no such silence while it was in force."
        elif not each.answered:
            lasted = f"lasted to the end, {each.seconds:.2f} s after its injection: no acknowledgement came any more"
            yield f"Fault {each.fault}: the last silence that began before it had healed {lasted}."
        else:
            ended = f"ended {each.seconds:.2f} s after its injection"
            yield f"Fault {each.fault}: the last silence that began before it had healed {ended}."
    yield of_latencies(latencies)
    yield from _reading(run)


def of_latencies(latencies: Latencies | str) -> str:
    """The percentiles of the whole run, or why there are none."""
    if isinstance(latencies, str):
        return latencies
    whole = latencies.whole
    p50, p99, longest = map(milliseconds, (whole.p50_ms, whole.p99_ms, whole.max_ms))
    return (
        f"Acknowledgements took {p50} ms (p50), {p99} ms (p99) and at most {longest} ms (n = {whole.messages:,}), from "
        "the hand-over to the client library; below, the percentiles of each second."
    )


def _reading(run: RunRow) -> Iterator[str]:
    """Reading has no times, so only an average can be told."""
    seconds = run.stage_seconds.get("consume")
    if run.counts is not None and seconds:
        yield (
            f"Read afterwards: {run.counts.received:,} messages in {seconds:.2f} s with starting and stopping, "
            f"{run.counts.received / seconds:,.0f} a second on average."
        )


def of_order(grid: Grid, jumps: Jumps | None) -> Iterator[str]:
    """What is in the drawing, what a cell is, and how jumps are marked."""
    copies = int(grid.copies.sum())
    read = "message was" if grid.arrivals == 1 else "messages were"
    if grid.told:
        yield f"{grid.arrivals:,} {read} read: {int(grid.first.sum()):,} for the first time, {copies:,} as copies."
    else:
        yield f"{grid.arrivals:,} {read} read; with so many values copies are not told from first readings here."
    if grid.outside:
        yield f"{grid.outside:,} have values that were never to be sent and lie outside the drawing."
    wide, high = -(-max(grid.arrivals, 1) // COLUMNS), -(-grid.top // ROWS)
    yield f"A cell is at most {wide:,} places by {high:,} values, and has the copies' colour if it holds one."
    if not grid.outside:
        yield "No message is left out."
    yield _of_jumps(jumps)


def _of_jumps(jumps: Jumps | None) -> str:
    if jumps is None:
        return "Jumps are not marked: neither the table of findings nor a judge's list of them is here."
    if not jumps.total:
        return "There is no jump."
    listed = len(jumps.arrivals)
    which = f"{jumps.total:,} jumps" if listed == jumps.total else f"The first {listed:,} of {jumps.total:,} jumps"
    if listed > MOST_JUMPS:
        return f"{which}, marked by columns from the lowest to the highest value; each is in the table of findings."
    return f"{which}, each marked." if listed > 1 else "1 jump, marked."


def of_blocks(run: RunRow) -> str:
    """Where there are none, one sentence instead of a drawing."""
    if run.counts is None:
        return "Nothing was counted."
    return "" if run.block_lengths else "No duplicate block."
