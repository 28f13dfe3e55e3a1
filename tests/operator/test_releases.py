"""Helm as a process: what its words mean, and that nothing of it goes on when this operator may not act any more."""

import hashlib
import json
import os
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any, Final

import pytest
import yaml
from kubernetes.client import ApiClient, Configuration
from tests.operator.test_listed import entry

from dedup.errors import PlatformError
from dedup_operator.clusters import ClusterError, Forbidden, NotHolder, Object, Refused, Taken, Unreachable
from dedup_operator.entries import Accounts
from dedup_operator.releases import HelmReleases
from dedup_runners.waiting import until

MARKS: Final = {"dedup.dev/experiment": "e", "dedup.dev/uid": "6f1c"}
HANGS: Final = "touch {0}/begun; exec sleep 300"
WORDS: Final = [
    ("Error: values don't meet the specifications of the schema\"", Refused, "don't meet the specifications"),
    ('Error: services is forbidden: User "o" cannot create resource "services"', Forbidden, "give .* that right"),
    ('Error: admission webhook "a.b" denied the request: no', Forbidden, "see what does not admit it"),
    ('Error: admission webhook "a.b" denied the request: Unauthorized', Forbidden, "see what does not admit it"),
    ('Error: admission webhook "a.b" denied the request: an internal error, timed out', Forbidden, "see what does"),
    ("Error: the server has asked for the client to provide credentials", Unreachable, "provide credentials$"),
    ("Error: query: failed to query with labels: Unauthorized", Unreachable, "Unauthorized$"),
    ("Error: values: Unauthorized is no value of access", Refused, "no value of access$"),
    ('Error: StatefulSet.apps "d" is invalid: spec: Forbidden: updates are forbidden', Refused, "are forbidden$"),
    ('W11 warnings.go: internal error?\nW11: "Error: no"\nError: it is full\n', Refused, "^helm: Error: it is full$"),
    ("Error: release: already exists", Taken, "find out who made it"),
    (
        'Error: Unable to continue with install: StatefulSet "d" in namespace "lab" exists and cannot be imported into '
        "the current release: invalid ownership metadata",
        Taken,
        "find out who made it",
    ),
    ('Error: services "d" already exists', Refused, 'services "d" already exists$'),
    ("no such program", Refused, "^helm: no such program$"),
    ("Error: Kubernetes cluster unreachable: the server is away", Unreachable, "cluster unreachable"),
    ("Error: etcdserver: leader changed", Unreachable, "leader changed"),
    ("Error: INSTALLATION FAILED: cannot re-use a name that is still in use", Taken, "find out who made it"),
]


def helm(folder: Path, script: str) -> str:
    """A program in Helm's place, which first notes its process and how it was called."""
    program = folder / "helm"
    program.write_text(f'#!/bin/sh\necho $$ >{folder}/pid\necho "$@" >{folder}/called\n{script.format(folder)}\n')
    program.chmod(0o755)
    return str(program)


def is_there(folder: Path) -> bool:
    try:
        os.kill(int((folder / "pid").read_text()), 0)
    except ProcessLookupError:
        return False
    return True


def test_it_installs_and_never_upgrades(tmp_path: Path) -> None:
    """An upgrade would do what the record of an earlier release says."""
    config = tmp_path / "config"
    releases = HelmReleases(Path("charts"), helm=helm(tmp_path, "cat >{0}/values; echo '{{}}'"), kubeconfig=config)
    releases.install("r", "lab", "kafka", {"brokers": 3}, MARKS)
    called = (tmp_path / "called").read_text()
    assert called.startswith(
        "install r charts/kafka --namespace lab --labels dedup.dev/experiment=e,dedup.dev/uid=6f1c"
    )
    assert called.endswith(f" --values - --kubeconfig {config}\n")
    assert (tmp_path / "values").read_text() == '{"brokers": 3}'


def test_it_is_killed_when_the_lease_is_lost(tmp_path: Path) -> None:
    """Here: as soon as it has begun."""
    begun = tmp_path / "begun"
    releases = HelmReleases(tmp_path, helm=helm(tmp_path, HANGS), held=lambda: not begun.exists())
    with pytest.raises(NotHolder, match="ended with the lease"):
        releases.install("r", "lab", "kafka", {}, MARKS)
    assert not is_there(tmp_path)


def test_it_is_not_asked_to_end_which_it_might_not(tmp_path: Path) -> None:
    begun = tmp_path / "begun"
    deaf = f"trap '' TERM INT; {HANGS.replace('exec ', '')}"
    releases = HelmReleases(tmp_path, helm=helm(tmp_path, deaf), held=lambda: not begun.exists())
    with pytest.raises(NotHolder):
        releases.install("r", "lab", "kafka", {}, MARKS)
    assert not is_there(tmp_path)


def test_it_is_not_begun_when_the_lease_was_lost_before(tmp_path: Path) -> None:
    releases = HelmReleases(tmp_path, helm=helm(tmp_path, HANGS), held=lambda: False)
    with pytest.raises(NotHolder):
        releases.install("r", "lab", "kafka", {}, MARKS)
    assert not (tmp_path / "pid").exists()


