"""A user's own experiment of Chaos Toolkit, in two processes beside its fault's.

Its code is not ours: it may hang, and its process may not end. So nothing of it runs in the fault's process.

`python -m dedup_runners.chaos.own_experiments supervise ORDERS` runs the experiment as `chaos run` does, in a session
of its own. At the deadline, or when its standard input ends (the injector is gone), it interrupts the experiment, which
then plays its rollbacks; one that does not end is killed, and its rollbacks are played alone. So they are if something
else has killed it. It needs nobody else to live.

`python -m dedup_runners.chaos.own_experiments ask EXPERIMENT` asks the probes of the steady-state hypothesis, again and
again, and prints a line each time (`Look`). It ends with its parent.
"""

import json
import os
import select
import signal
import subprocess
import sys
import threading
import time
from contextlib import suppress
from pathlib import Path
from typing import Any, Final, NamedTuple, NoReturn

from dedup.wire.faults import FaultEvent
from dedup_runners.chaos import watchdog

INTERRUPT_S: Final = 30.0
"""So long an interrupted experiment may take to end, with its rollbacks."""
ROLLBACKS_S: Final = 30.0
"""So long its rollbacks may take if they are played alone."""
LOOK_EVERY_S: Final = 0.05
ASK_EVERY_S: Final = 0.2
HYPOTHESIS: Final = "steady-state-hypothesis"
ENDED: Final = 0
SAID: Final = (0, 1)
"""The exit codes of a `chaos run` that ended in order, whatever came of its experiment. It has played its rollbacks."""
INTERRUPTED: Final = 3
"""The exit code if it was interrupted at its deadline, or because its injector was gone."""
MOST_SHOWN: Final = 200


class Orders(NamedTuple):
    """What to run, where to keep its journal, and until when (time.monotonic()); `lines` is the run's faults.jsonl."""

    experiment: str
    journal: str
    until_s: float
    fault: str
    lines: str


class Look(NamedTuple):
    """The hypothesis at one time: whether it holds; if not, the probe that is out of its tolerance, and its output.

    When it was asked, by the clock of the machine (`monotonic_ns`), and from when to when by the calendar's.
    """

    began_ns: int
    began_unix_s: float
    ended_unix_s: float
    met: bool
    probe: str = ""
    output: str = ""


def command(experiment: str, journal: str) -> list[str]:
    """`chaos run` as a user calls it, with nothing asked of the network. Its log is beside the journal."""
    place = Path(journal)
    return [
        *(sys.executable, "-m", "chaostoolkit", "--no-version-check", "--log-file", str(place.with_suffix(".log"))),
        *("--settings", str(place.with_suffix(".settings")), "run", "--rollback-strategy", "always"),
        *("--journal-path", journal, experiment),
    ]


def supervise(orders: Orders) -> int:
    """Run the experiment to its end, or to its deadline, or to the end of our standard input; the exit code."""
    null = subprocess.DEVNULL
    process = subprocess.Popen(
        command(orders.experiment, orders.journal), stdin=null, stdout=null, stderr=null, start_new_session=True
    )
    gone = False
    while process.poll() is None and time.monotonic() < orders.until_s and not gone:
        readable, _, _ = select.select([sys.stdin], [], [], LOOK_EVERY_S)
        gone = bool(readable) and not os.read(sys.stdin.fileno(), 4096)
    in_order = process.poll() is not None
    if not in_order:
        process.send_signal(signal.SIGUSR1)
    _await(process, INTERRUPT_S)
    killed = process.returncode not in SAID
    if killed:
        _kill_group(process)
    undone = not (killed or not in_order) or _rolled_back(orders) or _rolled_back_alone(orders)
    reason = "injector gone" if gone else "the experiment's process was killed" if in_order else "deadline"
    if not undone:
        error = "not all rollbacks succeeded, which were played alone"
        watchdog.append(orders.lines, orders.fault, FaultEvent.WATCHDOG_FAILED, {"reason": reason, "error": error})
    elif gone:
        watchdog.append(orders.lines, orders.fault, FaultEvent.HEALED_BY_WATCHDOG, {"reason": reason, "proxies": []})
    return ENDED if in_order else INTERRUPTED


