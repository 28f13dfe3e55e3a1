"""When an experiment sends and when its faults begin, written and drawn, and which of them may be side by side."""

from collections.abc import Sequence
from typing import NamedTuple

from dedup.faults import moments
from dedup.faults.delay_tcp import DelayTCP
from dedup.faults.draws import MOST_FAULTS, Random
from dedup.faults.registry import Fault, Kinded
from dedup.faults.throttle_tcp import ThrottleTCP
from dedup.quantities import format_duration
from dedup.refusals import refusal


class Span(NamedTuple):
    """How much a run sends, at most how much a second (None: as fast as it goes), and when it is cancelled."""

    messages: int
    rate: int | None
    run_s: float


def written(faults: Sequence[Fault], random: Random | None) -> list[tuple[str, Kinded]]:
    """What is written of faults, to be done or to be drawn from, each with its place in the spec."""
    drawable = () if random is None else random.operations
    return [
        *((f"faults[{index}]", fault) for index, fault in enumerate(faults)),
        *((f"random.operations[{index}]", each) for index, each in enumerate(drawable)),
    ]


def check_times(
    given: Sequence[tuple[str, Kinded]], faults: Sequence[Fault], random: Random | None, span: Span
) -> None:
    """Every fault must begin while messages are sent, end before the run, and not begin while its like is in force."""
    for where, each in given:
        if each.lasts_s >= span.run_s:
            raise refusal(
                f"{where}.{each.kind}",
                format_duration(each.lasts_s),
                f"a run is cancelled after timeouts.run, {format_duration(span.run_s)}",
                "make the fault shorter or give the run more time",
            )
    for index, fault in enumerate(faults):
        if fault.at.message is not None and fault.at.message > span.messages:
            raise refusal(
                f"faults[{index}].at.message",
                str(fault.at.message),
                f"the last message is {span.messages}, and a fault must begin while messages are sent",
                "name an earlier message or send more",
            )
        if fault.at.after_s is not None:
            _check_time(f"faults[{index}].at.after", fault.at.after_s, span, sending=fault.at.fault is None)
    if wrong := moments.wrong(faults):
        raise refusal(f"faults[{wrong.place}].{wrong.key}", wrong.got, wrong.rule, wrong.todo)
    if random is not None:
        _check_time("random.duration", random.duration_s, span, sending=True)


def check_told_apart(given: Sequence[tuple[str, Kinded]]) -> None:
    """A delay that is longer or shorter by chance could pass for the time that bytes wait for bandwidth."""
    kinds = {fault.kind for _, fault in given}
    for where, fault in given if ThrottleTCP.key in kinds else ():
        if isinstance(fault.given, DelayTCP) and fault.given.jitter_s:
            raise refusal(
                f"{where}.{fault.kind}.jitter",
                format_duration(fault.given.jitter_s),
                "beside a throttleTCP a delay must not differ by chance: that would look like slow bytes",
                "take the jitter or the throttleTCP out",
            )


def check_none(given: Sequence[tuple[str, Kinded]]) -> None:
    """A topic that is replicated is sent before anything is cut, and then its link is."""
    for where, fault in given:
        raise refusal(
            f"{where}.{fault.kind}",
            fault.name,
            "with workload.replication the link to the second cluster is cut, and nothing else",
            "take the fault or replication out",
        )


def check_rate(span: Span) -> None:
    """All messages must be sent before the run is cancelled."""
    if span.rate is not None and span.messages >= span.rate * int(span.run_s):
        raise refusal(
            "workload.messagesPerSecond",
            str(span.rate),
            f"a run is cancelled after timeouts.run, {format_duration(span.run_s)}, and so many messages take longer",
            "send fewer or more of them in a second, or give the run more time",
        )


def check_delivery(delivery_s: float | None, own_s: float | None, span: Span) -> None:
    """A message must be given up before the run is cancelled. `own_s`: the workload says after how long, by itself."""
    for where, given_s in (("timeouts.delivery", delivery_s), ("workload.resend.deliveryTimeout", own_s)):
        if given_s is not None and given_s >= span.run_s:
            raise refusal(
                where,
                format_duration(given_s),
                f"a run is cancelled after timeouts.run, {format_duration(span.run_s)}",
                "make it shorter or give the run more time",
            )
    if delivery_s is not None and own_s is not None:
        raise refusal(
            "timeouts.delivery",
            format_duration(delivery_s),
            "workload.resend has a deliveryTimeout of its own, which counts there",
            "take one of them out",
        )


def check_drawn(faults: Sequence[Fault], random: Random | None, seed: int) -> None:
    """The seed must draw something, and no more than an experiment can have; no name may be there twice."""
    if random is None:
        return
    for index, fault in enumerate(faults):
        for each in random.operations:
            if fault.name.startswith(f"{each.name}-"):
                raise refusal(
                    f"faults[{index}].name",
                    f'"{fault.name}"',
                    f"the faults that are drawn from {each.name} are called {each.name}-1, {each.name}-2, …",
                    "rename one of them",
                )
    drawn, within = random.faults(seed), format_duration(random.duration_s)
    if not drawn:
        raise refusal(
            "random", f"no fault in {within}", f"seed {seed} draws none", "make it longer, or draw more often"
        )
    if len(faults) + len(drawn) > MOST_FAULTS:
        raise refusal(
            "random",
            f"more than {MOST_FAULTS} faults in {within}, with those written",
            f"an experiment has at most {MOST_FAULTS}, and seed {seed} draws more",
            "make it shorter, or draw less often, or rest longer",
        )


def _check_time(where: str, after_s: float, span: Span, *, sending: bool) -> None:
    """The run must go on so long, and messages must be sent so long after the first one (`sending`)."""
    if after_s >= span.run_s:
        raise refusal(
            where,
            format_duration(after_s),
            f"a run is cancelled after timeouts.run, {format_duration(span.run_s)}",
            "make it shorter or give the run more time",
        )
    if sending and span.rate is not None and after_s * span.rate >= span.messages:
        raise refusal(
            where,
            format_duration(after_s),
            f"{span.messages} messages, {span.rate} a second, are sent by then, "
            "and a fault must begin while messages are sent",
            "make it shorter, or send more or slower",
        )
