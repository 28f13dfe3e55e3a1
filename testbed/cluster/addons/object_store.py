"""By which identity pods reach the store of a cluster (object-store.yaml): whom a token is for, and for which role."""

import base64
import hashlib
from typing import Final

AUDIENCE: Final = "minio.minio"


def role(audience: str = AUDIENCE) -> str:
    """The role that MinIO gives for tokens of an audience. MinIO tells it when it starts: it is made of a hash."""
    digest = hashlib.sha1(audience.encode(), usedforsecurity=False).digest()
    return f"arn:minio:iam:::role/{base64.urlsafe_b64encode(digest).decode().rstrip('=')}"
