{{/*
Names: everything is called after the release, which Strimzi's operator puts into the names of what it makes. A pod is
RELEASE-RELEASE-ID (cluster, node pool, node), and must be a DNS label.
*/}}
{{- define "strimzi-kafka.name" -}}
{{- if gt (len .Release.Name) 29 -}}
{{- fail (printf "release name: got %q, %d characters; the names of Strimzi's pods hold it twice in 63; take at most 29" .Release.Name (len .Release.Name)) -}}
{{- end -}}
{{- .Release.Name -}}
{{- end }}

{{- define "strimzi-kafka.labels" -}}
app.kubernetes.io/name: {{ .Chart.Name }}
app.kubernetes.io/instance: {{ .Release.Name | quote }}
app.kubernetes.io/version: {{ include "strimzi-kafka.version" . | quote }}
app.kubernetes.io/managed-by: {{ .Release.Service }}
helm.sh/chart: {{ printf "%s-%s" .Chart.Name .Chart.Version }}
{{- with .Values.owner.name }}
dedup.dev/experiment: {{ . | quote }}
{{- end }}
{{- end }}

{{/* Of a system that an experiment brought: it goes when the experiment goes, whoever is there to uninstall it. */}}
{{- define "strimzi-kafka.owner" -}}
{{- with .Values.owner.uid -}}
ownerReferences:
  - {apiVersion: dedup.dev/v1alpha1, kind: DedupExperiment, name: {{ $.Values.owner.name | quote }}, uid: {{ . | quote }}}
{{- end -}}
{{- end -}}

{{- define "strimzi-kafka.version" -}}
{{- .Values.version | default .Chart.AppVersion -}}
{{- end }}

{{/* Broker i's own address, at which no proxy stands. */}}
{{- define "strimzi-kafka.address" -}}
{{- $name := include "strimzi-kafka.name" .root -}}
{{ printf "%s-%s-%d.%s-kafka-brokers.%s.svc" $name $name (int .broker) $name .root.Release.Namespace }}
{{- end }}

{{/* The Secret in which clients find ca.crt. */}}
{{- define "strimzi-kafka.authority" -}}
{{- .Values.tls.secretName | default (printf "%s-cluster-ca-cert" (include "strimzi-kafka.name" .)) -}}
{{- end }}

{{- define "strimzi-kafka.containerSecurity" -}}
allowPrivilegeEscalation: false
readOnlyRootFilesystem: true
capabilities: {drop: [ALL]}
{{- end }}
