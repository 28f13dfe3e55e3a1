{{/* The Deployment's name is in labels of its pods, with hashes behind it. */}}
{{- define "operator.check" -}}
{{- if gt (len .Release.Name) 45 -}}
{{- fail (printf "release name: got %s; at most 45 characters fit the names of its pods; choose a shorter one" .Release.Name) -}}
{{- end -}}
{{- if and .Values.watch.all .Values.watch.namespaces -}}
{{- fail "watch: got all and namespaces; one of them says whose experiments are run; leave the other out" -}}
{{- end -}}
{{- with (.Values.settings.artifacts | default dict).s3 -}}
{{- if and .secret .webIdentity -}}
{{- fail "settings.artifacts.s3: got secret and webIdentity; a store knows pods by one of them; leave the other out" -}}
{{- end -}}
{{- end -}}
{{- if and .Values.watch.all .Values.settings.systems -}}
{{- fail "settings.systems: got entries beside watch.all; rights of an entry are in namespaces that are told; name them in watch.namespaces" -}}
{{- end -}}
{{- range $chart, $values := .Values.settings.charts -}}
{{- if (($values | default dict).tls | default dict).enabled -}}
{{- fail (printf "settings.charts.%s.tls: got enabled; clients of a system that an experiment deploys speak plain text on their pod's own 127.0.0.1, so it would never be ready; leave it out, or have the system by hand and write deploy.existing" $chart) -}}
{{- end -}}
{{- end -}}
{{- if and .Values.watch.all (.Values.networkPolicies | default dict).enabled -}}
{{- fail "networkPolicies.enabled: got true beside watch.all; Helm makes policies in namespaces that it is told; name them in watch.namespaces" -}}
{{- end -}}
{{- end }}

{{- define "operator.selector" -}}
app.kubernetes.io/name: dedup-operator
app.kubernetes.io/instance: {{ .Release.Name | quote }}
{{- end }}

{{- define "operator.labels" -}}
{{ include "operator.selector" . }}
app.kubernetes.io/part-of: dedup
app.kubernetes.io/version: {{ .Chart.AppVersion | quote }}
app.kubernetes.io/managed-by: {{ .Release.Service }}
helm.sh/chart: {{ printf "%s-%s" .Chart.Name .Chart.Version }}
{{- end }}

{{/* The namespaces whose experiments are run, as a list in JSON. */}}
{{- define "operator.namespaces" -}}
{{ .Values.watch.namespaces | default (list .Release.Namespace) | uniq | toJson }}
{{- end }}

{{/* What experiments do not say, as dedup_operator.objects.settings reads it; but for the namespace, which is each experiment's. */}}
{{- define "operator.settings" -}}
allowPrivilegedFaults: {{ .Values.allowPrivilegedFaults }}
allowLoginsToAnyHost: {{ .Values.allowLoginsToAnyHost | default false }}
allowFaultsOnPodsOfOthers: {{ .Values.allowFaultsOnPodsOfOthers | default false }}
{{- range $name := list "runnerImage" "clientsImage" "sparkImage" }}
{{- with $image := index $.Values.settings $name }}
{{ $name }}: {{ dict "repository" (printf "%s/%s" $.Values.registry $image.repository) "tag" $image.tag "pullPolicy" $image.pullPolicy | toJson }}
{{- end }}
{{- end }}
{{- range $name := list "concurrentExperiments" "artifacts" "runner" "spark" "verifier" "accountAnnotations" "podTemplate" "resources" "chaosImages" "systems" "charts" }}
{{- with index $.Values.settings $name }}
{{ $name }}: {{ toJson . }}
{{- end }}
{{- end }}
{{- end }}
