"""Where a system under test comes from: four ways, one module each, and which of them is whose."""

from collections.abc import Mapping
from typing import Final

from dedup.experiment.deployments import STRIMZI
from dedup.experiment.spec import System
from dedup_operator.provision.existing import Existing
from dedup_operator.provision.helm import Helm
from dedup_operator.provision.listed import Listed
from dedup_operator.provision.locked import Locked
from dedup_operator.provision.provisioner import Context, Provisioner
from dedup_operator.provision.strimzi import Strimzi

OF_CHART: Final[Mapping[str, type[Helm]]] = {STRIMZI: Strimzi}
"""The provisioners of charts that need more than Helm."""


def provisioner(context: Context, system: System) -> Provisioner:
    """Who provisions this system of the execution."""
    if system.existing is not None:
        return (Locked if context.settings.allow_faults_on_pods_of_others else Existing)(context, system)
    if system.listed is not None:
        return Listed(context, system)
    return OF_CHART.get(system.chart, Helm)(context, system)
