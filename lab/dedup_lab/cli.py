"""The `dedup` command.

It parses, calls, prints, and turns the outcome into an exit code: 0 pass, 1 fail, 3 inconclusive, 4 error (a wrong
experiment too), 2 for a wrong command line only, 130 when it was interrupted. A user's mistake is one line on standard
error, never a traceback.
"""

import json
import signal
import sys
from enum import StrEnum
from functools import partial
from pathlib import Path
from types import FrameType
from typing import Annotated, Final, NoReturn

import typer
from rich.console import Console
from rich.markup import escape

from dedup import __version__
from dedup.errors import EXIT_ERROR, DedupError, EnvironmentError_, one_line
from dedup.experiment.spec import Expectation, load
from dedup.judgement import schemas
from dedup.judgement.anomalies import Engine
from dedup.judgement.schemas import Document
from dedup.process import machines
from dedup_lab.commands import results as results_of
from dedup_lab.commands.check import check
from dedup_lab.commands.explore import explore
from dedup_lab.commands.groups import Commands
from dedup_lab.commands.options import Format, Listing, Open, Secret, Shown
from dedup_lab.commands.probe import probe
from dedup_lab.commands.replay import replay
from dedup_lab.commands.report import report
from dedup_lab.commands.scenarios import scenarios
from dedup_lab.commands.workloads import workloads
from dedup_lab.terminal import streams
from dedup_lab.terminal.consoles import console as _console

EXIT_INTERRUPTED: Final = 130

app = typer.Typer(
    name="dedup",
    cls=Commands,
    help="Does Kafka or Pulsar keep its no-duplicates promise under failure? Runs an experiment on real brokers and "
    "gives a verdict with witnesses: exit code 0 pass, 1 fail, 3 inconclusive, 4 error.",
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    rich_markup_mode="rich",
)


class FailOn(StrEnum):
    WORSE = "worse"


class Output(StrEnum):
    TEXT = "text"
    JSON = "json"


File = Annotated[Path, typer.Argument(metavar="FILE", help="An experiment (YAML); see examples/.", show_default=False)]

Seed = Annotated[
    int | None,
    typer.Option(help="Instead of the file's: it draws the order of the runs, and the faults of `random`.", min=0),
]


def _print_version(wanted: bool) -> None:
    if wanted:
        print(f"dedup {__version__}")
        raise typer.Exit


@app.callback()
def _options(
    _version: Annotated[
        bool, typer.Option("--version", callback=_print_version, is_eager=True, help="Print the version and exit.")
    ] = False,
) -> None: ...


@app.command()
def run(
    file: File,
    runs: Annotated[int | None, typer.Option(help="Runs of each variant, instead of the file's.", min=1)] = None,
    messages: Annotated[int | None, typer.Option(help="Messages a run, instead of the file's.", min=1)] = None,
    system: Annotated[list[str] | None, typer.Option(help="Only this system of the file; may be repeated.")] = None,
    seed: Seed = None,
    secret: Secret = None,
    out: Annotated[Path | None, typer.Option(help=r"Results folder.  \[default: results/NAME-TIME]")] = None,
    resume: Annotated[
        bool, typer.Option("--resume", help="Finish an interrupted experiment: in --out, or the newest one of FILE.")
    ] = False,
) -> None:
    """Run an experiment on this machine, on real brokers, and judge it.

    Kafka or Pulsar are started as processes on free ports, the clients and the faults run, and every history is
    verified by Spark and by an independent oracle. Everything is kept in the results folder; nothing else is left.

        dedup run examples/kafka-kill-tcp.yaml --runs 2 --messages 300000

    A system that is there already (deploy.existing) is not started: clients are led to its brokers through a proxy,
    which takes faults of their connections, and what is made there is removed, also after Ctrl-C. The Secrets that the
    file names are folders here, with files named like their keys:

        dedup run examples/existing-kafka.yaml --secret my-authority=FOLDER --secret my-login=FOLDER
    """
    from dedup_lab import experiments, logins

    experiment = load(file).with_changes(runs=runs, messages=messages, systems=system or [], seed=seed)
    given = {"runs": runs, "messages": messages, "seed": seed}
    again = experiments.command_of(file, secret or [], systems=system or [], **given)
    ask = partial(experiments.run, out=out, resume=resume, console=_console(), command=again)
    raise typer.Exit(ask(experiment, secrets=logins.given(secret or [])))


