"""What the operator makes of Helm's words: something that passes is tried again, a refusal is told to people."""

from pathlib import Path
from typing import Final

import pytest

from dedup_operator.clusters import Refused, Unreachable
from dedup_operator.releases import HelmReleases

PASSING: Final = (
    "Kubernetes cluster unreachable: Get https://10.0.0.1:443/version: dial tcp 10.0.0.1:443: no route to host",
    "the server has received too many requests and has asked us to try again later (post statefulsets.apps)",
    "the server is currently unable to handle the request (post services)",
    "the server was unable to return a response in the time allotted, but may still be processing the request",
    'an error on the server ("<html>bad gateway</html>") has prevented the request from succeeding (get secrets)',
    "Internal error occurred: resource quota evaluation timed out",
    'Operation cannot be fulfilled on resourcequotas "quota": the object has been modified; please apply your changes '
    "to the latest version and try again",
    'Post "https://10.0.0.1:443/api/v1/namespaces/lab/secrets": http2: server sent GOAWAY and closed the connection',
    'Get "https://10.0.0.1:443/api/v1/namespaces/lab/secrets": http2: client connection lost',
    'Get "https://10.0.0.1:443/api": write tcp 10.1.0.2:1->10.0.0.1:443: write: broken pipe',
    "etcdserver: leader changed",
    "another operation (install/upgrade/rollback) is in progress",
)
REFUSALS: Final = (
    "values don't meet the specifications of the schema(s) in the following chart(s)",
    'services is forbidden: User "system:serviceaccount:lab:operator" cannot create resource "services"',
    'StatefulSet.apps "d" is invalid: spec.replicas: Invalid value: -1',
    'pods "d-0" is forbidden: exceeded quota: quota, requested: pods=1, used: pods=1, limited: pods=1',
)


def helm(folder: Path, words: str) -> HelmReleases:
    """A Helm that fails with these words."""
    (folder / "words").write_text(f"Error: {words}\n")
    program = folder / "helm"
    program.write_text(f"#!/bin/sh\ncat '{folder}/words' >&2\nexit 1\n")
    program.chmod(0o755)
    return HelmReleases(folder, helm=str(program))


@pytest.mark.parametrize("words", PASSING)
def test_what_passes_is_tried_again(words: str, tmp_path: Path) -> None:
    with pytest.raises(Unreachable):
        helm(tmp_path, words).install("r", "lab", "kafka", {}, {})


@pytest.mark.parametrize("words", REFUSALS)
def test_a_refusal_is_told_in_its_words(words: str, tmp_path: Path) -> None:
    with pytest.raises(Refused, match="helm: Error: "):
        helm(tmp_path, words).install("r", "lab", "kafka", {}, {})
