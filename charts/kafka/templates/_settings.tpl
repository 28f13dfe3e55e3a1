{{/* server.properties, but for the node's own number and names (files/start.sh adds them). What decides behaviour under
a fault is what the local lab has (lab/dedup_lab/systems/kafka.py). */}}
{{- define "kafka.settings" -}}
{{- $replicas := min 3 (int .Values.brokers) -}}
{{- $inSync := min 2 (int .Values.brokers) -}}
{{- $protocol := ternary "SSL" "PLAINTEXT" .Values.tls.enabled -}}
process.roles=broker,controller
controller.quorum.voters=
{{- range $i := until (int .Values.brokers) -}}
{{- if $i }},{{ end }}{{ $i }}@{{ $.Release.Name }}-{{ $i }}.{{ include "kafka.domain" $ }}:9093
{{- end }}
controller.listener.names=CONTROLLER
inter.broker.listener.name=INTERNAL
listeners=CONTROLLER://:9093,INTERNAL://:9092,CLIENT://:9094
listener.security.protocol.map=CONTROLLER:{{ $protocol }},INTERNAL:{{ $protocol }},CLIENT:{{ $protocol }}
{{- if .Values.tls.enabled }}
ssl.keystore.type=PEM
ssl.keystore.location=/tls/keystore.pem
ssl.truststore.type=PEM
ssl.truststore.location=/tls/ca.pem
{{- end }}
log.dirs=/data/log
broker.session.timeout.ms=6000
# As in the lab: on a busy node the 60 s of Kafka are too short for a broker to register.
initial.broker.registration.timeout.ms=300000
# Nothing moves unless a fault moves it, and nothing written is deleted while a run may still read it.
auto.create.topics.enable=false
auto.leader.rebalance.enable=false
log.retention.ms=-1
delete.topic.enable=true
# A topic that is deleted after its run frees its disk soon.
log.segment.delete.delay.ms=1000
default.replication.factor={{ $replicas }}
min.insync.replicas={{ $inSync }}
offsets.topic.replication.factor={{ $replicas }}
offsets.topic.num.partitions=3
transaction.state.log.replication.factor={{ $replicas }}
transaction.state.log.min.isr={{ $inSync }}
transaction.state.log.num.partitions=3
share.coordinator.state.topic.replication.factor={{ $replicas }}
share.coordinator.state.topic.min.isr={{ $inSync }}
share.coordinator.state.topic.num.partitions=3
group.initial.rebalance.delay.ms=0
# Memory: the cleaner's default buffer alone is a quarter of the heap.
log.cleaner.dedupe.buffer.size=8000000
{{- end }}