Judge = Annotated[
    Engine | None,
    typer.Option(
        help="Ask one judge alone; no other judge checks it. local: Spark's method without Java, and the quickest. "
        "oracle: slow, and 1.5 GB of memory for a million messages.  "
        r"\[default: two judges compared, local and the oracle; above a million messages a run Spark alone]",
        show_default=False,
    ),
]
Tables = Annotated[
    str | None,
    typer.Option(
        metavar="FOLDER|URI",
        help="Write every duplicate block, jump and range of lost, duplicated or phantom values there, as Parquet.",
        show_default=False,
    ),
]


@app.command()
def verify(
    paths: Annotated[
        list[str],
        typer.Argument(
            metavar="PATH...",
            help="Run folders, folders with a CSV pair, or folders that hold some of them; s3://BUCKET/PREFIX too.",
            show_default=False,
        ),
    ],
    output: Annotated[Format, typer.Option("--format", help="What to print.")] = Format.TABLE,
    expect: Annotated[
        Expectation | None,
        typer.Option(
            help="What each history must show, judged on its own.  "
            r"\[default: its experiment's, for a results folder; else ExactlyOnce]",
            show_default=False,
        ),
    ] = None,
    engine: Judge = None,
    findings: Tables = None,
    trust_csv: Annotated[
        bool,
        typer.Option(
            "--trust-csv",
            help="Trust a CSV pair without a manifest.json to hold all that was sent and could be read. "
            "Otherwise nothing proves that the files are whole: copies and order may fail it, but losses and phantoms "
            "are inconclusive, and it never passes.",
        ),
    ] = False,
) -> None:
    """Judge recorded histories again, or your own: offline, by the same judges, no brokers.

        dedup verify results/kafka-kill-tcp-20261121-120000

    A history of your own is a folder with two CSV files, in UTF-8:

        sent.csv            received.csv, in the order of arrival
        value,outcome       partition,position,value
        1,ok                0,0,1
        2,unknown           0,1,2

    value: rises in the order of sending, each sent once.
    outcome: ok, fail (it provably never left the client) or unknown.
    position: Kafka's offset, or Pulsar's ledger:entry:batch.
    Several rising sequences: one more column, stream, in both files. Others are not read.
    Every line has a line end, the last one too (else it may be cut off).

        dedup verify my-history --expect AtLeastOnce
    """
    from dedup.history.stores import place
    from dedup_lab import verifications

    ask = partial(verifications.verify, expect=expect, alone=engine, trust_csv=trust_csv, findings=findings)
    raise typer.Exit(ask([place(path) for path in paths], as_json=output is Format.JSON, console=_console()))


app.command()(check)
app.command()(probe)
app.command()(explore)
app.command()(replay)


@app.command()
def plan(
    file: Annotated[
        Path,
        typer.Argument(metavar="FILE|-", help="An experiment (YAML); - is standard input.", show_default=False),
    ],
    runs: Annotated[int | None, typer.Option(help="Runs of each variant, instead of the file's.", min=1)] = None,
    messages: Annotated[int | None, typer.Option(help="Messages a run, instead of the file's.", min=1)] = None,
    system: Annotated[list[str] | None, typer.Option(help="Only this system of the file; may be repeated.")] = None,
    seed: Seed = None,
    output: Annotated[Output, typer.Option("--format", help="What to print.")] = Output.TEXT,
) -> None:
    """Check an experiment and show what would be run, in order, and about how long it takes; starts nothing."""
    from dedup_lab import experiments

    source = Path("/dev/stdin") if file == Path("-") else file
    experiment = load(source).with_changes(runs=runs, messages=messages, systems=system or [], seed=seed)
    experiments.check(experiment)
    if output is Output.JSON:
        print(json.dumps(experiments.plan_document(experiment), indent=1))
    else:
        experiments.show_plan(experiment, _console(stderr=False))


Name = Annotated[str, typer.Argument(metavar="NAME", help="A DedupExperiment in a cluster.", show_default=False)]
Namespace = Annotated[
    str | None, typer.Option("--namespace", "-n", help=r"Its namespace.  \[default: the context's]", show_default=False)
]
Context = Annotated[
    str | None, typer.Option(help=r"A context of the kubeconfig.  \[default: the current one]", show_default=False)
]
Kubeconfig = Annotated[
    Path | None,
    typer.Option(help=r"How to reach the cluster.  \[default: KUBECONFIG, or ~/.kube/config]", show_default=False),
]


