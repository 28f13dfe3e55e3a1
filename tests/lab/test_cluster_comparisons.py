"""What `dedup results` says of a DedupComparison: on its way, at its end, and where its table is not what it was."""

import io
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final, cast

import pytest
from rich.console import Console
from tests.lab.api_servers import kubeconfig, refusal, serving
from tests.lab.harness import dedup
from tests.operator.comparing import World
from typer import BadParameter

from dedup.errors import DedupError, SpecificationError
from dedup_lab.cluster.access import Answered, Cluster, Object, comparison_of
from dedup_lab.cluster.comparisons import is_comparison, result_of, results
from dedup_lab.cluster.following import follow
from dedup_lab.commands.options import Shown
from dedup_lab.commands.results import there

COMPARISON: Final = "/apis/dedup.dev/v1alpha1/namespaces/lab/dedupcomparisons/c"
EXPERIMENT: Final = "/apis/dedup.dev/v1alpha1/namespaces/lab/dedupexperiments/c"
HOME: Final = "/api/v1/namespaces/lab/configmaps/c-comparison"
MISSING: Final = Answered(404, '"c" not found')


class Said:
    """A cluster that answers these paths; all else is not there."""

    namespace = "lab"

    def __init__(self, answers: dict[str, Any]) -> None:
        self.answers = answers

    def get(self, path: str, **query: str) -> Object:
        said = self.answers.get(path, MISSING)
        if isinstance(said, Exception):
            raise said
        return dict(said)

    def lines(self, path: str, **query: str) -> Iterator[str]:
        raise AssertionError("nobody asked for a log")


def hub(world: World) -> Said:
    """The hub of a world, as this command sees it."""
    found: dict[str, Any] = {COMPARISON: world.live}
    if home := world.hub.get("ConfigMap", "lab", "c-comparison"):
        found[HOME] = home
    return Said(found)


@pytest.fixture(scope="module")
def ended() -> Said:
    world = World()
    world.run()
    return hub(world)


def asked(cluster: Cluster, shown: str = "text", **more: Any) -> tuple[int, str]:
    said = io.StringIO()
    code = results(cluster, "c", shown=shown, output=None, console=Console(file=said, width=160), **more)
    return code, said.getvalue()


def test_the_table_the_clusters_and_the_outcome_are_shown(ended: Said) -> None:
    code, said = asked(ended)
    assert code == 0
    assert "effective runs" in said and "6 of 6" in said
    assert "│ edge    │ Finished │" in said
    assert "outcome: NothingWorse (3/3 clusters)" in said
    assert "nothing is worse than in here that this comparison can show" in said


def test_a_comparison_has_no_page(ended: Said) -> None:
    with pytest.raises(BadParameter, match="a comparison has no page"):
        there(cast(Any, ended), "c", Shown.TEXT, None, False, False, True)


def test_markdown_is_the_hubs_own(ended: Said) -> None:
    code, said = asked(ended, "markdown")
    assert code == 0
    assert said.startswith(ended.answers[HOME]["data"]["comparison.md"].rstrip())


def test_programs_get_the_status_and_the_comparison(ended: Said, capsys: pytest.CaptureFixture[str]) -> None:
    asked(ended, "json")
    said = json.loads(capsys.readouterr().out)
    assert said["comparison"] == json.loads(ended.answers[HOME]["data"]["comparison.json"])
    assert [each["name"] for each in said["clusters"]] == ["here", "cloud", "edge"]
    assert said["outcome"] == "NothingWorse"


def test_the_exit_code_is_the_outcomes() -> None:
    world = World(failed={"cloud": 6})
    world.run()
    code, said = asked(hub(world))
    assert code == 1
    assert "outcome: Worse" in said and "cloud dedup: fail, and pass in here" in said


def test_before_the_end_there_is_no_outcome_and_no_table() -> None:
    world = World(stopped=True)
    world.run(until=lambda status: all(world.experiments(name) for name in world.clusters))
    code, said = asked(hub(world))
    assert code == 3
    assert "outcome: none yet (0/3 clusters)" in said
    assert "effective runs" not in said


