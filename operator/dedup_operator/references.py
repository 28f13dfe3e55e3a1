"""What an experiment names, or the administrator for it, is there, and may be used.

Of Secrets only those whose owner said so: who writes an experiment need not have a right to read them.
"""

from dedup.errors import PlatformError
from dedup.experiment.spec import Experiment
from dedup_operator.clusters import Cluster
from dedup_operator.objects.credentials import administrators, secrets_named, unusable
from dedup_operator.objects.settings import Settings


def check_named(cluster: Cluster, namespace: str, asked: Experiment, settings: Settings) -> None:
    """PlatformError names the first that is not there, or may not be used."""
    for named in [*secrets_named(asked), *administrators(asked, settings)]:
        secret = cluster.get("Secret", namespace, named.name)
        if wrong := unusable(secret, named, to_any_host=settings.allow_logins_to_any_host):
            got, rule, todo = wrong
            raise PlatformError(where=named.where, got=f"{named.name}, {got}", rule=rule, todo=todo)
    volume = settings.artifacts.volume
    if volume and cluster.get("PersistentVolumeClaim", namespace, volume.claim) is None:
        raise PlatformError(
            where="spec.artifacts.pvc.claimName" if asked.spec.artifacts else "settings.artifacts.volume.claim",
            got=f"{volume.claim}, which is not there",
            rule="histories are kept on a PersistentVolumeClaim of the experiment's namespace",
            todo="make it there",
        )
