{{/* What the operator may do in a namespace whose experiments it runs. It gives rights to the accounts of runs and of Spark's
driver, and Kubernetes lets nobody give what he has not; so some rules are here only to be handed on. */}}
{{- define "operator.rules" -}}
# The experiments themselves: it reads them, and never writes what people wrote.
- apiGroups: [dedup.dev]
  resources: [dedupexperiments]
  verbs: [get, list, watch]
{{- if .Values.allowFaultsOnPodsOfOthers }}
# The finalizer of those with a system that is there already: it holds a deletion until what was made there is removed.
- apiGroups: [dedup.dev]
  resources: [dedupexperiments]
  verbs: [patch]
{{- end }}
# What became of them.
- apiGroups: [dedup.dev]
  resources: [dedupexperiments/status]
  verbs: [get, update, patch]
# Owner references from what it makes to the experiment, where an admission plugin asks for this.
- apiGroups: [dedup.dev]
  resources: [dedupexperiments/finalizers]
  verbs: [update]
# What it tells people in Events: each is written once, and never read or changed.
- apiGroups: [""]
  resources: [events]
  verbs: [create]
# A Job for each run, for the readiness of a system and for the report.
- apiGroups: [batch]
  resources: [jobs]
  verbs: [get, list, watch, create, update, patch, delete]
# The verification. Spark's own operator does the rest.
- apiGroups: [sparkoperator.k8s.io]
  resources: [sparkapplications]
  verbs: [get, list, watch, create, update, patch, delete]
# The systems under test, through Helm: what our charts consist of.
- apiGroups: [apps]
  resources: [statefulsets, deployments]
  verbs: [get, list, watch, create, update, patch, delete]
# Drains wait for them, too: an eviction would be a fault that nobody planned.
- apiGroups: [policy]
  resources: [poddisruptionbudgets]
  verbs: [get, list, create, update, patch, delete]
# A Kafka of Strimzi's: what charts/strimzi-kafka consists of. Strimzi's own operator does the rest.
- apiGroups: [kafka.strimzi.io]
  resources: [kafkas, kafkanodepools]
  verbs: [get, list, create, update, patch, delete]
# Helm keeps its releases in Secrets, and certificates of systems are there. The API server cannot tell those from others.
- apiGroups: [""]
  resources: [secrets]
  verbs: [get, list, create, update, patch, delete]
# Helm's, its own (assignments, snapshots, bulletins), and handed on: Spark's driver has a Service and settings; a report
# writes its bulletin.
- apiGroups: [""]
  resources: [configmaps, services]
  verbs: [get, list, watch, create, update, patch, delete, deletecollection]
# It looks at pods, and whether the claim for histories is there. Handed on: the driver makes executors, with their volumes;
# a podDelete fault deletes a broker's pod.
- apiGroups: [""]
  resources: [pods, persistentvolumeclaims]
  verbs: [get, list, watch, create, update, patch, delete, deletecollection]
# Handed on to the chaos containers of runs: a kill is an exec in a broker's pod. (Later Kubernetes asks for create.)
- apiGroups: [""]
  resources: [pods/exec]
  verbs: [get, create]
# Handed on: a partition by NetworkPolicy, and the Job that removes it at its deadline. It looks itself whether one is left
# of a run before it begins the next.
- apiGroups: [networking.k8s.io]
  resources: [networkpolicies]
  verbs: [get, list, create, delete]
{{- if .Values.allowPrivilegedFaults }}
# Handed on: a partition by NetFilter adds a container with NET_ADMIN to a broker's pod.
- apiGroups: [""]
  resources: [pods/ephemeralcontainers]
  verbs: [patch]
# Whether the namespace's level of Pod Security takes such a container.
- apiGroups: [""]
  resources: [namespaces]
  verbs: [get]
{{- end }}
{{- if .Values.comparisons }}
# Comparisons: it reads them, and their finalizer holds a deletion until their experiments in other clusters are gone.
- apiGroups: [dedup.dev]
  resources: [dedupcomparisons]
  verbs: [get, list, watch, patch]
# What became of them.
- apiGroups: [dedup.dev]
  resources: [dedupcomparisons/status]
  verbs: [update]
# A comparison's experiment in its own cluster. It goes with the comparison, by its owner.
- apiGroups: [dedup.dev]
  resources: [dedupexperiments]
  verbs: [create]
{{- end }}
# The accounts of runs and of Spark's driver.
- apiGroups: [""]
  resources: [serviceaccounts]
  verbs: [get, list, create, update, patch, delete]
# Their roles, which hold nothing that is not above.
- apiGroups: [rbac.authorization.k8s.io]
  resources: [roles, rolebindings]
  verbs: [get, list, create, update, patch, delete]
{{- end }}

{{/* What it may do besides in its own namespace, whosever experiments it runs. */}}
{{- define "operator.leaseRules" -}}
# The Lease that says which operator acts: its own and no other. Only to make it, Kubernetes knows no right that names it.
- apiGroups: [coordination.k8s.io]
  resources: [leases]
  resourceNames: [{{ .Release.Name | quote }}]
  verbs: [get, patch]
{{- if .Values.allowFaultsOnPodsOfOthers }}
# The one with the locks of systems that are there already: one experiment a system at a time, in whatever namespace.
- apiGroups: [coordination.k8s.io]
  resources: [leases]
  resourceNames: [{{ printf "%s-systems" .Release.Name | quote }}]
  verbs: [get, patch]
{{- end }}
# To make it, once.
- apiGroups: [coordination.k8s.io]
  resources: [leases]
  verbs: [create]
{{- with .Values.settings.systems }}
# A token, of a few minutes, for Helm to install the chart of an entry as the entry's account, and as no other.
- apiGroups: [""]
  resources: [serviceaccounts/token]
  resourceNames:
    {{- range . }}
    - {{ printf "%s-system-%s" $.Release.Name .name | quote }}
    {{- end }}
  verbs: [create]
{{- end }}
{{- end }}

{{/* The groups of the kinds that an entry's chart may consist of, and what they are called in a rule. */}}
{{- define "operator.kinds" -}}
ConfigMap: ["", configmaps]
Deployment: [apps, deployments]
Job: [batch, jobs]
NetworkPolicy: [networking.k8s.io, networkpolicies]
PersistentVolumeClaim: ["", persistentvolumeclaims]
PodDisruptionBudget: [policy, poddisruptionbudgets]
Role: [rbac.authorization.k8s.io, roles]
RoleBinding: [rbac.authorization.k8s.io, rolebindings]
Secret: ["", secrets]
Service: ["", services]
ServiceAccount: ["", serviceaccounts]
StatefulSet: [apps, statefulsets]
{{- end }}

{{/* What the account of an entry may do in a namespace of experiments: make what the entry names. Nothing is changed or
taken away as it, but for Helm's records, which are Secrets; the operator itself takes a system away. */}}
{{- define "operator.entryRules" -}}
{{- $kinds := include "operator.kinds" . | fromYaml -}}
# Helm keeps its releases in Secrets.
- apiGroups: [""]
  resources: [secrets]
  verbs: [get, list, create, update, delete]
{{- range .objects | uniq | sortAlpha }}
# What its chart consists of.
- apiGroups: [{{ index $kinds . 0 | quote }}]
  resources: [{{ index $kinds . 1 | quote }}]
  verbs: [get, create]
{{- end }}
{{- with .gives }}
{{- range . }}
# Only to be given on: what Roles of its chart give to accounts of its pods.
- apiGroups: {{ toJson .apiGroups }}
  resources: {{ toJson .resources }}
  verbs: {{ toJson .verbs }}
{{- end }}
{{- end }}
{{- end }}
