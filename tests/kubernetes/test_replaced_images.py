"""Which images a node forgets: those whose name has gone to another, and no others."""

from testbed.cluster.clusters import replaced

LISTING = """REF TYPE DIGEST SIZE PLATFORMS LABELS
localhost/spark:dev application/vnd.oci.image.manifest.v1+json sha256:new 1 MiB linux/amd64 -
sha256:config-of-new application/vnd.oci.image.manifest.v1+json sha256:new 1 MiB linux/amd64 -
"""
OLD = "sha256:config-of-old application/vnd.oci.image.manifest.v1+json sha256:old 1 MiB linux/amd64 -\n"


def test_an_image_whose_name_another_got_is_forgotten() -> None:
    assert replaced(LISTING + OLD) == ["sha256:config-of-old"]


def test_an_image_that_a_name_leads_to_stays() -> None:
    assert replaced(LISTING) == []
