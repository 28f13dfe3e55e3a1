"""Which images a node forgets: those whose name has gone to another, and no others; and an import beside that."""

from contextlib import nullcontext

import pytest
from testbed.cluster.clusters import IMPORTS, replaced

from dedup.errors import PlatformError

LISTING = """REF TYPE DIGEST SIZE PLATFORMS LABELS
localhost/spark:dev application/vnd.oci.image.manifest.v1+json sha256:new 1 MiB linux/amd64 -
sha256:config-of-new application/vnd.oci.image.manifest.v1+json sha256:new 1 MiB linux/amd64 -
"""
COLLECTED = "parent snapshot sha256:old does not exist: not found"
OLD = "sha256:config-of-old application/vnd.oci.image.manifest.v1+json sha256:old 1 MiB linux/amd64 -\n"


def test_an_image_whose_name_another_got_is_forgotten() -> None:
    assert replaced(LISTING + OLD) == ["sha256:config-of-old"]


def test_an_image_that_a_name_leads_to_stays() -> None:
    assert replaced(LISTING) == []


@pytest.mark.parametrize(("times", "told"), [(2, None), (3, COLLECTED)])
def test_an_import_that_lost_a_layer_to_the_collection_is_done_again(times: int, told: str | None) -> None:
    imports: list[str] = []

    def imported() -> None:
        imports.append("")
        if len(imports) <= times:
            raise failed(COLLECTED)

    with pytest.raises(PlatformError, match=told) if told else nullcontext():
        IMPORTS(imported)
    assert len(imports) == 3


def test_another_error_is_told_at_once() -> None:
    imports: list[str] = []

    def imported() -> None:
        imports.append("")
        raise failed("no space left on device")

    with pytest.raises(PlatformError, match="no space left"):
        IMPORTS(imported)
    assert len(imports) == 1


def failed(got: str) -> PlatformError:
    return PlatformError(where="ctr images import", got=got, rule="it succeeds", todo="read the message")
