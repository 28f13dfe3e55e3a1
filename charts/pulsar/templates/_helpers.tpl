{{/* What the templates share: names, labels, images, and the clothes that every pod wears. */}}

{{/* A StatefulSet's name is in a label of its pods together with a hash of 11 characters, and a label has at most 63. */}}
{{- define "pulsar.checkName" -}}
{{- if gt (len .Release.Name) 40 -}}
{{- fail (printf "release name: got %s; at most 40 characters fit the labels of its pods; choose a shorter one" .Release.Name) -}}
{{- end -}}
{{- end -}}

{{/* The name that the cluster has in its own metadata. */}}
{{- define "pulsar.cluster" -}}dedup{{- end -}}

{{- define "pulsar.scheme" -}}
{{- if .Values.tls.enabled -}}pulsar+ssl{{- else -}}pulsar{{- end -}}
{{- end -}}

{{- define "pulsar.version" -}}
{{- .Values.version | default .Chart.AppVersion -}}
{{- end -}}

{{- define "pulsar.image" -}}
{{- .Values.image.repository }}:{{ .Values.image.tag | default (include "pulsar.version" .) -}}
{{- end -}}

{{- define "pulsar.tlsSecret" -}}
{{- .Values.tls.secretName | default (printf "%s-tls" .Release.Name) -}}
{{- end -}}

{{/* The address below which a component's pods have theirs. Called with (list . component). */}}
{{- define "pulsar.domain" -}}
{{- $root := first . -}}
{{- printf "%s-%s.%s.svc" $root.Release.Name (last .) $root.Release.Namespace -}}
{{- end -}}

{{/* What selects a component's pods. Called with (list . component). */}}
{{- define "pulsar.selector" -}}
app.kubernetes.io/name: pulsar
app.kubernetes.io/instance: {{ (first .).Release.Name | quote }}
app.kubernetes.io/component: {{ last . }}
{{- end -}}

{{- define "pulsar.labels" -}}
{{ include "pulsar.selector" . }}
app.kubernetes.io/version: {{ include "pulsar.version" (first .) | quote }}
app.kubernetes.io/managed-by: {{ (first .).Release.Service }}
app.kubernetes.io/part-of: dedup
{{- with (first .).Values.owner.name }}
dedup.dev/experiment: {{ . | quote }}
{{- end }}
{{- end -}}

{{/* Pod Security "restricted". 10000 is the user of the official image. */}}
{{- define "pulsar.podSecurity" -}}
automountServiceAccountToken: false
enableServiceLinks: false
securityContext:
  runAsNonRoot: true
  runAsUser: 10000
  runAsGroup: 10000
  fsGroup: 10000
  fsGroupChangePolicy: OnRootMismatch
  seccompProfile: {type: RuntimeDefault}
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
{{- end -}}

{{- define "pulsar.containerSecurity" -}}
securityContext:
  allowPrivilegeEscalation: false
  readOnlyRootFilesystem: true
  capabilities: {drop: [ALL]}
{{- end -}}

{{- define "pulsar.toolsImage" -}}
{{- .Values.tools.image.repository }}:{{ .Values.tools.image.tag -}}
{{- end -}}

{{/* An init container that brings tini, statically linked, whatever the system's image is made of. */}}
{{- define "pulsar.tini" -}}
- name: tini
  image: {{ include "pulsar.toolsImage" . | quote }}
  imagePullPolicy: {{ .Values.tools.image.pullPolicy }}
  command: [cp, /usr/bin/tini-static, /tools/tini]
  resources: {{- toYaml .Values.resources.tools | nindent 4 }}
  {{- include "pulsar.containerSecurity" . | nindent 2 }}
  volumeMounts:
    - {name: tools, mountPath: /tools}
{{- end -}}

{{/* An init container for the brokers' private key: Java reads PKCS #8 only, Helm makes PKCS #1. */}}
{{- define "pulsar.tlsKey" -}}
- name: tls-key
  image: {{ include "pulsar.toolsImage" . | quote }}
  imagePullPolicy: {{ .Values.tools.image.pullPolicy }}
  command: [openssl, pkcs8, -topk8, -nocrypt, -in, /tls/tls.key, -out, /tools/tls.key]
  resources: {{- toYaml .Values.resources.tools | nindent 4 }}
  {{- include "pulsar.containerSecurity" . | nindent 2 }}
  volumeMounts:
    - {name: tools, mountPath: /tools}
    - {name: tls, mountPath: /tls, readOnly: true}
{{- end -}}

{{/* A container of the system's image that runs files/start.sh. Called with (list . resources part). */}}
{{- define "pulsar.container" -}}
{{- $root := first . -}}
image: {{ include "pulsar.image" $root | quote }}
imagePullPolicy: {{ $root.Values.image.pullPolicy }}
command: [/tools/tini, --, bash, /config/start.sh, {{ last . }}]
resources: {{- toYaml (index $root.Values.resources (index . 1)) | nindent 2 }}
{{- include "pulsar.containerSecurity" $root | nindent 0 }}
{{- end -}}