def test_a_stalled_one_says_what_people_have_to_correct() -> None:
    world = World(stopped=True)
    world.secret("cloud", "no kubeconfig", label="false")
    world.look(), world.look()
    code, said = asked(hub(world))
    assert code == 4
    assert "cloud: " in said


def test_one_that_nobody_has_looked_at() -> None:
    assert asked(hub(World())) == (3, "outcome: none yet (the operator has not seen it yet)\n")


@pytest.mark.parametrize(
    ("answer", "words"),
    [
        (MISSING, r"ConfigMap lab/c-comparison: got .*not found"),
        ({"data": {"comparison.json": "{"}}, "got no comparison.json that this dedup can read"),
        ({"data": {}}, "got no comparison.json"),
        ({}, "got no comparison.json"),
        (Answered(403, "forbidden"), "you need the right to read configmaps"),
    ],
)
def test_a_table_that_is_not_what_it_was_is_one_line(ended: Said, answer: Any, words: str) -> None:
    with pytest.raises(DedupError, match=words) as error:
        asked(Said({**ended.answers, HOME: answer}))
    assert "\n" not in str(error.value)


def test_text_of_others_is_shown_as_text(ended: Said) -> None:
    made = json.loads(json.dumps(ended.answers[COMPARISON]))
    made["status"]["clusters"][0]["experiment"] = "[red]x\x1b[2J"
    assert "[red]x" in asked(Said({**ended.answers, COMPARISON: made}))[1]


def test_artifacts_are_not_fetched_from_a_hub(ended: Said, tmp_path: Path) -> None:
    with pytest.raises(SpecificationError, match="histories stay in the store of each cluster"):
        results(ended, "c", shown="text", output=tmp_path / "new", console=Console(file=io.StringIO()))


def test_an_experiment_of_that_name_comes_first(ended: Said) -> None:
    assert is_comparison(ended, "c")
    assert not is_comparison(Said({**ended.answers, EXPERIMENT: {}}), "c")
    assert not is_comparison(Said({}), "c")
    assert not is_comparison(Said({COMPARISON: Answered(403, "forbidden")}), "c")


def test_it_is_followed_until_its_outcome() -> None:
    world, said = World(), io.StringIO()
    console = Console(file=said, width=160)

    def wait(_seconds: float) -> None:
        world.look()
        world.carry_out()

    code = results(
        Growing(world),
        "c",
        shown="text",
        output=None,
        console=console,
        follow=lambda cluster, name: follow(cluster, name, console, lambda: world.now_s, wait, comparison_of),
    )
    lines = [line for line in said.getvalue().splitlines() if "clusters" in line and "outcome:" not in line]
    assert code == 0
    assert "0/3 clusters" in lines[0] and "here Waiting" in said.getvalue()
    assert "NothingWorse  3/3 clusters" in lines[-1]


class Growing(Said):
    """The hub of a world, as it is now."""

    def __init__(self, world: World) -> None:
        super().__init__({})
        self._world = world

    def get(self, path: str, **query: str) -> Object:
        self.answers = hub(self._world).answers
        return super().get(path, **query)


def test_a_result_says_what_the_status_says() -> None:
    assert result_of({"metadata": {"name": "c", "namespace": "lab"}})["outcome"] is None


@pytest.mark.long
def test_the_command_finds_it_by_context_and_says_what_is_neither(ended: Said, tmp_path: Path) -> None:
    missing = refusal(404, "not found")
    answers = {path: (200, said) for path, said in ended.answers.items()} | {EXPERIMENT: missing}
    none = "/apis/dedup.dev/v1alpha1/namespaces/lab/{}/none"
    answers |= {none.format(plural): missing for plural in ("dedupexperiments", "dedupcomparisons")}
    with serving(answers) as address:
        at = ["--kubeconfig", kubeconfig(tmp_path, address), "--context", "here"]
        code, said, _ = dedup("results", "c", *at, "--format", "markdown")
        assert (code, said.splitlines()[-2]) == (0, "outcome: NothingWorse (3/3 clusters)")
        code, _, problem = dedup("results", "none", *at)
        assert (code, problem.count("\n")) == (4, 1)
        assert problem.startswith("error DedupExperiment lab/none: got ")
