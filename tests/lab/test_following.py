"""What `dedup results --follow` shows of an experiment on its way, and when it ends."""

import io
from collections.abc import Iterator, Sequence
from typing import Any, Final

import pytest
from rich.console import Console
from tests.operator.gates import GENERATION, STATUSES, TASKS, at, resource

from dedup.errors import DedupError
from dedup_lab.cluster.access import Answered, Unanswered
from dedup_lab.cluster.following import ASK_AGAIN_S, SILENCE_S, follow, seen_of
from dedup_lab.cluster.resources import results
from dedup_operator.statuses import Status

NAME: Final = "e"
PATH: Final = "/apis/dedup.dev/v1alpha1/namespaces/lab/dedupexperiments/e"
GONE: Final = Unanswered(where="https://lab", got="no route", rule="the API server must answer", todo="check")
Answer = Status | Exception | None


class FakeCluster:
    """A cluster whose experiment has these statuses, one after the other; the last one stays."""

    namespace = "lab"

    def __init__(self, answers: Sequence[Answer], generation: int = GENERATION) -> None:
        self._answers, self._generation = list(answers), generation
        self.now_s, self.asked = 0.0, 0

    def get(self, path: str, **query: str) -> dict[str, Any]:
        assert path == PATH
        self.asked += 1
        answer = self._answers.pop(0) if len(self._answers) > 1 else self._answers[0]
        if isinstance(answer, Exception):
            raise answer
        made = resource(answer, self._generation)
        made["metadata"] |= {"name": NAME, "namespace": "lab"}
        return made

    def lines(self, path: str, **query: str) -> Iterator[str]:
        raise AssertionError("nobody asked for a log")

    def wait(self, seconds: float) -> None:
        self.now_s += seconds


def followed(*answers: Answer, width: int = 120, terminal: bool = False) -> list[str]:
    cluster, said = FakeCluster(answers), io.StringIO()
    console = Console(file=said, width=width, force_terminal=terminal, color_system=None)
    follow(cluster, NAME, console, lambda: cluster.now_s, cluster.wait)
    return said.getvalue().splitlines()


def test_each_change_is_a_line_and_the_end_is_the_last() -> None:
    lines = followed(None, at(0), at(0), at(len(TASKS) - 1), STATUSES["Fail"])
    assert [line.split("s  ")[0].strip() for line in lines] == ["0.0", "2.0", "6.0", "8.0"]
    assert "the operator has not seen it yet" in lines[0]
    assert "0/" in lines[1]
    assert "Finished" in lines[-1]


def test_what_is_over_already_is_shown_once() -> None:
    assert len(followed(STATUSES["Pass"])) == 1


def test_an_end_that_is_about_an_older_resource_is_not_waited_out_as_its_own() -> None:
    """A new runToken was given, and the operator has not seen it: the verdict there is the last execution's."""
    newer = seen_of(FakeCluster([STATUSES["Pass"]], generation=GENERATION + 1).get(PATH))
    assert not newer.over
    assert "has not seen the newest spec" in newer.words
    assert seen_of(FakeCluster([STATUSES["Pass"]]).get(PATH)).over


def test_a_stalled_experiment_says_why_and_is_followed_until_it_goes_on() -> None:
    lines = followed(STATUSES["none, and none can come"], STATUSES["Pass"])
    assert "the Secret is not there" in lines[0]
    assert len(lines) == 2


def test_an_api_server_that_is_away_for_a_while_is_asked_again() -> None:
    lines = followed(at(0), GONE, GONE, Answered(503, "busy"), STATUSES["Pass"])
    assert sum("asked again" in line for line in lines) == 1
    assert "Finished" in lines[-1]


def test_an_api_server_that_stays_away_ends_it_in_its_words() -> None:
    cluster = FakeCluster([at(0), GONE])
    with pytest.raises(DedupError, match="no route"):
        follow(cluster, NAME, Console(file=io.StringIO()), lambda: cluster.now_s, cluster.wait)
    assert SILENCE_S < cluster.now_s <= SILENCE_S + 2 * ASK_AGAIN_S


@pytest.mark.parametrize("answer", [GONE, Answered(404, 'dedupexperiments "e" not found'), Answered(403, "forbidden")])
def test_a_first_request_that_fails_is_not_repeated(answer: Exception) -> None:
    cluster = FakeCluster([answer])
    with pytest.raises(DedupError):
        follow(cluster, NAME, Console(file=io.StringIO()), lambda: cluster.now_s, cluster.wait)
    assert cluster.asked == 1


def test_an_experiment_that_is_deleted_meanwhile_is_said() -> None:
    with pytest.raises(DedupError, match="not found"):
        followed(at(0), Answered(404, 'dedupexperiments "e" not found'))


@pytest.mark.parametrize("width", [80, 200])
def test_at_a_terminal_a_bar_shows_how_many_runs_are_finished(width: int) -> None:
    shown = "\n".join(followed(at(0), at(len(TASKS) - 1), STATUSES["Pass"], width=width, terminal=True))
    runs = seen_of(FakeCluster([at(0)]).get(PATH)).runs[1]
    assert runs > 0
    assert f"{runs}/{runs} runs" in shown


def test_the_result_is_printed_when_the_end_is_there() -> None:
    cluster, said = FakeCluster([at(0), STATUSES["Fail"]]), io.StringIO()
    console = Console(file=said, width=120)

    def wait(asked: Any, name: str) -> None:
        follow(asked, name, console, lambda: cluster.now_s, cluster.wait)

    assert results(cluster, NAME, as_json=False, output=None, histories=False, console=console, follow=wait) == 1
    *progress, _ = said.getvalue().split("verdict: fail")
    assert progress[0].count("Finished") == 1