@pytest.fixture
def busy(tmp_path: Path) -> Iterator[HelmReleases]:
    """Where one Helm works at a time, and the first works until there is a file `enough`, or the lease is lost."""
    script = "echo $2 >>{0}/begun; until [ -e {0}/enough ]; do sleep 0.05; done; echo '{{}}'"
    releases = HelmReleases(
        tmp_path, helm=helm(tmp_path, script), held=lambda: not (tmp_path / "lost").exists(), at_a_time=1, patience_s=1
    )
    with ThreadPoolExecutor(1) as pool:
        first = pool.submit(releases.install, "first", "lab", "kafka", {}, MARKS)
        until(lambda: begun(tmp_path) == ["first"], 30, "the first works")
        yield releases
        (tmp_path / "enough").touch()
        assert first.exception() is None or (tmp_path / "lost").exists()


def begun(folder: Path) -> list[str]:
    told = folder / "begun"
    return told.read_text().split() if told.exists() else []


def test_it_waits_for_its_turn(busy: HelmReleases, tmp_path: Path) -> None:
    with pytest.raises(Unreachable, match="others were at work for 1 s"):
        busy.install("second", "lab", "kafka", {}, MARKS)
    assert begun(tmp_path) == ["first"]
    (tmp_path / "enough").touch()
    until(lambda: installed(busy), 30, "its turn")
    assert begun(tmp_path) == ["first", "second"]


def installed(releases: HelmReleases) -> bool:
    try:
        releases.install("second", "lab", "kafka", {}, MARKS)
    except Unreachable:
        return False
    return True


def test_it_waits_for_nothing_when_the_lease_is_lost(busy: HelmReleases, tmp_path: Path) -> None:
    (tmp_path / "lost").touch()
    with pytest.raises(NotHolder):
        busy.install("second", "lab", "kafka", {}, MARKS)
    assert begun(tmp_path) == ["first"]


@pytest.mark.parametrize(("words", "kind", "told"), WORDS)
def test_what_it_says_is_understood(tmp_path: Path, words: str, kind: type[ClusterError], told: str) -> None:
    (tmp_path / "words").write_text(words)
    releases = HelmReleases(tmp_path, helm=helm(tmp_path, "cat {0}/words >&2; exit 1"))
    with pytest.raises(kind, match=told):
        releases.install("r", "lab", "kafka", {}, MARKS)


def test_killed_by_somebody_else_it_refused_nothing(tmp_path: Path) -> None:
    releases = HelmReleases(tmp_path, helm=helm(tmp_path, "kill -KILL $$"))
    with pytest.raises(Unreachable, match="ended by signal 9"):
        releases.install("r", "lab", "kafka", {}, MARKS)


def test_no_helm_is_told(tmp_path: Path) -> None:
    with pytest.raises(Refused, match="No such file"):
        HelmReleases(tmp_path, helm=str(tmp_path / "nothing")).install("r", "lab", "kafka", {}, MARKS)


# --- charts of the administrator's list ---

BYTES: Final = b"the archive of a chart"
DIGEST: Final = f"sha256:{hashlib.sha256(BYTES).hexdigest()}"
PULLS: Final = """case $1 in
  pull) while [ "$1" != --destination ]; do shift; done; printf 'the archive of a chart' >$2/kafka-1.2.3.tgz;;
  template) cp $3 {0}/archive; cat >{0}/values; printf -- '---\\nkind: A\\n---\\n# nothing\\n---\\nkind: B\\n';;
  install) cp -r $3 {0}/chart; cp "$(echo "$@" | sed 's/.*--kubeconfig //')" {0}/config; cat >{0}/values; echo '{{}}';;
esac"""


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({}, "pull kafka --repo https://charts.example/stable --version 1.2.3 --destination "),
        (
            {"chart": "oci://charts.example/lab/kafka", "repository": None},
            "pull oci://charts.example/lab/kafka --version 1.2.3 --destination ",
        ),
    ],
)
def test_a_chart_of_the_list_is_pulled_compared_and_rendered(tmp_path: Path, changes: Object, words: str) -> None:
    log = f'echo "$@" >>{tmp_path}/all\n'
    releases = HelmReleases(tmp_path, helm=helm(tmp_path, log + PULLS))
    of = entry(digest=DIGEST, values={"a": 1}, **changes)
    assert releases.render(of, "r", "lab") == [{"kind": "A"}, {"kind": "B"}]
    pulled, rendered = (tmp_path / "all").read_text().splitlines()
    assert pulled.startswith(words)
    assert rendered.startswith("template r /") and "--include-crds" in rendered and "--skip-tests" in rendered
    assert ((tmp_path / "archive").read_bytes(), (tmp_path / "values").read_text()) == (BYTES, '{"a": 1}')
    releases.render(of, "r", "lab")
    assert len((tmp_path / "all").read_text().splitlines()) == 3, "what had the digest is kept"


