"""Wrong specs of where artifacts go and when to run, as tests/operator/wrong_specs.py has them for everything else."""

from typing import Final

from tests.operator.wrong import Wrong

OBJECT: Final = "the name of an object in Kubernetes is lower-case letters, digits, dashes and dots"
PLACE: Final = "a place for artifacts is exactly one of s3 and pvc"
S3: Final = "spec/artifacts/s3"
BUCKET: Final = ((f"{S3}/bucket", "results"),)

PLACES: Final = (
    Wrong("two places", (("spec/artifacts", {"s3": {"bucket": "abc"}, "pvc": {"claimName": "c"}}),), PLACE),
    Wrong("no place", (("spec/artifacts", {}),), PLACE),
    Wrong("a bucket in capitals", ((f"{S3}/bucket", "Results"),), "a bucket's name is 3 to 63 lower-case letters"),
    *(
        Wrong(f"a prefix {what}", (*BUCKET, (f"{S3}/prefix", prefix)), "a prefix is names with / between them")
        for what, prefix in (
            *(("from the root", "/a"), ("that climbs", "a/../b"), ("with an end", "a/"), ("of nothing", "a//b")),
        )
    ),
    *(
        Wrong(f"an endpoint {what}", (*BUCKET, (f"{S3}/endpoint", endpoint)), "an endpoint is http:// or https://")
        for what, endpoint in (
            *(("of a file", "file:///etc"), ("with a path", "http://s3/a"), ("with a password", "http://u:p@s3")),
        )
    ),
    Wrong("a region in words", (*BUCKET, (f"{S3}/region", "Frankfurt am Main")), "a region is lower-case letters"),
    Wrong("another's Secret", (*BUCKET, (f"{S3}/secretRef", {"name": "theirs/s3"})), OBJECT),
    Wrong("a Secret without a name", (*BUCKET, (f"{S3}/secretRef", {})), "this key is required", "Required value"),
    Wrong("keys in the open", (*BUCKET, (f"{S3}/secretKey", "x")), "no such key", 'unknown field "spec.artifacts'),
    Wrong("another's volume", (("spec/artifacts", {"pvc": {"claimName": "../c"}}),), OBJECT),
    Wrong("a token of two words", (("spec/runToken", "once more"),), "a token is letters, digits, dots"),
)