@app.command()
def results(
    name: Annotated[
        str,
        typer.Argument(
            metavar="NAME|FOLDER",
            help="A DedupExperiment or a DedupComparison in a cluster; or a results folder here: one that holds a "
            "summary.json or an experiment.json, or any name written as a path (./NAME).",
            show_default=False,
        ),
    ],
    namespace: Namespace = None,
    context: Context = None,
    kubeconfig: Kubeconfig = None,
    output_format: Annotated[
        Shown, typer.Option("--format", help="What to print. markdown: of comparisons.")
    ] = Shown.TEXT,
    output: Annotated[
        Path | None,
        typer.Option(metavar="FOLDER", help="Fetch the results from S3 into this folder.", show_default=False),
    ] = None,
    histories: Annotated[bool, typer.Option("--histories", help="With --output: the histories too.")] = False,
    follow: Annotated[
        bool, typer.Option("--follow", "-f", help="Show how far it is in the cluster, and wait for its end.")
    ] = False,
    open_page: Open = False,
) -> None:
    """Show the result of an experiment, here or in a cluster, or of a comparison; fetch a cluster's artifacts.

    The exit code is the verdict's; without a verdict yet it is 3, or 4 if the experiment cannot go on.

        dedup results results/kafka-kill-tcp-20261121-120000
        dedup results kafka-kill-tcp --namespace lab --follow
        dedup results kafka-kill-tcp --namespace lab --open
        dedup results kafka-kill-tcp --output results/kafka-kill-tcp --histories

    The page that --open shows is the one beside the summary; if a folder has none, it is drawn of what is there.
    The store's keys and address come from AWS_ACCESS_KEY_ID, AWS_SECRET_ACCESS_KEY and AWS_ENDPOINT_URL.
    """
    from dedup_lab.cluster import access as clusters
    from dedup_lab.results import is_local

    if is_local(name):
        of_clusters = {
            "--namespace": namespace,
            "--context": context,
            "--kubeconfig": kubeconfig,
            "--output": output,
            "--histories": histories or None,
            "--follow": follow or None,
        }
        if given := [option for option, value in of_clusters.items() if value is not None]:
            raise typer.BadParameter(f"is for clusters, and {name} is a folder here", param_hint=given[0])
        raise typer.Exit(results_of.here(Path(name), output_format, open_page))
    if output is None and histories:
        raise typer.BadParameter("needs --output", param_hint="--histories")
    cluster = clusters.connected(kubeconfig, context, namespace)
    raise typer.Exit(results_of.there(cluster, name, output_format, output, histories, follow, open_page))


@app.command()
def logs(
    name: Name,
    namespace: Namespace = None,
    context: Context = None,
    kubeconfig: Kubeconfig = None,
    run: Annotated[
        str | None, typer.Option(metavar="ID", help=r"A run.  \[default: the current or last one]", show_default=False)
    ] = None,
    follow: Annotated[bool, typer.Option("--follow", "-f", help="Go on until every container has ended.")] = False,
) -> None:
    """Show the logs of a run's programs in the cluster; each line begins with its pod and container.

    dedup logs kafka-kill-tcp --namespace lab --follow
    dedup logs kafka-kill-tcp --run kafka-dedup-001
    """
    from dedup_lab.cluster import access as clusters
    from dedup_lab.cluster import pod_logs

    def warn(text: str) -> None:
        _console().print(f"[yellow]warning[/] {escape(text)}", soft_wrap=True)

    cluster = clusters.connected(kubeconfig, context, namespace)
    pod_logs.logs(cluster, name, run=run, follow=follow, write=partial(print, flush=follow), warn=warn)


@app.command()
def compare(
    results: Annotated[
        list[str],
        typer.Argument(
            metavar="[NAME=]RESULT...",
            help="A results folder, s3://BUCKET/PREFIX, or k8s://CONTEXT/NAMESPACE/NAME for one in a cluster. "
            "The first one is what the others are compared with.",
            show_default=False,
        ),
    ],
    output: Annotated[Listing, typer.Option("--format", help="What to print.")] = Listing.TABLE,
    fail_on: Annotated[
        FailOn | None,
        typer.Option(help="Exit with 1 if a verdict got worse, or a promise was broken in significantly more runs."),
    ] = None,
    confidence: Annotated[
        float, typer.Option(min=50, max=99.99, help="In percent: what a claimed difference must reach.")
    ] = 95,
    trend: Annotated[
        bool,
        typer.Option("--trend", help="A row an execution, by time; a folder or prefix may hold many results."),
    ] = False,
) -> None:
    """Compare results: versions, clients, clusters, days. Of one result, its systems.

        dedup compare 4.3.1=results/new 3.9.0=results/old
        dedup compare results/baseline s3://bucket/tonight --fail-on worse
        dedup compare --trend s3://bucket/nightly

    Workload, faults and expectations must be the same; what else differs is printed first. Exit code 0 says that the
    results were compared, 4 that they cannot be.
    """
    from dedup_lab import comparisons

    if trend and fail_on:
        raise typer.BadParameter("a trend has no baseline; compare two results", param_hint="--fail-on")
    shown = (comparisons.TRENDS if trend else comparisons.SHOWN)[output]
    asked = partial(comparisons.run, results, show=shown, confidence_percent=confidence, trend=trend)
    raise typer.Exit(asked(fail_on_worse=fail_on is not None, console=_console(stderr=False), log=_console()))