{{/* The JVM's size follows the container's memory limit; the compiler that needs no minutes to warm up; addresses of pods
     change, so that none is remembered for long. */}}
{{- define "pulsar.environment" -}}
- {name: ZOOKEEPER, value: {{ .Release.Name }}-zookeeper}
{{- range $name := list "PULSAR" "BOOKIE" }}
- {name: {{ $name }}_MEM, value: "-XX:MaxRAMPercentage=33"}
- {name: {{ $name }}_GC, value: "-XX:+UseG1GC"}
- name: {{ $name }}_EXTRA_OPTS
  value: >-
    -XX:TieredStopAtLevel=1 -XX:+ExitOnOutOfMemoryError
    -Dsun.net.inetaddr.ttl=1 -Dsun.net.inetaddr.negative.ttl=1
{{- end }}
{{- end -}}

{{/* What every container of the system's image mounts: its configuration, tini, and the folders that it may write to. */}}
{{- define "pulsar.mounts" -}}
- {name: config, mountPath: /config, readOnly: true}
- {name: tools, mountPath: /tools, readOnly: true}
- {name: scratch, mountPath: /tmp, subPath: tmp}
- {name: scratch, mountPath: /pulsar/logs, subPath: logs}
{{- end -}}

{{- define "pulsar.volumes" -}}
- name: config
  configMap: {name: {{ .Release.Name }}-pulsar}
# In memory: beside tini, brokers with TLS have their private key here.
- {name: tools, emptyDir: {medium: Memory, sizeLimit: 16Mi}}
- {name: scratch, emptyDir: {}}
{{- end -}}

{{/* The volume `data` of pods that keep some: in the pod's own spec, or claimed. */}}
{{- define "pulsar.ephemeralData" -}}
{{- if eq .Values.storage.type "Ephemeral" -}}
- name: data
  emptyDir: {sizeLimit: {{ .Values.storage.size }}}
{{- end -}}
{{- end -}}

{{- define "pulsar.claimedData" -}}
{{- if eq .Values.storage.type "PersistentVolume" -}}
{{- if .Values.owner.uid }}
# Claims go with the system that an experiment brought, whoever deletes it.
persistentVolumeClaimRetentionPolicy: {whenDeleted: Delete, whenScaled: Retain}
{{- end }}
volumeClaimTemplates:
  - metadata: {name: data}
    spec:
      accessModes: [ReadWriteOnce]
      {{- with .Values.storage.className }}
      storageClassName: {{ . | quote }}
      {{- end }}
      resources: {requests: {storage: {{ .Values.storage.size }}}}
{{- end -}}
{{- end -}}

{{/* An upgrade must not throw data away. */}}
{{- define "pulsar.dataUpdates" -}}
{{- if eq .Values.storage.type "Ephemeral" }}OnDelete{{ else }}RollingUpdate{{ end -}}
{{- end -}}

{{- define "pulsar.file" -}}
{{- $text := (first .).Files.Get (printf "files/%s" (last .)) -}}
{{- if not (hasSuffix ".sh" (last .)) }}{{ tpl $text (first .) }}{{ else }}{{ $text }}{{ end }}
{{- end -}}

{{/* A pod starts anew when what it reads at the start has changed. Called with (list . file). */}}
{{- define "pulsar.checksum" -}}
dedup.dev/configuration: {{ print (include "pulsar.file" .) (include "pulsar.file" (list (first .) "start.sh")) | sha256sum | trunc 16 | quote }}
{{- with include "pulsar.stays" (first .) }}
{{ . }}
{{- end }}
{{- end -}}

{{/* Of a system that an experiment brought: it goes when the experiment goes, whoever is there to uninstall it. */}}
{{- define "pulsar.owner" -}}
{{- with .Values.owner.uid -}}
ownerReferences:
  - {apiVersion: dedup.dev/v1alpha1, kind: DedupExperiment, name: {{ $.Values.owner.name | quote }}, uid: {{ . | quote }}}
{{- end -}}
{{- end -}}

{{/* Annotations of a pod: the administrator's, and ours, by which autoscalers leave it where it is, over them. */}}
{{- define "pulsar.stays" -}}
{{- $ours := dict -}}
{{- if eq (.Values.evictions | default "Refused") "Refused" -}}
{{- $ours = dict "cluster-autoscaler.kubernetes.io/safe-to-evict" "false" "karpenter.sh/do-not-disrupt" "true" -}}
{{- end -}}
{{- with merge $ours (.Values.podTemplate.annotations | default dict) -}}
{{ toYaml . }}
{{- end -}}
{{- end -}}
