{{/* What stands beside the brokers for a service that is tested: PostgreSQL, and Kafka Connect, which emits its outbox. */}}
{{- define "kafka.hasPostgres" -}}
{{- if ne (.Values.beside | default "Nothing") "Nothing" }}yes{{ end -}}
{{- end }}

{{- define "kafka.hasConnect" -}}
{{- if eq (.Values.beside | default "Nothing") "Capture" }}yes{{ end -}}
{{- end }}

{{- define "kafka.checkBeside" -}}
{{- if gt (len .Release.Name) 43 -}}
{{- fail (printf "release name: got %s; with a database at most 43 characters fit the labels of its pods; choose a shorter one" .Release.Name) -}}
{{- end -}}
{{- if and .Values.tls.enabled (include "kafka.hasConnect" .) -}}
{{- fail "beside: got Capture with tls.enabled; Kafka Connect speaks plain text here; set tls.enabled: false, or beside: Database" -}}
{{- end -}}
{{- if and (include "kafka.hasConnect" .) (not .Values.connect.image.repository) -}}
{{- fail "connect.image.repository: got nothing; beside: Capture needs Kafka Connect with Debezium, and Docker Hub has no such version; set it to REGISTRY/debezium/connect of a registry that has it" -}}
{{- end -}}
{{- end }}

{{/* The labels of one of them; call it with (list $ NAME). */}}
{{- define "kafka.besideSelector" -}}
app.kubernetes.io/name: {{ index . 1 }}
app.kubernetes.io/instance: {{ (first .).Release.Name | quote }}
app.kubernetes.io/component: {{ index . 1 }}
{{- end }}

{{- define "kafka.besideLabels" -}}
{{- $root := first . -}}
{{ include "kafka.besideSelector" . }}
app.kubernetes.io/managed-by: {{ $root.Release.Service }}
helm.sh/chart: {{ printf "%s-%s" $root.Chart.Name $root.Chart.Version }}
{{- with $root.Values.owner.name }}
dedup.dev/experiment: {{ . | quote }}
{{- end }}
{{- end }}

{{- define "kafka.besideMetadata" -}}
name: {{ (first .).Release.Name }}-{{ index . 1 }}
labels: {{- include "kafka.besideLabels" . | nindent 2 }}
{{- with include "kafka.owner" (first .) }}
{{ . }}
{{- end }}
{{- end }}

{{/* The settings of Kafka Connect's worker: standalone, as a file has its position; nobody but its own pod can ask it. */}}
{{- define "kafka.connectWorker" -}}
bootstrap.servers={{ include "kafka.addresses" (list . 9092) }}
key.converter=org.apache.kafka.connect.storage.StringConverter
value.converter=org.apache.kafka.connect.storage.StringConverter
offset.storage.file.filename=/data/offsets
plugin.path=/kafka/connect
plugin.discovery=service_load
listeners=http://127.0.0.1:8083
connector.client.config.override.policy=None
config.providers=directory
config.providers.directory.class=org.apache.kafka.common.config.provider.DirectoryConfigProvider
config.providers.directory.param.allowed.paths=/secret
{{- end }}

{{- define "kafka.connectOutbox" -}}
name=outbox
connector.class=io.debezium.connector.postgresql.PostgresConnector
tasks.max=1
database.hostname={{ include "kafka.postgresHost" . }}
database.port=5432
database.user=connect
database.password=${directory:/secret:capture}
database.dbname=postgres
plugin.name=pgoutput
publication.autocreate.mode=filtered
table.include.list=public.outbox
topic.prefix=captured
snapshot.mode=no_data
tombstones.on.delete=false
transforms=outbox
transforms.outbox.type=io.debezium.transforms.outbox.EventRouter
transforms.outbox.route.topic.replacement=${routedByValue}
{{- end }}

{{- define "kafka.postgresHost" -}}
{{ .Release.Name }}-postgres.{{ .Release.Namespace }}.svc
{{- end }}