def test_an_archive_of_another_digest_is_never_read(tmp_path: Path) -> None:
    releases = HelmReleases(tmp_path, helm=helm(tmp_path, PULLS))
    with pytest.raises(PlatformError, match=f"chart theirs 1.2.3: digest: got {DIGEST}; the administrator's list says"):
        releases.render(entry(), "r", "lab")
    assert not (tmp_path / "archive").exists()


def test_a_file_is_a_chart_too_and_one_that_is_not_there_is_told(tmp_path: Path) -> None:
    releases = HelmReleases(tmp_path, helm=helm(tmp_path, PULLS))
    of = entry(digest=DIGEST, chart=f"{tmp_path}/kafka.tgz", repository=None)
    with pytest.raises(PlatformError, match=r"No such file.*it is fetched from .*/kafka.tgz before"):
        releases.render(of, "r", "lab")
    (tmp_path / "kafka.tgz").write_bytes(BYTES)
    assert releases.render(of, "r", "lab") == [{"kind": "A"}, {"kind": "B"}]


@pytest.mark.parametrize(
    ("script", "words"),
    [
        ("echo 'Error: connection refused' >&2; exit 1", "connection refused; it is fetched from https://charts"),
        (f"[ $1 = pull ] || {{{{ echo 'Error: values' >&2; exit 1; }}}}; {PULLS}", "values; Helm renders it with"),
        (PULLS.replace("kind: B", "kind: [B"), "Helm renders it with the values of its entry"),
        ("exit 0", "got 0 archives; it is fetched from"),
    ],
    ids=["a registry that is away", "values that the chart refuses", "no YAML", "nothing"],
)
def test_a_chart_that_cannot_be_had_is_told_in_words(tmp_path: Path, script: str, words: str) -> None:
    releases = HelmReleases(tmp_path, helm=helm(tmp_path, script))
    with pytest.raises(PlatformError, match=words):
        releases.render(entry(digest=DIGEST), "r", "lab")


def test_what_was_rendered_is_installed_as_the_account_of_its_entry(tmp_path: Path) -> None:
    releases = HelmReleases(
        tmp_path, helm=helm(tmp_path, PULLS), kubeconfig=tmp_path / "ours", account=lambda name: {"of": name}
    )
    releases.install_rendered(
        entry(), "r", "lab", [{"kind": "A", "data": "{{ .Values }}\n---\n"}, {"kind": "B"}], MARKS
    )
    called = (tmp_path / "called").read_text()
    assert called.startswith("install r /") and "ours" not in called
    assert "--labels dedup.dev/experiment=e,dedup.dev/uid=6f1c --timeout 180s --values - --kubeconfig /" in called
    assert json.loads((tmp_path / "config").read_text()) == {"of": "theirs"}
    chart = tmp_path / "chart"
    assert [*yaml.safe_load_all((chart / "objects.yaml").read_text())] == [
        {"kind": "A", "data": "{{ .Values }}\n---\n"},
        {"kind": "B"},
    ]
    assert (chart / "templates" / "objects.yaml").read_text() == '{{ .Files.Get "objects.yaml" }}\n'


def test_without_accounts_nothing_of_the_list_is_installed(tmp_path: Path) -> None:
    with pytest.raises(Forbidden, match="given no accounts"):
        HelmReleases(tmp_path, helm=helm(tmp_path, PULLS)).install_rendered(entry(), "r", "lab", [], MARKS)
    assert not (tmp_path / "called").exists()


class Given:
    """Who gives tokens, or says why not."""

    def __init__(self, refused: Exception | None = None) -> None:
        self.refused, self.asked = refused, ("", "", 0)

    def token(self, namespace: str, account: str, lasts_s: int) -> str:
        self.asked = (namespace, account, lasts_s)
        if self.refused is not None:
            raise self.refused
        return "t0k"


def client(**more: Any) -> ApiClient:
    configuration = Configuration(host="https://10.0.0.1:443")
    for key, value in more.items():
        setattr(configuration, key, value)
    return ApiClient(configuration)


def test_an_entry_has_an_account_of_its_own_in_the_operators_namespace() -> None:
    given = Given()
    made = Accounts(given, client(ssl_ca_cert="/ca.crt"), "operators", "dedup-system").kubeconfig("theirs")
    assert given.asked == ("operators", "dedup-system-theirs", 600)
    assert made["clusters"][0]["cluster"] == {"server": "https://10.0.0.1:443", "certificate-authority": "/ca.crt"}
    assert made["users"][0]["user"] == {"token": "t0k"}


def test_an_account_that_went_with_its_entry_is_missed_in_words() -> None:
    accounts = Accounts(Given(Refused('serviceaccounts "x" not found')), client(), "operators", "dedup-system")
    with pytest.raises(Forbidden, match="entry theirs has no account dedup-system-theirs in operators"):
        accounts.kubeconfig("theirs")