app.command()(report)


@app.command()
def schema(
    document: Annotated[Document, typer.Argument(help="The file whose schema is printed.")] = Document.EXPERIMENT,
) -> None:
    """Print the JSON schema of an experiment file, of summary.json or of findings.json, for editors and programs."""
    print(schemas.text(document))


listing = typer.Typer(help="List what an experiment can ask for.", no_args_is_help=True)
app.add_typer(listing, name="list")


@listing.command("faults")
def list_faults(
    output: Annotated[Listing, typer.Option("--format", help="What to print.")] = Listing.TABLE,
) -> None:
    """List the kinds of faults: what each does, its settings and their defaults, where it works, and what it needs."""
    from dedup.faults import tables
    from dedup_lab.terminal import listings

    if output is Listing.TABLE:
        listings.show_faults(tables.rows(), _console(stderr=False))
    else:
        rows = json.dumps([row.model_dump() for row in tables.rows()], indent=1)
        print(rows if output is Listing.JSON else tables.markdown())


listing.command("scenarios")(scenarios)
listing.command("workloads")(workloads)


@listing.command("clients")
def list_clients() -> None:
    """List the client libraries: each one's systems, and the settings that an experiment may give it."""
    from rich.table import Table

    from dedup.experiment.clients import CLIENTS, products, versions_of

    table = Table("client", "speaks to", "what it is", "versions", "settings")
    for client in CLIENTS.values():
        settings = ", ".join(sorted(client.allowed))
        table.add_row(client.library, products(client), client.words, versions_of(client), settings)
    _console(stderr=False).print(table)


def _interrupt(_signal: int, _frame: FrameType | None) -> None:
    raise KeyboardInterrupt


def _hang_up(number: int, _frame: FrameType | None) -> None:
    """The terminal is gone: end as after Ctrl-C. The shell tells it, and the kernel again, while we clean up."""
    signal.signal(number, signal.SIG_IGN)
    raise KeyboardInterrupt


def main() -> None:
    """The entry point: every error becomes one line and exit code 4."""
    try:
        _carry_out()
    except SystemExit as end:
        client_threads = sys.modules.get("dedup_lab.exploring.threads")
        if client_threads is not None:  # it is not loaded for a command that has none
            client_threads.leave(end.code)
        raise


def _carry_out() -> None:
    for each in (signal.SIGTERM, signal.SIGINT):  # a shell starts background jobs with SIGINT ignored
        signal.signal(each, _interrupt)
    if signal.getsignal(signal.SIGHUP) != signal.SIG_IGN:  # nohup asks to go on without a terminal
        signal.signal(signal.SIGHUP, _hang_up)
    streams.guard()
    try:
        try:
            app()
        finally:
            streams.flush()
    except DedupError as error:
        _fail(error)
    except KeyboardInterrupt:
        sys.exit(EXIT_INTERRUPTED)
    except BrokenPipeError:
        streams.discard(sys.stdout)
        sys.exit(EXIT_ERROR)
    except ModuleNotFoundError as error:
        _fail(_missing(error) or error)
    except OSError as error:
        _fail(machines.refusal(error) or error)
    except Exception as error:  # exit code 1 means "fail": a crash of dedup must never exit with it
        _fail(error)


def _missing(error: ModuleNotFoundError) -> EnvironmentError_ | None:
    """The error for a package of an extra that was not installed; None if the missing module is dedup's own."""
    name = str(error.name).partition(".")[0]
    if name.startswith("dedup"):
        return None
    return EnvironmentError_(
        where=f"dedup {' '.join(sys.argv[1:2])}".rstrip(),
        got=f"no Python package {name}",
        rule="the extra verify holds what `dedup verify --engine local` needs, the extra lab what all commands need",
        todo="install it: pip install 'dedup[lab]', or make setup",
    )


def _fail(error: Exception) -> NoReturn:
    """One line on standard error, and exit code 4."""
    if isinstance(error, DedupError):
        words = str(error)
    else:
        words = f"{one_line(f'{type(error).__name__}: {error}')}; this is a defect of dedup"
    if sys.stderr is not None:
        Console(stderr=True, highlight=False).print(f"[red]error[/] {escape(words)}", soft_wrap=True)
    sys.exit(EXIT_ERROR)


if __name__ == "__main__":
    main()
