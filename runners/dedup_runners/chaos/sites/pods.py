"""Brokers as containers of pods, which the kubelet starts again.

A kill writes into the chart's hold folder until when the broker is to stay down, and sends SIGKILL to the process named
there (docs/charts.md): all of it one line to a shell kept open in the container, and nothing of it needs us afterwards.
That it was killed is the kubelet's word: this very container ended with 137. That it is back is the start script's: a
later container has removed the hold and written its process.

The clients' connections are those that come from this pod's own addresses, for clients are containers of the same pod.
Only pods that consent by label are ever entered. Before each strike the API server is asked anew for that very pod:
what was seen of it before may be over. A pod that has been a victim may be entered again, whatever its owner says by
then: to heal it, and to prove that.
"""

import math
import os
import time
from collections.abc import Iterable
from pathlib import Path
from typing import Any, Final, Self

import psutil
from kubernetes.client import ApiClient
from kubernetes.config import load_incluster_config
from kubernetes.config.incluster_config import SERVICE_TOKEN_FILENAME

from dedup.errors import PlatformError
from dedup.experiment.consents import may_strike
from dedup.experiment.endpoints import BrokerPod, Endpoints
from dedup_runners.chaos import sockets
from dedup_runners.chaos.containers import ApiContainers, Containers, Seen, Shell, ShellLost
from dedup_runners.chaos.sites.protocol import Death, Victim
from dedup_runners.chaos.sockets import Connection
from dedup_runners.closing import Closing

ANSWER_S: Final = 5.0
OPEN_S: Final = 60.0
"""Before a fault; a shell that is lost in the midst of one has to answer sooner."""
FIRST_SIGN_S: Final = 10.0
REOPEN_S: Final = 1.0
WHOLE: Final = "whole\n"
TABLES: Final = "cat /proc/net/tcp && { [ ! -e /proc/net/tcp6 ] || cat /proc/net/tcp6; } && echo whole"
"""A container in which no process can be started any more shows no table, which is not an empty one."""
UNDONE: Final = "nothing was done"


