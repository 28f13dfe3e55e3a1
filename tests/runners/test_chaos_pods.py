"""Brokers in pods, behind a fake of the one door to them: what is asked of a container, and what is believed of it."""

import os
import socket
import subprocess
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from types import SimpleNamespace as Object
from typing import Any

import pytest

from dedup.errors import PlatformError
from dedup.experiment.endpoints import Broker, BrokerPod, Endpoints
from dedup_runners.chaos import containers, sites, sockets
from dedup_runners.chaos.containers import MARK, ExecShell, Seen, ShellLost
from dedup_runners.chaos.sites import pods
from dedup_runners.chaos.sites.pods import Pods
from dedup_runners.chaos.sites.protocol import Death
from dedup_runners.chaos.sockets import Connection

PORT = 9094
OURS = "10.0.0.9"
FIRST = Seen(uid="u", consents=True, life="one", running=True, restarts=0, ends={})
NEXT = FIRST._replace(uid="v", life="two", controller="set", containers=frozenset({"broker"}))
"""The pod that its controller has put in the other's place."""


def row(there: str, port: int = PORT, state: str = "01") -> str:
    """A line of the kernel's table of a broker at 127.0.0.1; 01 is ESTABLISHED, 06 TIME_WAIT, 08 CLOSE_WAIT."""
    host, _, number = there.partition(":")
    word = "".join(f"{int(part):02X}" for part in reversed(host.split(".")))
    return f" 0: 0100007F:{port:04X} {word}:{int(number):04X} {state} 0:0 0:0 0 0 0 77 1\n"


@dataclass
class Container:
    """A broker's container made of words: `table` is what its kernel shows, `pid` what its hold folder does."""

    seen: Seen = FIRST
    table: str = ""
    pid: str = "7"
    told: list[str] = field(default_factory=list)
    deaf: bool = False
    immortal: bool = False
    gone: bool = False
    cut: bool = False

    def shell(self) -> "Container":
        self.gone = False
        return self

    def send(self, line: str) -> None:
        if self.gone:
            raise ShellLost
        self.told.append(line)

    def answer(self, timeout_s: float) -> str:
        if self.deaf or self.gone:
            raise ShellLost
        if "kill -9" in self.told[-1]:
            return pods.UNDONE
        table = self.table + ("" if self.cut else pods.WHOLE)
        return {"cat /proc": table, "echo read": "ready\n"}.get(self.told[-1][:9], self.pid)

    def ended(self, timeout_s: float) -> bool:
        self.gone = not self.immortal
        return self.gone

    def close(self) -> None:
        """Nothing to close."""


@dataclass
class Fakes:
    """`Containers` by the names of their pods."""

    by_name: dict[str, Container]

    def look(self, pod: BrokerPod) -> Seen:
        return self.by_name[pod.name].seen

    def shell(self, pod: BrokerPod) -> Container:
        return self.by_name[pod.name].shell()


def endpoints(**pod: Any) -> Endpoints:
    brokers = [
        Broker(
            id=str(number),
            client_port=PORT,
            pod=BrokerPod(namespace="here", name=f"k-{number}", container="broker", **{"hold": "/hold", **pod}),
        )
        for number in (0, 1)
    ]
    return Endpoints(system="kafka", client_bootstrap="x:1", direct_bootstrap="x:1", brokers=brokers)


@pytest.fixture
def fakes() -> Fakes:
    return Fakes({"k-0": Container(), "k-1": Container()})


@pytest.fixture
def site(fakes: Fakes, monkeypatch: pytest.MonkeyPatch) -> Pods:
    monkeypatch.setattr(sockets, "TABLES", (Path("/nobody/has/this"),))
    monkeypatch.setattr(pods, "REOPEN_S", 0.0)
    site = Pods(endpoints(), fakes, {OURS})
    site.warm_up()
    return site


def test_a_clients_connection_is_one_of_this_pod_at_the_clients_port(site: Pods, fakes: Fakes) -> None:
    fakes.by_name["k-0"].table = row(f"{OURS}:5000") + row("10.0.0.8:5000") + row(f"{OURS}:5001", port=9092)
    assert site.connections() == {"0": {Connection(("127.0.0.1", PORT), (OURS, 5000))}, "1": set()}
    assert not site.idle()
    fakes.by_name["k-0"].table = row("10.0.0.8:5000")
    assert site.idle()


