"""A chart of a stranger's for an administrator's list: a small Kafka that shares no name, label or port with ours.

Its broker is process 1 of its container, knows no hold, and has no proxies: what an experiment needs besides is made
from the list's entry. Values make it one that wants rights in the cluster, or one of whose pods never gets ready.
"""

import base64
import hashlib
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Final

import yaml
from kubernetes.client import CoreV1Api
from testbed.cluster import binaries, images
from tests.kubernetes.whole_runs import Place

VERSION: Final = "0.3.1"
FILES: Final = "strangers"
"""The ConfigMap with the archive, and how an operator's pod sees it."""
ARCHIVE: Final = f"/usr/local/dedup/listed/streams-{VERSION}.tgz"
FIRST_PORT: Final = 41092
VALUES: Final[dict[str, Any]] = {
    "nodes": 3,
    "image": images.KAFKA.reference,
    "firstPort": FIRST_PORT,
    "podLabels": {"dedup.dev/faults": "allowed"},
    "console": False,
    "wide": False,
}
TEMPLATE: Final = """
apiVersion: v1
kind: ConfigMap
metadata: {name: {{ .Release.Name }}-conf, labels: {streams/of: {{ .Release.Name }}}}
data:
  common.properties: |
    process.roles=broker,controller
    controller.quorum.voters=
    {{- range $i := until (int .Values.nodes) }}
    {{- if $i }},{{ end }}{{ $i }}@{{ $.Release.Name }}-node-{{ $i }}.{{ $.Release.Name }}-nodes:19093
    {{- end }}
    controller.listener.names=QUORUM
    inter.broker.listener.name=INSIDE
    listeners=QUORUM://:19093,INSIDE://:19092,OUTSIDE://:19094
    listener.security.protocol.map=QUORUM:PLAINTEXT,INSIDE:PLAINTEXT,OUTSIDE:PLAINTEXT
    log.dirs=/var/lib/streams/log
    auto.create.topics.enable=false
    default.replication.factor=3
    min.insync.replicas=2
    offsets.topic.replication.factor=3
    offsets.topic.num.partitions=3
    transaction.state.log.replication.factor=3
    transaction.state.log.min.isr=2
    log.cleaner.dedupe.buffer.size=8000000
  begin: |
    number=${HOSTNAME##*-}
    own=/var/lib/streams/own.properties
    cp /conf/common.properties $own
    echo "node.id=$number" >>$own
    host=$HOSTNAME.{{ .Release.Name }}-nodes.{{ .Release.Namespace }}.svc
    port=$(({{ .Values.firstPort }} + number))
    echo "advertised.listeners=INSIDE://$host:19092,OUTSIDE://127.0.0.1:$port" >>$own
    [ -e /var/lib/streams/log/meta.properties ] ||
      KAFKA_HEAP_OPTS=-Xmx128m /opt/kafka/bin/kafka-storage.sh format -t c3RyZWFtcy1vZi1vdGhlcg -c $own
    exec /opt/kafka/bin/kafka-server-start.sh $own
---
apiVersion: v1
kind: Service
metadata: {name: {{ .Release.Name }}-nodes}
spec:
  clusterIP: None
  publishNotReadyAddresses: true
  selector: {streams/of: {{ .Release.Name }}, streams/part: node}
  ports:
    - {name: inside, port: 19092}
---
apiVersion: apps/v1
kind: StatefulSet
metadata: {name: {{ .Release.Name }}-node}
spec:
  replicas: {{ .Values.nodes }}
  serviceName: {{ .Release.Name }}-nodes
  podManagementPolicy: Parallel
  selector: {matchLabels: {streams/of: {{ .Release.Name }}, streams/part: node}}
  template:
    metadata:
      labels: {{ merge (dict "streams/of" .Release.Name "streams/part" "node") .Values.podLabels | toJson }}
    spec:
      automountServiceAccountToken: false
      securityContext: {{ include "context" . }}
      containers:
        - name: streams
          image: {{ .Values.image }}
          command: [sh, -eu, /conf/begin]
          env:
            - {name: KAFKA_HEAP_OPTS, value: -Xms128m -Xmx448m}
            - {name: LOG_DIR, value: /tmp}
          readinessProbe: {tcpSocket: {port: 19092}, periodSeconds: 2}
          resources: {requests: {cpu: 20m, memory: 512Mi}, limits: {memory: 1Gi}}
          securityContext: {allowPrivilegeEscalation: false, capabilities: {drop: [ALL]}}
          volumeMounts:
            - {name: conf, mountPath: /conf}
            - {name: store, mountPath: /var/lib/streams}
      volumes:
        - {name: conf, configMap: {name: {{ .Release.Name }}-conf}}
        - {name: store, emptyDir: {}}
{{- if .Values.console }}
---
apiVersion: apps/v1
kind: Deployment
metadata: {name: {{ .Release.Name }}-console}
spec:
  replicas: 1
  selector: {matchLabels: {streams/of: {{ .Release.Name }}, streams/part: console}}
  template:
    metadata: {labels: {streams/of: {{ .Release.Name }}, streams/part: console}}
    spec:
      automountServiceAccountToken: false
      terminationGracePeriodSeconds: 0
      securityContext: {{ include "context" . }}
      containers:
        - name: console
          image: {{ .Values.image }}
          command: [sleep, infinity]
          readinessProbe: {exec: {command: ["false"]}}
          securityContext: {allowPrivilegeEscalation: false, capabilities: {drop: [ALL]}}
{{- end }}
{{- if .Values.wide }}
---
apiVersion: rbac.authorization.k8s.io/v1
kind: ClusterRole
metadata: {name: {{ .Release.Name }}-wide}
rules: [{apiGroups: [""], resources: [secrets], verbs: [list]}]
{{- end }}
{{- define "context" -}}
{runAsNonRoot: true, runAsUser: 1000, fsGroup: 1000, seccompProfile: {type: RuntimeDefault}}
{{- end }}
"""


