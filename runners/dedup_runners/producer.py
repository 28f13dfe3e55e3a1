"""The producer of a run: rising integers as fast as the client takes them, and a record of what became of each.

`python -m dedup_runners.producer CONFIG` (or `-`). It connects everything first (the topic, the triggers of the
faults), then sends, not faster than the workload allows, and as its kind of workload says (production.py, workloads/).
What is written, in this order: history segments as they fill, `clock.parquet`, and last `producer.json`, the report.
However a producer ends, what it did not write down it did not send. A report says `complete` only if every planned
message was sent and every send has exactly one final outcome. SIGTERM stops the sending; what was sent still gets its
outcome and its place in the history.

Beside the clock it keeps histograms of latency, unless the client is a program (that sends by itself, and its frames do
not say when), or messages are sent more than once (`restart`, `resend`) or in transactions.
"""

import sys
from contextlib import ExitStack

from dedup.history.histories import CLOCK_ACKNOWLEDGED, version_of
from dedup.wire.clients import Mark, Metric
from dedup.wire.manifests import ProducerReport, Segment
from dedup_runners import programs, workloads
from dedup_runners.clients import Progress
from dedup_runners.configs import ProducerConfig
from dedup_runners.metrics import served
from dedup_runners.production import Production
from dedup_runners.recording.journals import Journal, Observer, save_report, usage
from dedup_runners.recording.recorders import Recorder


def produce(config: ProducerConfig) -> None:
    """Do the run that `config` describes and leave its report; a DedupError if there can be none."""
    with ExitStack() as leaving:
        recorder = Recorder(config.folder, version=version_of(config.sends))
        observer = Observer(config.folder, "producer")
        leaving.callback(observer.close)
        marks = Journal(config.folder / Mark.FILE)
        leaving.callback(marks.close)
        production = workloads.production_of(config)(config, recorder, observer, marks)
        leaving.enter_context(programs.stopping(production.stop))
        if not programs.has_the_process():
            leaving.callback(lambda: production.client.close())  # its connections do not end with a process
        leaving.enter_context(
            served(
                "producer", config.folder, config.run_id, config.metrics_host, config.metrics_port,
                lambda: _metrics(production.progress()), production.latencies,
            )
        )  # fmt: skip
        production.run()
        if production.progress().acked < production.sent:
            production.client.close()  # the last thing that can end what is left
        segments = (*recorder.close(), production.clock.save(config.folder))
        if production.latencies is not None:
            production.latencies.save(config.folder)
    save_report(config.folder / ProducerReport.FILE, _report(config, production, observer, segments))


def _report(
    config: ProducerConfig, production: Production, observer: Observer, segments: tuple[Segment, ...]
) -> ProducerReport:
    ok, fail, unknown = (int(count) for count in production.tally.outcomes)
    problems = []
    if production.problem:
        problems.append(production.problem)
    if lack := production.lack():
        problems.append(lack)
    if ok + fail + unknown != production.sent or not production.tally.balanced:
        problems.append(f"{ok + fail + unknown} outcomes for {production.sent} messages sent, or not one for each")
    used = usage()
    return ProducerReport(
        complete=not problems,
        library=config.library,
        library_version=production.client.library_version,
        effective_config=production.effective_config,
        sent=production.sent,
        sessions=production.sessions,
        intended=production.intended,
        transactions=production.transactions,
        ok=ok,
        fail=fail,
        unknown=unknown,
        segments=segments,
        first_send_ns=production.first_send_ns,
        last_acknowledgement_ns=production.clock.newest_ns(CLOCK_ACKNOWLEDGED),
        disturbances=dict(observer.counts),
        problems=tuple(problems),
        max_rss_bytes=used.max_rss_bytes,
        cpu_seconds=used.cpu_seconds,
    )


def _metrics(progress: Progress) -> dict[Metric, int]:
    return {Metric.SENT: progress.sent, Metric.ACKNOWLEDGED: progress.acked}


if __name__ == "__main__":
    programs.leave(programs.main(ProducerConfig, produce, sys.argv[1:]))
