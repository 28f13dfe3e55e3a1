"""What `dedup results` says of a status that the operator would write, and what it fetches."""

import io
import json
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, Final

import pytest
from rich.console import Console
from tests.operator.gates import GENERATION, NOW, STATUSES, at, resource
from upath import UPath

from dedup.errors import DedupError, EnvironmentError_, EvidenceError, SpecificationError
from dedup.history.stores import fetch
from dedup_lab.cluster.resources import result_of, results
from dedup_lab.reporting import opening
from dedup_operator.conditions import stalled
from dedup_operator.statuses import Kept, Status, Sums, SystemStatus, VariantStatus

NAME: Final = "e"
COUNTS: Final = {**dict.fromkeys(Sums.model_fields, 0), "send": 400_000, "values_with_duplicates": 91_509}
KEPT: Final = Kept(uri="s3://dedup/lab/e/d-x", endpoint="http://minio.minio:9000", region="us-east-1")
SYSTEMS: Final = [
    SystemStatus(
        name="kafka",
        variants=[
            VariantStatus(
                name="control",
                runs=2,
                finished_runs=2,
                effective_runs=2,
                runs_with_copies=1,
                counts=Sums(
                    **{**dict.fromkeys(Sums.model_fields, 0), "send": 400_000, "values_with_duplicates": 91_509}
                ),
            ),
            VariantStatus(name="dedup", runs=2, finished_runs=1),
        ],
    )
]


class FakeCluster:
    """A cluster that holds one experiment."""

    namespace = "lab"

    def __init__(self, status: Status | None) -> None:
        self._made = {**resource(status), "metadata": {"name": NAME, "namespace": "lab", "generation": 3}}

    def get(self, path: str, **query: str) -> dict[str, Any]:
        assert path == "/apis/dedup.dev/v1alpha1/namespaces/lab/dedupexperiments/e"
        return self._made

    def lines(self, path: str, **query: str) -> Iterator[str]:
        raise AssertionError("nobody asked for a log")


def asked(status: Status | None, output: Path | None = None, **more: Any) -> tuple[int, str]:
    said = io.StringIO()
    options: dict[str, Any] = {"as_json": False, "histories": False, **more}
    code = results(FakeCluster(status), NAME, output=output, console=Console(file=said, width=120), **options)
    return code, said.getvalue()


@pytest.mark.parametrize(
    ("name", "code"),
    [("Pass", 0), ("Fail", 1), ("Inconclusive", 3), ("Error", 4), ("none yet", 3), ("none, and none can come", 4)],
)
def test_the_exit_code_is_the_verdict_s_and_nothing_else_says_0(name: str, code: int) -> None:
    assert asked(STATUSES[name])[0] == code


def test_what_nobody_has_looked_at_has_no_verdict() -> None:
    assert asked(None) == (3, "verdict: none yet (the operator has not seen it yet)\n")


def test_the_sums_are_shown_by_system_and_variant() -> None:
    _, said = asked(STATUSES["Pass"].model_copy(update={"systems": SYSTEMS, "artifacts": KEPT}))
    lines = {line.split("│")[1].strip(): line.split("│")[2:4] for line in said.splitlines() if line.count("│") == 4}
    assert [cell.strip() for cell in lines["duplicates"]] == ["91,509", "-"]
    assert [cell.strip() for cell in lines["finished runs"]] == ["2 of 2", "1 of 2"]
    assert "negative" not in lines
    assert "artifacts: s3://dedup/lab/e/d-x at http://minio.minio:9000" in said


def test_why_is_told() -> None:
    _, said = asked(STATUSES["none, and none can come"])
    assert "  - the Secret is not there\n" in said


def test_of_a_volume_the_claim_is_told() -> None:
    _, said = asked(at(0).model_copy(update={"artifacts": Kept(claim_name="histories", folder="dedup/lab/e/d-x")}))
    assert "artifacts: claim histories, folder dedup/lab/e/d-x" in said


def test_the_document_holds_the_same(capsys: pytest.CaptureFixture[str]) -> None:
    status = STATUSES["Fail"].model_copy(update={"systems": SYSTEMS, "artifacts": KEPT})
    asked(status, as_json=True)
    document = json.loads(capsys.readouterr().out)
    assert document == result_of(FakeCluster(status).get("/apis/dedup.dev/v1alpha1/namespaces/lab/dedupexperiments/e"))
    assert document["verdict"] == "Fail"
    assert document["artifacts"]["uri"] == "s3://dedup/lab/e/d-x"


def test_an_edit_since_is_told() -> None:
    assert "the spec was edited since" in asked(STATUSES["Pass, then edited"])[1]
    assert "edited" not in asked(STATUSES["Pass"])[1]


@pytest.mark.parametrize(
    ("status", "code", "why"),
    [
        (stalled(STATUSES["Pass"], GENERATION, "no such Secret", NOW), 4, "run before: it cannot go on"),
        (stalled(STATUSES["Fail"], GENERATION, "no such Secret", NOW), 4, "run before: it cannot go on"),
        (STATUSES["Pass"].model_copy(update={"observed_generation": GENERATION - 1}), 3, "run before: the operator"),
        (STATUSES["Pass"], 0, None),
        (STATUSES["Pass, then edited"], 0, None),
    ],
    ids=["pass, stalled", "fail, stalled", "applied just now", "pass", "edited without another runToken"],
)
def test_the_verdict_of_an_earlier_execution_is_not_that_of_the_one_asked_for(
    status: Status, code: int, why: str | None
) -> None:
    found, said = asked(status)
    assert found == code
    assert why in said if why else "run before" not in said