def archive(folder: Path) -> Path:
    """The chart, as Helm packs it."""
    source = folder / "streams"
    (source / "templates").mkdir(parents=True)
    said = {"apiVersion": "v2", "name": "streams", "version": VERSION}
    (source / "Chart.yaml").write_text(yaml.safe_dump(said))
    (source / "values.yaml").write_text(yaml.safe_dump({**VALUES, "nodes": 1}))
    (source / "templates" / "all.yaml").write_text(TEMPLATE)
    command = [str(binaries.find(binaries.HELM)), "package", str(source), "--destination", str(folder)]
    subprocess.run(command, check=True, capture_output=True, timeout=60)
    return folder / Path(ARCHIVE).name


def entry(packed: Path, name: str, *, digest: str | None = None, **values: Any) -> dict[str, Any]:
    """What an administrator who has read the chart writes into the list."""
    return {
        "name": name,
        "protocol": "kafka",
        "chart": ARCHIVE,
        "version": VERSION,
        "digest": digest or f"sha256:{hashlib.sha256(packed.read_bytes()).hexdigest()}",
        "values": {"nodes": 3, **values},
        "objects": ["ConfigMap", "Deployment", "Service", "StatefulSet"],
        "brokers": {
            "pod": "{release}-node",
            "service": "{release}-nodes",
            "container": "streams",
            "port": 19092,
            "listener": {"port": 19094, "firstPort": FIRST_PORT},
        },
        "faults": ["killTCP"],
    }


@contextmanager
def shelved(place: Place, namespace: str, packed: Path) -> Iterator[None]:
    """The archive in a ConfigMap of the operator's namespace, as docs/charts.md has it."""
    core, content = CoreV1Api(place.client), base64.b64encode(packed.read_bytes()).decode()
    made = {"metadata": {"name": FILES}, "binaryData": {packed.name: content}}
    core.create_namespaced_config_map(namespace, made)
    try:
        yield
    finally:
        core.delete_namespaced_config_map(FILES, namespace)