class Pods(Closing):
    """The `Site` of a system in a cluster (protocol.py). `addresses` are this pod's own."""

    restart_grace_s = 330.0
    """A kubelet waits up to five minutes before it starts a container that ends again and again."""

    def __init__(self, endpoints: Endpoints, containers: Containers, addresses: Iterable[str] | None = None) -> None:
        self._brokers = {broker.id: broker for broker in endpoints.brokers}
        self._containers = containers
        self._addresses = set(own_addresses() if addresses is None else addresses)
        self._shells: dict[str, Shell] = {}
        self._entered: dict[str, str] = {}
        """The identity of the pod in which the shell was opened."""
        self._struck: dict[str, str] = {}
        """The identity of the pod that was a victim last."""
        self._seen: dict[str, Seen] = {}
        self._lost_at: dict[str, float] = {}
        self._listeners: dict[str, tuple[str, str]] = {}
        """Of brokers without a hold: the life for which it was found, and the process that listens."""
        self._exits_of_gone_pods = 0

    @classmethod
    def of_this_cluster(cls, endpoints: Endpoints) -> Self:
        """The site as a pod of the same cluster sees it, by its service account."""
        if not Path(SERVICE_TOKEN_FILENAME).is_file():
            raise PlatformError(
                where="brokers in pods",
                got=f"no token at {SERVICE_TOKEN_FILENAME}",
                rule="they are reached through the API server, from a pod that has a service account",
                todo="run it in a pod that mounts one",
            )
        load_incluster_config()
        return cls(endpoints, ApiContainers(ApiClient()))

    def warm_up(self) -> None:
        """Open a shell in every broker that consents, and have each answer."""
        for name in self._brokers:
            if self._look(name).consents and name not in self._shells:
                self._open(name)

    def connections(self) -> dict[str, set[Connection]]:
        return self._connections(sockets.ESTABLISHED)

    def idle(self) -> bool:
        """Where a broker cannot be looked into, our end has to tell that it has closed; else it tells that itself.

        For our end alone would take the connections to a pod that is gone, which nobody closes any more, for minutes.
        This very process asks brokers, too, and of a system that is there already at the clients' port: its own
        connections count at neither end.
        """
        ports = {broker.client_port for broker in self._brokers.values()}
        consenting = {name for name in self._brokers if (self._seen.get(name) or self._look(name)).consents}
        states = sockets.ESTABLISHED if consenting == self._brokers.keys() else sockets.AT_CLIENT
        if any(each.there[1] in ports for each in sockets.mine(os.getpid(), states)):
            return False
        found = self._connections(sockets.AT_BROKER)
        return found.keys() == consenting and {each.there for held in found.values() for each in held} <= _asking()

    def victim(self, broker: str) -> Victim:
        pod, seen = self._pod(broker), self._look(broker)
        may_strike(pod, seen.found)
        if broker in self._shells and self._entered[broker] != seen.uid:
            self._lose(broker)  # a shell in a pod that another one has replaced
        elif broker in self._shells:
            self._ask_all("true", [broker])
        if broker not in self._shells:
            self._lost_at.pop(broker, None)  # what ended since we looked is not killed again
        if broker not in self._shells and not self._reopen(broker):
            raise _refusal(pod, "no running container", "only a living broker is killed", "read its log")
        may_strike(pod, self._seen[broker].found)
        self._struck[broker] = self._entered[broker]
        life = self._seen[broker].life
        if pod.hold is None:
            self._listeners.pop(broker, None)  # in one life of a container the broker may be another process by now
            self._found(broker)
        return Victim(broker, life, {"pod": pod.name, "container": life})

    def kill(self, victim: Victim, down_s: float, *, clean: bool = False) -> None:
        pod = self._pod(victim.broker)
        if pod.hold is None and down_s:
            rule = "without a hold the kubelet starts it again at once"
            raise _refusal(pod, f"no folder for the hold of {down_s:g} s", rule, "write restartAfter: 0s, or name one")
        hold_s = math.ceil(down_s) + 1  # the second that has begun does not count
        held = "" if pod.hold is None else f" && echo $(($(date +%s) + {hold_s})) >{pod.hold}/until"
        named = self._named(victim.broker)
        self._last_look(victim.broker)
        shell = self._shells.pop(victim.broker)
        struck = f'{named}{held} && kill -{15 if clean else 9} "$process" || echo "{UNDONE}"'
        try:
            shell.send(struck)
        except ShellLost:
            shell.close()
            rule = "a kill is sent to a shell that answered just now"
            raise _refusal(pod, "a shell that is gone", rule, "read its log: the broker ended by itself") from None
        try:
            said = "" if shell.ended(FIRST_SIGN_S) else shell.answer(ANSWER_S)
        except ShellLost:
            return  # whether by our signal or for another reason, the kubelet will tell
        finally:
            shell.close()
        if UNDONE in said:
            rule, where = "a broker of our charts names its process there", f"in {pod.hold}/pid"
            if pod.hold is None:
                rule, where = "the process that listens at the broker's port is killed", "that listens there"
            raise _refusal(pod, f"no process {where} that could be killed", rule, "read its log")

    def _last_look(self, broker: str) -> None:
        """PlatformError unless a pod of others may be struck now: nothing but the signal comes after it."""
        pod = self._pod(broker)
        if pod.uid is None:
            return
        seen = self._look(broker)
        may_strike(pod, seen.found)
        if seen.uid != self._struck.get(broker):
            rule = "the pod is struck that was entered for it"
            raise _refusal(pod, "another pod than the one that was entered", rule, "see who replaces it")

    def death(self, victim: Victim) -> Death | None:
        seen = self._look(victim.broker)
        code = seen.ends.get(victim.life)
        return None if code is None else Death(code, {**victim.about, "restarts": seen.restarts})

    def restarted(self, victim: Victim) -> dict[str, Any] | None:
        seen, hold = self._look(victim.broker), self._pod(victim.broker).hold
        if not seen.running or seen.life == victim.life:
            return None
        if victim.broker not in self._shells and not self._reopen(victim.broker):
            return None
        command = f"[ ! -e {hold}/until ] && cat {hold}/pid 2>/dev/null"
        if hold is None:
            command = listener(self._brokers[victim.broker].client_port)
        pid = self._ask_all(command, [victim.broker]).get(victim.broker, "").strip()
        return {"container": seen.life, "pid": int(pid)} if pid.isdigit() else None

    def run(self, victim: Victim, script: str, *, strikes: bool = False) -> str:
        pod, named = self._pod(victim.broker), self._named(victim.broker)
        if strikes:
            self._last_look(victim.broker)
        said = self._ask_all(f"{named} && {{ {script}; }}", [victim.broker])
        if victim.broker not in said:
            raise _refusal(pod, "no answer", "a shell in it answers", "read its log")
        return said[victim.broker]

    def _named(self, broker: str) -> str:
        """Shell that sets `$process`: what its start wrote beside the hold, or else who listened when it was found."""
        hold = self._pod(broker).hold
        return f"process={self._found(broker)}" if hold is None else f"read -r process <{hold}/pid"

    def _found(self, broker: str) -> str:
        """The process of the broker's present life that listens at its clients' port, by the kernel's table."""
        life, port = self._seen[broker].life, self._brokers[broker].client_port
        if self._listeners.get(broker, ("", ""))[0] != life:
            said = self._ask_all(listener(port), [broker]).get(broker, "").split()
            if len(said) != 1 or said == ["1"]:
                got = "process 1 of its container" if said == ["1"] else f"{len(said)} processes"
                rule = f"one process but the first listens at port {port}; signals from inside do not reach the first"
                todo = "use podDelete, or have its owner start it below an init (tini), or name a hold"
                raise _refusal(self._pod(broker), got, rule, todo)
            self._listeners[broker] = (life, said[0])
        return self._listeners[broker][1]

    def exits(self) -> int:
        now = [self._look(name) for name in self._brokers]
        still_down = sum(1 for seen in now if seen.life in seen.ends)
        return self._exits_of_gone_pods + sum(seen.restarts for seen in now) + still_down

    def close(self) -> None:
        for shell in self._shells.values():
            shell.close()
        self._shells.clear()

    def _pod(self, broker: str) -> BrokerPod:
        pod = self._brokers[broker].pod
        assert pod is not None
        return pod

    def _look(self, broker: str) -> Seen:
        """Ask the API server; a pod that has taken another's place means that the other's container ended, too."""
        now, before = self._containers.look(self._pod(broker)), self._seen.get(broker)
        if before is not None and before.uid != now.uid:
            self._exits_of_gone_pods += before.restarts + 1
        self._seen[broker] = now
        return now

    def _open(self, broker: str, within_s: float = OPEN_S) -> None:
        shell = self._containers.shell(self._pod(broker))
        try:
            shell.send("echo ready")
            shell.answer(within_s)
        except ShellLost as error:
            shell.close()
            raise _refusal(self._pod(broker), str(error) or "an end", "a shell in it answers", "read its log") from None
        self._shells[broker], self._entered[broker] = shell, self._seen[broker].uid

    def _reopen(self, broker: str) -> bool:
        """Whether there is a shell again, in whatever life the broker has now; tried once a second."""
        if time.monotonic() < self._lost_at.get(broker, 0.0) + REOPEN_S:
            return False
        self._lost_at[broker] = time.monotonic()
        try:
            seen = self._look(broker)
            if not seen.running or not (seen.consents or self._struck.get(broker) == seen.uid):
                return False
            self._open(broker, ANSWER_S)
        except PlatformError:
            return False
        return True

    def _ask_all(self, command: str, brokers: Iterable[str] | None = None) -> dict[str, str]:
        """Each shell's answer, all asked at once; without those that are lost, which are opened again by and by."""
        wanted = [name for name in (brokers or self._brokers) if self._has_shell(name)]
        asked, answers = [name for name in wanted if self._sent(name, command)], {}
        for name in asked:
            try:
                answers[name] = self._shells[name].answer(ANSWER_S)
            except ShellLost:
                self._lose(name)
        return answers

    def _has_shell(self, broker: str) -> bool:
        return broker in self._shells or (broker in self._seen and self._reopen(broker))

    def _sent(self, broker: str, command: str) -> bool:
        try:
            self._shells[broker].send(command)
        except ShellLost:
            self._lose(broker)
            return False
        return True

    def _lose(self, broker: str) -> None:
        self._shells.pop(broker).close()
        self._lost_at[broker] = time.monotonic()

    def _connections(self, states: frozenset[str]) -> dict[str, set[Connection]]:
        said = self._ask_all(TABLES)
        return {name: self._clients(name, rows, states) for name, rows in said.items() if rows.endswith(WHOLE)}

    def _clients(self, broker: str, rows: str, states: frozenset[str]) -> set[Connection]:
        port = self._brokers[broker].client_port
        found = sockets.connections(rows.splitlines(), states)
        return {each for each, _ in found if each.here[1] == port and each.there[0] in self._addresses}


