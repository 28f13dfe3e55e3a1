{{/* A StatefulSet's name is in a label of its pods together with a hash of 11 characters, and a label has at most 63. */}}
{{- define "kafka.checkName" -}}
{{- if gt (len .Release.Name) 52 -}}
{{- fail (printf "release name: got %s; at most 52 characters fit the labels of its pods; choose a shorter one" .Release.Name) -}}
{{- end -}}
{{- end }}

{{/* The labels by which this release's brokers are found. */}}
{{- define "kafka.selector" -}}
app.kubernetes.io/name: kafka
app.kubernetes.io/instance: {{ .Release.Name | quote }}
app.kubernetes.io/component: broker
{{- end }}

{{/* What every object says of itself. */}}
{{- define "kafka.labels" -}}
app.kubernetes.io/name: kafka
app.kubernetes.io/instance: {{ .Release.Name | quote }}
app.kubernetes.io/version: {{ include "kafka.version" . | quote }}
app.kubernetes.io/managed-by: {{ .Release.Service }}
helm.sh/chart: {{ printf "%s-%s" .Chart.Name .Chart.Version }}
{{- with .Values.owner.name }}
dedup.dev/experiment: {{ . | quote }}
{{- end }}
{{- end }}

{{- define "kafka.version" -}}
{{ .Values.version | default .Chart.AppVersion }}
{{- end }}

{{- define "kafka.image" -}}
{{ .Values.image.repository }}:{{ .Values.image.tag | default (include "kafka.version" .) }}
{{- end }}

{{- define "kafka.toolsImage" -}}
{{ .Values.tools.image.repository }}:{{ .Values.tools.image.tag }}
{{- end }}

{{/* Every broker's own name is a name below this one. */}}
{{- define "kafka.domain" -}}
{{ .Release.Name }}-brokers.{{ .Release.Namespace }}.svc
{{- end }}

{{/* Every broker at one port of its own, as a list with commas; call it with (list $ PORT). */}}
{{- define "kafka.addresses" -}}
{{- $root := index . 0 -}}
{{- range $i := until (int $root.Values.brokers) -}}
{{- if $i }},{{ end }}{{ $root.Release.Name }}-{{ $i }}.{{ include "kafka.domain" $root }}:{{ index $ 1 }}
{{- end -}}
{{- end }}

{{/* What clients in pods with a Toxiproxy of their own bootstrap from. */}}
{{- define "kafka.clients" -}}
{{- range $i := until (int .Values.brokers) -}}
{{- if $i }},{{ end }}127.0.0.1:{{ add $.Values.loopback.firstPort $i }}
{{- end -}}
{{- end }}

{{/* Kafka's ids are 16 bytes in base64. This one follows from the release, so that it is the same in every upgrade, and
for volumes that an uninstalled release of the same name has left. */}}
{{- define "kafka.clusterId" -}}
{{ printf "%s/%s" .Release.Namespace .Release.Name | sha256sum | trunc 16 | b64enc | trimSuffix "==" }}
{{- end }}

{{- define "kafka.tlsSecret" -}}
{{ .Values.tls.secretName | default (printf "%s-tls" .Release.Name) }}
{{- end }}

{{- define "kafka.podSecurity" -}}
runAsNonRoot: true
runAsUser: 1000
runAsGroup: 1000
fsGroup: 1000
fsGroupChangePolicy: OnRootMismatch
seccompProfile: {type: RuntimeDefault}
{{- end }}

{{- define "kafka.containerSecurity" -}}
allowPrivilegeEscalation: false
readOnlyRootFilesystem: true
capabilities: {drop: [ALL]}
{{- end }}

{{- define "kafka.placement" -}}
{{- with .Values.podTemplate.nodeSelector }}
nodeSelector: {{- toYaml . | nindent 2 }}
{{- end }}
{{- with .Values.podTemplate.tolerations }}
tolerations: {{- toYaml . | nindent 2 }}
{{- end }}
{{- with .Values.podTemplate.affinity }}
affinity: {{- toYaml . | nindent 2 }}
{{- end }}
{{- with .Values.podTemplate.priorityClassName }}
priorityClassName: {{ . | quote }}
{{- end }}
{{- with .Values.podTemplate.imagePullSecrets }}
imagePullSecrets: {{- toYaml . | nindent 2 }}
{{- end }}
{{- end }}

{{/* Of a system that an experiment brought: it goes when the experiment goes, whoever is there to uninstall it. */}}
{{- define "kafka.owner" -}}
{{- with .Values.owner.uid -}}
ownerReferences:
  - {apiVersion: dedup.dev/v1alpha1, kind: DedupExperiment, name: {{ $.Values.owner.name | quote }}, uid: {{ . | quote }}}
{{- end -}}
{{- end -}}

{{/* Annotations of a pod: the administrator's, and ours, by which autoscalers leave it where it is, over them. */}}
{{- define "kafka.stays" -}}
{{- $ours := dict -}}
{{- if eq (.Values.evictions | default "Refused") "Refused" -}}
{{- $ours = dict "cluster-autoscaler.kubernetes.io/safe-to-evict" "false" "karpenter.sh/do-not-disrupt" "true" -}}
{{- end -}}
{{- with merge $ours (.Values.podTemplate.annotations | default dict) -}}
{{ toYaml . }}
{{- end -}}
{{- end -}}