def _await(process: "subprocess.Popen[bytes]", within_s: float) -> None:
    """Its end, within that time; then it is killed, and all that it has started in its group."""
    try:
        process.wait(within_s)
    except subprocess.TimeoutExpired:
        _kill_group(process)
        process.wait()


def _kill_group(process: "subprocess.Popen[bytes]") -> None:
    with suppress(ProcessLookupError):
        os.killpg(process.pid, signal.SIGKILL)


def _rolled_back(orders: Orders) -> bool:
    """Whether every rollback of the experiment was played and succeeded, as the journal says."""
    try:
        played = json.loads(Path(orders.journal).read_bytes()).get("rollbacks") or []
    except (OSError, ValueError):
        return False
    planned = loaded(orders.experiment).get("rollbacks") or []
    return len(played) == len(planned) and all(each.get("status") == "succeeded" for each in played)


def _rolled_back_alone(orders: Orders) -> bool:
    """Play the rollbacks alone, as an experiment that does nothing else; whether every one has succeeded."""
    experiment = loaded(orders.experiment)
    if not experiment.get("rollbacks"):
        return True
    alone = {name: value for name, value in experiment.items() if name != HYPOTHESIS} | {"method": []}
    path = Path(orders.journal).with_name("rollbacks.json")
    path.write_text(json.dumps(alone))
    journal = str(path.with_name("rollbacks-journal.json"))
    null = subprocess.DEVNULL
    told = command(str(path), journal)
    _await(subprocess.Popen(told, stdin=null, stdout=null, stderr=null, start_new_session=True), ROLLBACKS_S)
    return _rolled_back(orders._replace(experiment=str(path), journal=journal))


def loaded(experiment: str) -> dict[str, Any]:
    """The experiment as Chaos Toolkit reads it, JSON or YAML."""
    from chaoslib.loader import load_experiment

    found: dict[str, Any] = load_experiment(experiment)
    return found


def ask(experiment: str) -> NoReturn:
    """Ask the probes again and again, until our standard input ends."""
    threading.Thread(target=_leave_at_end, name="parent", daemon=True).start()
    out = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)  # what probes print is no line of ours
    document, looks = loaded(experiment), Asking(experiment)
    assert document.get(HYPOTHESIS), "it has a hypothesis"
    while True:
        print(json.dumps(looks.once()), file=out, flush=True)
        time.sleep(ASK_EVERY_S)


def _leave_at_end() -> None:
    """End this process when its standard input ends, whatever a probe is doing then."""
    while os.read(0, 4096):
        continue
    os._exit(ENDED)


class Asking:
    """The hypothesis of an experiment, ready to be asked with its configuration and secrets."""

    def __init__(self, experiment: str) -> None:
        from chaoslib.configuration import load_configuration, load_dynamic_configuration
        from chaoslib.secret import load_secrets

        self._experiment = loaded(experiment)
        configuration = load_configuration(self._experiment.get("configuration", {}))
        self._secrets = load_secrets(self._experiment.get("secrets", {}), configuration)
        self._configuration = load_dynamic_configuration(configuration, self._secrets)

    def once(self) -> Look:
        """Ask all probes in their order, up to the first that is out of its tolerance."""
        from chaoslib.hypothesis import run_steady_state_hypothesis
        from chaoslib.run import EventHandlerRegistry

        began_ns, began_unix_s = time.monotonic_ns(), time.time()
        told = (self._experiment, self._configuration, self._secrets, None, EventHandlerRegistry())
        state = run_steady_state_hypothesis(*told)
        if state["steady_state_met"]:
            return Look(began_ns, began_unix_s, time.time(), True)
        last = state["probes"][-1]
        shown = (last.get("exception") or [""])[-1].strip() if last["status"] == "failed" else repr(last.get("output"))
        return Look(began_ns, began_unix_s, time.time(), False, last["activity"]["name"], shown[:MOST_SHOWN])


def main(arguments: list[str]) -> int:
    what, told = arguments
    if what == "supervise":
        return supervise(Orders(**json.loads(told)))
    ask(told)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