def test_a_connection_that_only_the_client_has_closed_is_lost_but_not_finished(site: Pods, fakes: Fakes) -> None:
    fakes.by_name["k-0"].table = row(f"{OURS}:5000", state="08")
    assert site.connections() == {"0": set(), "1": set()}
    assert not site.idle()
    fakes.by_name["k-0"].table = row(f"{OURS}:5000", state="06") + row("10.0.0.8:5000", state="08")
    assert site.idle()


@pytest.mark.parametrize("beside", [False, True], ids=["the asker alone", "a client beside it"])
def test_who_asks_the_brokers_at_the_clients_port_is_no_client(
    site: Pods, fakes: Fakes, beside: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As of a system that is there already: its brokers have one port for everybody."""
    asking, client = (Connection((OURS, port), ("127.0.0.1", PORT)) for port in (5000, 5001))
    monkeypatch.setattr(sockets, "of", lambda _pid, _states: {asking})
    fakes.by_name["k-0"].table = row(f"{OURS}:5000") + (row(f"{OURS}:5001", state="08") if beside else "")
    assert site.idle() is not beside
    monkeypatch.setattr(
        sockets, "mine", lambda _but, states: {client._replace(here=asking.here)} if "04" in states else set()
    )
    assert not site.idle(), "another process of this pod has closed a connection from the same port"


def test_a_broker_that_cannot_be_looked_into_has_not_lost_its_connections(site: Pods, fakes: Fakes) -> None:
    fakes.by_name["k-0"].table = row(f"{OURS}:5000")
    fakes.by_name["k-0"].deaf = True
    assert site.connections() == {"1": set()}
    assert not site.idle()
    fakes.by_name["k-0"].deaf = False
    assert site.connections().keys() == {"0", "1"}


def test_a_table_that_could_not_be_read_to_its_end_is_not_empty(site: Pods, fakes: Fakes) -> None:
    """Where no process can be started any more, `cat` says nothing, and the shell goes on."""
    fakes.by_name["k-0"].cut = True
    assert site.connections() == {"1": set()} and not site.idle()
    fakes.by_name["k-0"].cut = False
    assert site.connections().keys() == {"0", "1"} and site.idle()
    assert subprocess.run(["sh", "-c", pods.TABLES], capture_output=True, text=True).stdout.endswith(pods.WHOLE)


def test_a_kill_holds_strikes_and_is_believed_when_the_kubelet_says_137(site: Pods, fakes: Fakes) -> None:
    one = fakes.by_name["k-1"]
    victim = site.victim("1")
    site.kill(victim, 19.2)
    hold, strike = one.told[-1].index(" + 21)) >/hold/until"), one.told[-1].index("kill -9")
    assert hold < strike
    assert site.death(victim) is None
    one.seen = FIRST._replace(running=False, ends={"one": 137})
    about = {"pod": "k-1", "container": "one", "restarts": 0}
    assert site.death(victim) == Death(137, about)
    assert site.exits() == 1
    assert site.restarted(victim) is None
    one.seen, one.pid = FIRST._replace(life="two", restarts=1, ends={"one": 137}), ""
    assert site.restarted(victim) is None, "it is held"
    one.pid = "7\n"
    assert site.restarted(victim) == {"container": "two", "pid": 7}
    assert site.exits() == 1
    assert site.victim("1").life == "two"


def test_a_life_that_ended_since_it_was_looked_at_is_not_killed_again(site: Pods, fakes: Fakes) -> None:
    """Its end with 137 was another fault's doing: it proves nothing for this one."""
    one = fakes.by_name["k-1"]
    one.gone, one.seen = True, FIRST._replace(running=False, ends={"one": 137})
    with pytest.raises(PlatformError, match="only a living broker is killed"):
        site.victim("1")
    one.seen = FIRST._replace(life="two", restarts=1, ends={"one": 137})
    assert site.victim("1").life == "two"


def test_a_kill_that_was_not_heard_was_not_done(site: Pods, fakes: Fakes) -> None:
    victim = site.victim("1")
    fakes.by_name["k-1"].gone = True
    with pytest.raises(PlatformError, match=r"got a shell that is gone; .*; read its log: the broker ended by itself"):
        site.kill(victim, 1.0)


def test_a_line_of_shell_is_run_in_the_brokers_container_and_knows_its_process(site: Pods, fakes: Fakes) -> None:
    victim, one = site.victim("1"), fakes.by_name["k-1"]
    assert site.run(victim, "echo $process") == "7"
    assert one.told[-1] == "read -r process </hold/pid && { echo $process; }"
    one.deaf = True
    with pytest.raises(PlatformError, match="got no answer; a shell in it answers"):
        site.run(victim, "true")


def test_another_lifes_end_is_not_this_ones(site: Pods, fakes: Fakes) -> None:
    victim = site.victim("1")
    fakes.by_name["k-1"].seen = FIRST._replace(life="three", restarts=2, ends={"two": 137})
    assert site.death(victim) is None


def test_a_kill_that_found_no_process_says_so(site: Pods, fakes: Fakes) -> None:
    fakes.by_name["k-1"].immortal = True
    with pytest.raises(PlatformError, match=r"pod here/k-1: got no process in /hold/pid that could be killed"):
        site.kill(site.victim("1"), 1.0)


def test_a_pod_without_consent_is_never_entered(fakes: Fakes) -> None:
    other = fakes.by_name["k-1"]
    other.seen = FIRST._replace(consents=False)
    site = Pods(endpoints(), fakes, {OURS})
    site.warm_up()
    with pytest.raises(PlatformError, match=r"got no label dedup\.dev/faults=allowed; only pods that consent are hurt"):
        site.victim("1")
    assert site.connections().keys() == {"0"}
    assert other.told == []


def test_a_consent_that_was_taken_back_since_it_was_seen_is_none(site: Pods, fakes: Fakes) -> None:
    """The shell is open and the pod was seen to consent; it is asked anew at the strike."""
    one = fakes.by_name["k-1"]
    one.told.clear()
    one.seen = FIRST._replace(consents=False)
    with pytest.raises(PlatformError, match="only pods that consent are hurt"):
        site.victim("1")
    assert one.told == []
    one.seen = FIRST
    assert site.victim("1").life == "one"


@pytest.mark.parametrize(
    ("now", "words"),
    [
        (FIRST._replace(uid="v", life="two", controller="somebody"), "another pod than the one that was proven"),
        (FIRST._replace(uid="v", life="two", controller="set", consents=False), "only pods that consent are hurt"),
        (FIRST._replace(leaving=True), "a pod that is being deleted"),
        (NEXT._replace(shares="hostNetwork"), "with hostNetwork: true"),
        (NEXT._replace(experiment="theirs"), "of experiment theirs"),
        (NEXT._replace(containers=frozenset({"web"})), "without broker"),
    ],
)
def test_a_pod_of_others_that_has_taken_anothers_place_is_not_struck(fakes: Fakes, now: Seen, words: str) -> None:
    site, one = Pods(endpoints(uid="u", controller="set"), fakes, {OURS}), fakes.by_name["k-1"]
    site.warm_up()
    assert site.victim("1").life == "one"
    one.told.clear()
    one.seen = now
    with pytest.raises(PlatformError, match=words):
        site.victim("1")
    assert not any("kill" in line for line in one.told)


@pytest.mark.parametrize("now", [FIRST._replace(consents=False), NEXT])
@pytest.mark.parametrize("strike", ["kill", "pause"])
def test_an_owner_who_takes_the_consent_back_after_the_first_look_is_asked_once_more(
    fakes: Fakes, now: Seen, strike: str
) -> None:
    """Between the choice of a victim and the signal lie seconds. Another pod is not the one that was entered."""
    site, one = Pods(endpoints(uid="u", controller="set"), fakes, {OURS}), fakes.by_name["k-1"]
    site.warm_up()
    victim = site.victim("1")
    one.told.clear()
    one.seen = now
    stop = "kill -STOP $process"
    struck: dict[str, Callable[[], object]] = {
        "kill": lambda: site.kill(victim, 1.0),
        "pause": lambda: site.run(victim, stop, strikes=True),
    }
    with pytest.raises(PlatformError, match=r"only pods that consent|than the one that was entered"):
        struck[strike]()
    assert one.told == []
    one.seen = FIRST
    assert site.run(victim, stop, strikes=True) == "7"


def test_a_process_that_was_stopped_is_woken_without_that_question(fakes: Fakes) -> None:
    """The twin: what heals is not asked for leave."""
    site, one = Pods(endpoints(uid="u", controller="set"), fakes, {OURS}), fakes.by_name["k-1"]
    site.warm_up()
    victim = site.victim("1")
    one.seen = FIRST._replace(consents=False)
    assert site.run(victim, "kill -CONT $process") == "7"


def test_the_pod_that_its_controller_has_made_anew_is_entered_anew(fakes: Fakes) -> None:
    """The twin: same controller, and it consents."""
    site, one = Pods(endpoints(uid="u", controller="set"), fakes, {OURS}), fakes.by_name["k-1"]
    site.warm_up()
    one.told.clear()
    one.seen = FIRST._replace(uid="v", life="two", controller="set", containers=frozenset({"broker"}))
    assert site.victim("1").life == "two"
    assert one.told == ["echo ready"], "another shell"


def test_a_victim_is_healed_whatever_its_owner_says_by_then(site: Pods, fakes: Fakes) -> None:
    """The shell is lost, the consent gone: the stopped process is still woken. Any other pod stays closed."""
    victim = site.victim("1")
    for one in fakes.by_name.values():
        one.gone, one.seen = True, FIRST._replace(consents=False)
    with pytest.raises(PlatformError, match="got no answer"):
        site.run(victim, "true")  # that the shell is gone is found out
    assert site.run(victim, "kill -CONT $process") == "7"
    other = fakes.by_name["k-0"]
    other.told.clear()
    assert site.connections().keys() == {"1"}
    assert other.told == []


@pytest.fixture
def without_hold(fakes: Fakes, monkeypatch: pytest.MonkeyPatch) -> Pods:
    """Of somebody's chart that knows no hold."""
    monkeypatch.setattr(sockets, "TABLES", ())
    monkeypatch.setattr(pods, "REOPEN_S", 0.0)
    site = Pods(endpoints(hold=None), fakes, {OURS})
    site.warm_up()
    return site


def test_without_a_hold_the_process_that_listens_is_killed_and_no_time_is_held(
    without_hold: Pods, fakes: Fakes
) -> None:
    one = fakes.by_name["k-1"]
    one.pid = "41\n"
    victim = without_hold.victim("1")
    without_hold.kill(victim, 0.0)
    assert one.told[-1] == f'process=41 && kill -9 "$process" || echo "{pods.UNDONE}"'
    one.seen, one.pid = FIRST._replace(life="two", restarts=1, ends={"one": 137}), ""
    assert without_hold.restarted(victim) is None, "nobody listens there yet"
    one.pid = "52\n"
    assert without_hold.restarted(victim) == {"container": "two", "pid": 52}
    assert without_hold.run(without_hold.victim("1"), "echo $process") == "52\n"
    assert one.told[-1] == "process=52 && { echo $process; }", "another life, another process"
    one.pid = "63\n"
    assert without_hold.run(without_hold.victim("1"), "echo $process") == "63\n"
    assert one.told[-1] == "process=63 && { echo $process; }", (
        "the same life, and what keeps it there has begun it anew"
    )


def test_a_restart_cannot_be_kept_off_without_a_hold(without_hold: Pods, fakes: Fakes) -> None:
    victim = without_hold.victim("1")
    with pytest.raises(PlatformError, match=r"got no folder for the hold of 8 s; .*; write restartAfter: 0s"):
        without_hold.kill(victim, 8.0)
    assert not any("kill -9" in line for line in fakes.by_name["k-1"].told)


@pytest.mark.parametrize(
    ("said", "got"), [("1\n", "got process 1 of its container"), ("", "got 0 processes"), ("7\n8\n", "got 2 processes")]
)
def test_a_process_that_is_not_proven_is_not_struck(without_hold: Pods, fakes: Fakes, said: str, got: str) -> None:
    fakes.by_name["k-1"].pid = said
    with pytest.raises(PlatformError, match=rf"{got}; one process but the first listens at port {PORT}"):
        without_hold.victim("1")


def listening(port: int) -> str:
    """What the line of shell says here."""
    line = ["sh", "-c", pods.listener(port)]
    return subprocess.run(line, capture_output=True, text=True, timeout=300, check=True).stdout


def test_the_line_of_shell_that_finds_who_listens_finds_us() -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:
        port = server.getsockname()[1]
        found = listening(port)
    assert found.split() == [str(os.getpid())]


def test_nobody_is_found_where_nobody_listens() -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:
        port = server.getsockname()[1]
    assert listening(port) == ""


def test_a_broker_that_is_down_is_not_killed(site: Pods, fakes: Fakes) -> None:
    site.kill(site.victim("1"), 1.0)
    fakes.by_name["k-1"].seen = FIRST._replace(running=False)
    with pytest.raises(PlatformError, match="only a living broker is killed"):
        site.victim("1")


def test_a_pod_in_anothers_place_adds_to_the_exits(site: Pods, fakes: Fakes) -> None:
    fakes.by_name["k-0"].seen = FIRST._replace(restarts=2)
    assert site.exits() == 2
    fakes.by_name["k-0"].seen = FIRST._replace(uid="v", life="new")
    assert site.exits() == 3
    assert site.exits() == 3


def test_what_a_pod_says_of_its_container() -> None:
    ended = Object(container_id="one", exit_code=137)
    status = Object(
        name="broker",
        container_id="two",
        restart_count=1,
        state=Object(running=Object(), terminated=None),
        last_state=Object(terminated=ended),
    )
    keepers = [Object(uid="node", controller=None), Object(uid="set", controller=True)]
    labels = {"dedup.dev/faults": "allowed"}
    metadata = Object(uid="u", labels=labels, owner_references=keepers, deletion_timestamp=None)
    spec = Object(host_network=None, host_pid=True, containers=[Object(name="broker")])
    pod = Object(metadata=metadata, spec=spec, status=Object(container_statuses=[status]))
    like = Seen("u", True, "two", True, 1, {"one": 137}, controller="set", shares="hostPID")
    assert containers.seen(pod, "broker") == like._replace(containers=frozenset({"broker"}))
    bare = Object(uid="u", labels=None, owner_references=None, deletion_timestamp="now")
    spec = Object(host_network=None, host_pid=None, containers=[])
    unborn = Object(metadata=bare, spec=spec, status=Object(container_statuses=None))
    assert containers.seen(unborn, "broker") == Seen("u", False, "", False, 0, {}, leaving=True)


class Channel:
    """The web socket of an exec, as the client library shows it; it says its lines one by one, and then it ends."""

    def __init__(self, *says: str) -> None:
        self.says, self.heard, self.wrote = list(says), "", ""

    def is_open(self) -> bool:
        return bool(self.says)

    def write_stdin(self, text: str) -> None:
        self.wrote += text

    def update(self, timeout: float) -> None:
        self.heard += self.says.pop(0) if self.says else ""

    def peek_stdout(self) -> str:
        return self.heard

    def read_stdout(self) -> str:
        said, self.heard = self.heard, ""
        return said


def test_an_answer_is_what_comes_before_the_mark() -> None:
    shell = ExecShell(Channel("a\nb", f"c\n{MARK}", f"\nd\n{MARK}\n", "more"))
    shell.send("cat x")
    assert shell.answer(1) == "a\nbc\n"
    assert shell.answer(1) == "d\n"


def test_a_shell_that_ends_in_the_middle_of_an_answer_is_lost() -> None:
    channel = Channel("half")
    shell = ExecShell(channel)
    with pytest.raises(ShellLost):
        shell.answer(1)
    assert shell.ended(1)
    with pytest.raises(ShellLost):
        shell.send("echo")


class Slow(Channel):
    """It is open until it is closed."""

    closed = False
    sock = Object(shutdown=lambda: None)

    def is_open(self) -> bool:
        return not self.closed

    def close(self, timeout: float) -> None:
        self.closed = True


def test_a_shell_that_did_not_answer_in_time_answers_nothing_any_more() -> None:
    """What it says too late would pass for the answer to the next question."""
    channel = Slow()
    shell = ExecShell(channel)
    shell.send("nft delete table")
    with pytest.raises(ShellLost, match="no answer within 0 s"):
        shell.answer(0)
    channel.says.append(f"{MARK}\n")
    with pytest.raises(ShellLost):
        shell.send("nft list tables")


def test_the_site_follows_from_what_is_known_of_the_brokers() -> None:
    stranger = Broker(id="0", client_port=PORT)
    with sites.connect(endpoints().model_copy(update={"brokers": [stranger]})) as site:
        assert site.exits() == 0
        with pytest.raises(PlatformError, match="got a system that is not ours to touch"):
            site.victim("0")
    with pytest.raises(PlatformError, match="from a pod that has a service account"):
        sites.connect(endpoints())
