"""Keys that MinIO's STS lends for an hour to who has others."""

from collections.abc import Mapping

from botocore.session import Session
from tests.kubernetes.whole_runs import KEYS

from dedup_operator.objects.settings import SESSION_KEY, STORE_KEYS

NO_ROLE = "arn:minio:iam:::role/of-the-user-himself"
"""MinIO does not look at it: what is lent may do what its owner may."""


def lent(url: str) -> Mapping[str, str]:
    """Keys and their session token, under the names of the variables, from the STS there."""
    identifier, secret = (KEYS[name] for name in STORE_KEYS)
    sts = Session().create_client(
        "sts", "us-east-1", endpoint_url=url, aws_access_key_id=identifier, aws_secret_access_key=secret
    )
    said = sts.assume_role(RoleArn=NO_ROLE, RoleSessionName="test")["Credentials"]
    return dict(
        zip(
            (*STORE_KEYS, SESSION_KEY),
            (said["AccessKeyId"], said["SecretAccessKey"], said["SessionToken"]),
            strict=True,
        )
    )
