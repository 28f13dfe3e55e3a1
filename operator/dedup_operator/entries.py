"""The accounts of the administrator's entries: as whom Helm installs a chart of somebody else's.

The operator's chart makes one account an entry, in the operator's own namespace, where nobody who may make pods in a
namespace of experiments can be it; and in each of those a Role with the kinds that the entry names. The operator asks
for a token of a few minutes and gives it to Helm in a file, since words on a command line are everybody's to read.
"""

from typing import Final, Protocol

from kubernetes.client import ApiClient

from dedup_operator.clusters import Forbidden, Object, Refused, UnknownKind

LASTS_S: Final = 600
"""As short as the API server gives one; Helm works for three minutes at most."""


class Tokens(Protocol):
    """Who gives tokens: the API server."""

    def token(self, namespace: str, account: str, lasts_s: int) -> str: ...


class Accounts:
    """Those of one operator, called PREFIX-ENTRY, in a namespace; `client` reaches the cluster."""

    def __init__(self, tokens: Tokens, client: ApiClient, namespace: str, prefix: str) -> None:
        self._tokens, self._client, self._namespace, self._prefix = tokens, client, namespace, prefix

    def kubeconfig(self, entry: str) -> Object:
        """With a token of the entry's account; Forbidden if there is no such account, which people can mend."""
        account = f"{self._prefix}-{entry}"
        try:
            token = self._tokens.token(self._namespace, account, LASTS_S)
        except (Forbidden, UnknownKind):
            raise
        except Refused as error:
            words = f"entry {entry} has no account {account} in {self._namespace} ({error}); it is made with the entry"
            raise Forbidden(words) from None
        said = self._client.configuration
        reached: Object = {"server": said.host}
        if said.ssl_ca_cert:
            reached["certificate-authority"] = said.ssl_ca_cert
        if said.tls_server_name:
            reached["tls-server-name"] = said.tls_server_name
        return {
            "apiVersion": "v1",
            "kind": "Config",
            "current-context": entry,
            "clusters": [{"name": entry, "cluster": reached}],
            "users": [{"name": entry, "user": {"token": token}}],
            "contexts": [{"name": entry, "context": {"cluster": entry, "user": entry}}],
        }
