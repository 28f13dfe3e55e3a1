"""Interactive commands in pods: kubectl's exec, kept open.

A kill must happen within milliseconds of the producer's push, or all messages are sent by then. So the shells in the
brokers' containers are opened before anything is sent, and the kill is one line written to one of them.
"""

import json
import queue
import subprocess
import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Final, NamedTuple

from dedup.errors import PlatformError
from dedup_runners.waiting import too_long
from testbed.cluster import binaries
from testbed.cluster.binaries import KUBECTL

END_S: Final = 30.0


class Pod(NamedTuple):
    """A container of a pod, as kubectl names it. `cache` is a folder for what kubectl learns of this cluster."""

    kubeconfig: Path
    cache: Path
    namespace: str
    name: str
    container: str

    def command(self, *program: str) -> list[str]:
        """kubectl's command line that runs a program in it, with our standard input."""
        where = ["--kubeconfig", self.kubeconfig, "--cache-dir", self.cache, "--namespace", self.namespace]
        return [
            *map(str, [binaries.find(KUBECTL), *where]),
            "exec",
            "--stdin",
            self.name,
            "--container",
            self.container,
            "--",
            *program,
        ]

    def run(self, program: Sequence[str], *, text: str = "", timeout_s: float) -> bytes:
        """Run a program to its end; its standard output. PlatformError when it fails, with its last words."""
        done = subprocess.run(
            self.command(*program), input=text.encode(), capture_output=True, timeout=timeout_s, check=False
        )
        if done.returncode != 0:
            raise self.failed(program, done.returncode, done.stderr.decode(errors="replace"))
        return done.stdout

    def failed(self, program: Sequence[str], code: int, said: str) -> PlatformError:
        """The error of a program that ended otherwise than it should."""
        return PlatformError(
            where=f"{' '.join(program[:3])} in pod {self.name}",
            got=f"exit code {code}: {said.strip()[-400:] or '(it said nothing)'}",
            rule="it must succeed",
            todo="look at the pod while it is there (--keep)",
        )


class Session:
    """A program that keeps running in a pod: lines go in, lines come out."""

    def __init__(self, pod: Pod, *program: str) -> None:
        self._pod, self._program = pod, program
        self._process = subprocess.Popen(
            pod.command(*program), stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
        )
        self._said: queue.SimpleQueue[str] = queue.SimpleQueue()
        self._complaints: list[str] = []
        self._readers = [threading.Thread(target=read, daemon=True) for read in (self._listen, self._collect)]
        for reader in self._readers:
            reader.start()

    def send(self, line: str) -> None:
        """One line to its standard input."""
        assert self._process.stdin is not None
        self._process.stdin.write(line + "\n")
        self._process.stdin.flush()

    def end_input(self) -> None:
        """Close its standard input."""
        assert self._process.stdin is not None
        self._process.stdin.close()

    def succeed(self, timeout_s: float) -> None:
        """Wait for its end; PlatformError unless it is exit code 0."""
        try:
            code = self._process.wait(timeout_s)
        except subprocess.TimeoutExpired:
            raise too_long(f"the end of {' '.join(self._program)}", timeout_s) from None
        if code != 0:
            raise self._pod.failed(self._program, code, self._complained())

    def line(self, timeout_s: float) -> str:
        """The next line of its standard output; PlatformError when there is none within the time or any more."""
        try:
            line = self._said.get(timeout=timeout_s)
        except queue.Empty:
            raise too_long(f"an answer of {self._program[0]} in pod {self._pod.name}", timeout_s) from None
        if line:
            return line
        raise self._pod.failed(self._program, self._process.wait(END_S), self._complained())

    def ask(self, what: str, wait_s: float = 60.0, **arguments: Any) -> dict[str, Any]:
        """A question to the agent (agent.py) and its answer; PlatformError in its words when it could not."""
        self.send(json.dumps({"ask": what, **arguments}))
        answer: dict[str, Any] = json.loads(self.line(wait_s))
        if error := answer.get("error"):
            raise PlatformError(
                where=f"{what} in pod {self._pod.name}",
                got=error,
                rule="it must succeed",
                todo="look at the brokers' logs",
            )
        return answer

    def close(self) -> None:
        """End it: by the end of its input, or else by ending kubectl."""
        assert self._process.stdin is not None
        try:
            self._process.stdin.close()
            self._process.wait(END_S)
        except (BrokenPipeError, subprocess.TimeoutExpired):
            self._process.kill()
            self._process.wait()
        for reader in self._readers:
            reader.join(END_S)

    def _complained(self) -> str:
        self._readers[1].join(END_S)
        return "".join(self._complaints)

    def _listen(self) -> None:
        assert self._process.stdout is not None
        with self._process.stdout as stream:
            for line in stream:
                self._said.put(line)
        self._said.put("")

    def _collect(self) -> None:
        assert self._process.stderr is not None
        with self._process.stderr as stream:
            self._complaints.extend(stream)


@contextmanager
def shells(pods: dict[str, Pod]) -> Iterator[dict[str, Session]]:
    """A shell in each pod; each has answered once."""
    opened = {name: Session(pod, "sh") for name, pod in pods.items()}
    try:
        for shell in opened.values():
            shell.send("echo ready")
            shell.line(END_S)
        yield opened
    finally:
        for shell in opened.values():
            shell.close()