# --- artifacts -------------------------------------------------------------------------------------------------------


@pytest.fixture
def store() -> Iterator[UPath]:
    """A store in memory, with what an execution of one run leaves."""
    root = UPath("memory://dedup/lab/e/d-x")
    for name in ("summary.json", "verification.json", "e_dedup_output.txt", "runs/r/attempt-1/manifest.json"):
        root.fs.pipe_file((root / name).path, name.encode())
    yield root
    root.fs.rm(root.path, recursive=True)


def shown(store: UPath, folder: Path, status: Status | None = None) -> tuple[int, str, list[Path]]:
    """What `dedup results e --open` opens, and says; its folder is `folder`."""
    said, opened = io.StringIO(), list[Path]()

    def page(fetched: Callable[[Path], Path]) -> None:
        def here(_: Path) -> Path:
            opened.append(fetched(folder))
            return opened[-1]

        opening.show_fetched(here, Console(file=said, width=200))

    code, _ = asked(status or ready(), at=lambda uri: store, page=page)
    return code, said.getvalue(), opened


def test_the_page_beside_the_summary_is_fetched_and_opened(
    store: UPath, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("AWS_ENDPOINT_URL", "http://127.0.0.1:9000")
    browsed: list[str] = []

    def browse(address: str) -> bool:
        browsed.append(address)
        return True

    monkeypatch.setattr(opening, "_opened", browse)
    store.fs.pipe_file((store / "report.html").path, b"<p>9 \xe2\x9c\x93</p>")
    code, said, (page,) = shown(store, tmp_path, STATUSES["Fail"].model_copy(update={"artifacts": KEPT}))
    assert (code, said) == (1, "") and browsed == [page.as_uri()]
    assert page == tmp_path / "lab-e.html" and page.read_bytes() == b"<p>9 \xe2\x9c\x93</p>"


@pytest.mark.parametrize(
    ("kept", "told"),
    [
        (KEPT, "got no such page; the report writes it beside summary.json"),
        (Kept(claim_name="c", folder="f"), "kubectl cp"),
        (None, "no artifacts in its status"),
    ],
)
def test_a_page_that_cannot_be_had_is_one_line_and_the_exit_code_is_the_verdict_s(
    kept: Kept | None, told: str, store: UPath, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("AWS_ENDPOINT_URL", "http://127.0.0.1:9000")
    code, said, opened = shown(store, tmp_path, ready(kept))
    assert (code, opened, len(said.splitlines())) == (0, [], 1)
    assert said.startswith("warning ") and told in said


def ready(kept: Kept | None = KEPT) -> Status:
    return STATUSES["Pass"].model_copy(update={"artifacts": kept})


def files(folder: Path) -> list[str]:
    return sorted(path.relative_to(folder).as_posix() for path in folder.rglob("*") if path.is_file())


@pytest.mark.parametrize("histories", [False, True])
def test_what_was_concluded_is_fetched_and_histories_if_asked(
    histories: bool, store: UPath, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("AWS_ENDPOINT_URL", "http://127.0.0.1:9000")
    code, said = asked(ready(), tmp_path / "new", histories=histories, at=lambda uri: store)
    more = ["runs/r/attempt-1/manifest.json"] if histories else []
    assert files(tmp_path / "new") == ["e_dedup_output.txt", *more, "summary.json", "verification.json"]
    assert (tmp_path / "new" / "summary.json").read_text() == "summary.json"
    assert code == 0
    assert f"files fetched into {tmp_path / 'new'}: {3 + len(more)}" in said


def test_keys_go_to_no_address_that_the_environment_does_not_name(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("AWS_ENDPOINT_URL", raising=False)
    with pytest.raises(EnvironmentError_, match=r"pods reach it at http://minio\.minio:9000"):
        asked(ready(), tmp_path / "new")
    assert not (tmp_path / "new").exists()


def test_amazon_s_own_store_needs_no_address(store: UPath, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("AWS_ENDPOINT_URL", raising=False)
    amazon = Kept(uri="s3://dedup/lab/e/d-x", region="eu-central-1")
    assert asked(ready(amazon), tmp_path / "new", at=lambda uri: store)[0] == 0


@pytest.mark.parametrize(
    ("kept", "told"),
    [(None, "no artifacts in its status"), (Kept(claim_name="c", folder="f"), "kubectl cp")],
)
def test_what_cannot_be_fetched_is_told(kept: Kept | None, told: str, tmp_path: Path) -> None:
    with pytest.raises(DedupError, match=told):
        asked(ready(kept), tmp_path / "new")


def test_an_empty_place_is_told_and_leaves_no_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AWS_ENDPOINT_URL", "http://127.0.0.1:9000")
    with pytest.raises(EnvironmentError_, match="Finished"):
        asked(ready(), tmp_path / "new", at=lambda uri: UPath("memory://dedup/nothing"))
    assert not (tmp_path / "new").exists()


def test_a_folder_with_other_files_is_left_alone(store: UPath, tmp_path: Path) -> None:
    (tmp_path / "mine").touch()
    with pytest.raises(SpecificationError, match="--output"):
        asked(ready(), tmp_path, at=lambda uri: store)
    assert files(tmp_path) == ["mine"]


@pytest.mark.parametrize("name", ["../outside", "a/../../outside", "a//b", "/outside"])
def test_a_name_that_leads_out_of_the_folder_is_not_followed(name: str, store: UPath, tmp_path: Path) -> None:
    with pytest.raises(EvidenceError, match="below one folder"):
        fetch(store, ["summary.json", name], tmp_path)
    assert files(tmp_path) == []