def listener(port: int) -> str:
    """Shell that prints every process of the container that holds a socket listening at that port."""
    return (
        "for inode in $(cat /proc/net/tcp /proc/net/tcp6 2>/dev/null |"
        " while read -r _ here _ state _ _ _ _ _ inode _; do"
        f' case "$here $state" in (*:{port:04X}" 0A") echo "$inode" ;; esac; done); do for each in /proc/[0-9]*; do'
        ' case "$(ls -l "$each/fd" 2>/dev/null)" in (*"socket:[$inode]"*) echo "${each#/proc/}" ;; esac; done; done'
        " | sort -u"
    )


def _asking() -> set[tuple[str, int]]:
    """Our ends of the connections that this process holds; a port that another of this pod has, too, is not ours."""
    own, others = (look(os.getpid(), sockets.AT_CLIENT) for look in (sockets.of, sockets.mine))
    return {each.here for each in own} - {each.here for each in others}


def own_addresses() -> set[str]:
    """The addresses of this pod, by which brokers see it."""
    found = {each.address.partition("%")[0] for card in psutil.net_if_addrs().values() for each in card}
    return found - {"127.0.0.1", "::1"}


def _refusal(pod: BrokerPod, got: str, rule: str, todo: str) -> PlatformError:
    return PlatformError(where=f"pod {pod.namespace}/{pod.name}", got=got, rule=rule, todo=todo)
