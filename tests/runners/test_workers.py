"""The process of a function worker, under a keeper and in a pod (behind a fake of the one door to it): its lives."""

import base64
import hmac
import json
import stat
import sys
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

import pytest

from dedup.errors import PlatformError
from dedup.experiment.endpoints import Broker, BrokerPod, Endpoints, Worker
from dedup.faults.kill import KILLED
from dedup_lab.systems.keepers import Kept, Program
from dedup_runners import tokens
from dedup_runners.chaos import sites
from dedup_runners.chaos.containers import Seen
from dedup_runners.chaos.sites import pods
from dedup_runners.chaos.sites.pods import Pods
from dedup_runners.workloads import workers
from dedup_runners.workloads.workers import Keeping

NOWHERE: Final = Endpoints(system="pulsar", client_bootstrap="-", direct_bootstrap="-", brokers=[])
POD: Final = BrokerPod(namespace="lab", name="w-0", container="functions", hold="/hold")
SLEEPS: Final = "import time; time.sleep(60)"


def worker(process: Broker, token: str, life: str | None) -> Worker:
    return Worker(
        url="http://w:1",
        token_file=token,
        version="4.2.4",
        package="file:///f.jar",
        function="F",
        process=process,
        life_file=life,
    )


@pytest.fixture
def kept(tmp_path: Path) -> Iterator[Kept]:
    (keepers := tmp_path / "keepers").mkdir()
    kept = Kept(Program("worker", [sys.executable, "-c", SLEEPS], tmp_path / "log", tmp_path, {}), keepers)
    kept.wait_started()
    yield kept
    kept.close()
    kept.wait_closed()


def test_under_a_keeper_a_life_has_the_number_of_its_process(kept: Kept, tmp_path: Path) -> None:
    (tmp_path / "the token").write_text("t0ken\n")
    process = Broker(id="w", client_port=1, status_file=kept.status_file, hold_file=kept.hold_file)
    with Keeping(worker(process, str(tmp_path / "the token"), None), NOWHERE) as keeping:
        first = keeping.now()
        status = kept.status()
        assert status is not None and first.number == status.pid and keeping.token(first) == "t0ken"
        assert keeping.is_at_work(first)
        keeping.kill(first, 0.2)
        assert keeping.code_of(first) == KILLED
        second = keeping.after(first, 0.2)
        assert second.number != first.number and keeping.is_at_work(second) and not keeping.is_at_work(first)
        with pytest.raises(PlatformError, match="it lives until it is killed"):
            keeping.kill(first, 0.2)


@dataclass
class Container:
    """The worker's, whose process is 7 in each life; `life` is what its start has written down."""

    life: str = "1790000000"
    restarts: int = 0
    told: list[str] = field(default_factory=list)

    @property
    def seen(self) -> Seen:
        now, before = f"life-{self.restarts}", f"life-{self.restarts - 1}"
        ends = {before: KILLED} if self.restarts else {}
        return Seen(uid="u", consents=True, life=now, running=True, restarts=self.restarts, ends=ends)

    def look(self, pod: BrokerPod) -> Seen:
        return self.seen

    def shell(self, pod: BrokerPod) -> "Container":
        return self

    def send(self, line: str) -> None:
        self.told.append(line)

    def answer(self, timeout_s: float) -> str:
        asked = self.told[-1]
        known = {"/hold/life": f"{self.life}\n", "/tools/token": "t0ken\n", "/hold/pid 2": "7\n"}
        return next((said for file, said in known.items() if file in asked), "ready\n")

    def ended(self, timeout_s: float) -> bool:
        self.restarts, self.life = self.restarts + 1, str(int(self.life) + 30) if self.life else ""
        return True

    def close(self) -> None: ...


@pytest.fixture
def container(monkeypatch: pytest.MonkeyPatch) -> Container:
    made = Container()
    monkeypatch.setattr(sites, "connect", lambda endpoints: Pods(endpoints, made, ["10.0.0.9"]))
    monkeypatch.setattr(workers, "ALIVE_S", 0.2)
    return made


IN_A_POD: Final = worker(Broker(id="w-0", client_port=6750, pod=POD), "/tools/token", "/hold/life")


def test_in_a_pod_a_life_has_the_number_that_its_start_has_written_down(container: Container) -> None:
    with Keeping(IN_A_POD, NOWHERE) as keeping:
        first = keeping.now()
        assert (first.number, keeping.token(first)) == (1790000000, "t0ken")
        keeping.kill(first, 2.0)
        struck = container.told[-1]
        assert "kill -9" in struck and "/hold/until" in struck and pods.UNDONE in struck
        assert keeping.code_of(first) == KILLED
        second = keeping.after(first, 2.0)
        assert second.number == 1790000030 and not keeping.is_at_work(first)


@pytest.mark.parametrize("said", ["", "soon"])
def test_one_without_a_number_is_refused_in_words(container: Container, said: str) -> None:
    container.life = said
    with Keeping(IN_A_POD, NOWHERE) as keeping, pytest.raises(PlatformError, match="each life of it has a number"):
        keeping.now()


def test_a_token_is_signed_with_its_key_and_both_are_their_owners_alone(tmp_path: Path) -> None:
    tokens.make(tmp_path)
    key, token = (tmp_path / tokens.KEY).read_bytes(), (tmp_path / tokens.TOKEN).read_text()
    said, _, signature = token.rpartition(".")
    signed = base64.urlsafe_b64encode(hmac.digest(key, said.encode(), "sha256")).rstrip(b"=").decode()
    header, _, claims = said.partition(".")
    assert signature == signed
    assert [json.loads(base64.urlsafe_b64decode(f"{each}==")) for each in (header, claims)] == [
        {"alg": "HS256"},
        {"sub": "dedup"},
    ]
    assert {stat.S_IMODE((tmp_path / name).stat().st_mode) for name in (tokens.KEY, tokens.TOKEN)} == {0o600}
    tokens.make(tmp_path)
    assert (tmp_path / tokens.TOKEN).read_text() == token, "an init container that runs again changes nothing"
