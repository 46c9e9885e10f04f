{{/*
What the values of a part set in its workload and its pods: one template for each field, used by every workload. PART is
the label app.kubernetes.io/name of the workload, and its name without namePrefix.
*/}}

{{/* Values of the service accounts by PART, as YAML. Those of the hooks have none. */}}
{{- define "koord-suite.serviceAccounts" -}}
koordlet: {{- toYaml .Values.koordlet.serviceAccount | nindent 2 }}
koord-manager: {{- toYaml .Values.manager.serviceAccount | nindent 2 }}
koord-scheduler: {{- toYaml .Values.scheduler.serviceAccount | nindent 2 }}
koord-extender: {{- toYaml .Values.extenderService.serviceAccount | nindent 2 }}
koord-load-watcher: {{- toYaml .Values.loadWatcher.serviceAccount | nindent 2 }}
koord-console: {{- toYaml .Values.console.serviceAccount | nindent 2 }}
koord-admission: {{- toYaml .Values.admission.webhook.serviceAccount | nindent 2 }}
{{- end }}

{{/*
Name of the service account of a part. Two parts never share one: it is how RBAC and admission policies distinguish them.
Call with (list $ PART).
*/}}
{{- define "koord-suite.serviceAccountName" -}}
{{- $root := index . 0 -}}{{- $part := index . 1 -}}
{{- $all := include "koord-suite.serviceAccounts" (index . 0) | fromYaml -}}
{{- $own := get $all $part | default (dict "create" true) -}}
{{- $name := $own.name | default (hasKey $all $part | ternary (include "koord-suite.name" .) $part) -}}
{{- if not (or $own.create $own.name) -}}
{{- fail (printf "serviceAccount.create of %s is false: set its serviceAccount.name to an existing ServiceAccount" $part) -}}
{{- end -}}
{{- range $other, $account := $all -}}
{{- if and (ne $other $part) (eq ($account.name | default (include "koord-suite.name" (list $root $other))) $name) -}}
{{- fail (printf "serviceAccount.name of %s and of %s is %s: each part needs a ServiceAccount of its own" $part $other $name) -}}
{{- end -}}
{{- end -}}
{{- $name -}}
{{- end }}

{{/* Service account of a part, unless the values name an existing one. Call with (list $ PART). */}}
{{- define "koord-suite.serviceAccount" -}}
{{- $own := get (include "koord-suite.serviceAccounts" (index . 0) | fromYaml) (index . 1) -}}
{{- if $own.create }}
apiVersion: v1
kind: ServiceAccount
metadata:
  name: {{ include "koord-suite.serviceAccountName" . | quote }}
  namespace: {{ (index . 0).Release.Namespace | quote }}
  labels:
    {{- include "koord-suite.labels" . | nindent 4 }}
  {{- with $own.annotations }}
  annotations: {{- toYaml . | nindent 4 }}
  {{- end }}
automountServiceAccountToken: false
---
{{- end }}
{{- end }}

{{/* The service account of a part, as the subject of a binding. Call with (list $ PART). */}}
{{- define "koord-suite.subject" -}}
- {kind: ServiceAccount, name: {{ include "koord-suite.serviceAccountName" . | quote }}, namespace: {{ (index . 0).Release.Namespace | quote }}}
{{- end }}

{{/* Fields of a Deployment, or of a StatefulSet, whose FIELD is updateStrategy. Call with (list VALUES FIELD). */}}
{{- define "koord-suite.rollout" -}}
revisionHistoryLimit: {{ (index . 0).revisionHistoryLimit }}
{{- with (index . 0).strategy }}
{{ index $ 1 }}: {{- toYaml . | nindent 2 }}
{{- end }}
{{- end }}

{{/* Fields of a DaemonSet. Call with VALUES. */}}
{{- define "koord-suite.daemonSetRollout" -}}
revisionHistoryLimit: {{ .revisionHistoryLimit }}
updateStrategy: {{- .updateStrategy | default (dict "type" "RollingUpdate" "rollingUpdate" (dict "maxUnavailable" .maxUnavailable)) | toYaml | nindent 2 }}
{{- end }}

{{/* Where a pod may run, and how it gets its images. Call with (list $ VALUES). */}}
{{- define "koord-suite.placement" -}}
{{- with (index . 0).Values.imagePullSecrets }}
imagePullSecrets: {{- toYaml . | nindent 0 }}
{{- end }}
{{- with (index . 1).priorityClassName }}
priorityClassName: {{ . | quote }}
{{- end }}
{{- with (index . 1).nodeSelector }}
nodeSelector: {{- toYaml . | nindent 2 }}
{{- end }}
{{- with (index . 1).tolerations }}
tolerations: {{- toYaml . | nindent 0 }}
{{- end }}
{{- end }}

{{/*
Placement, network and security context of a pod; podSecurityContext replaces single fields of the suite's own (a dict).
Call with (list $ VALUES CONTEXT).
*/}}
{{- define "koord-suite.pod" -}}
{{- $root := index . 0 -}}{{- $values := index . 1 -}}
{{- $context := $values.podSecurityContext | default dict | deepCopy -}}
{{- range $key, $value := index . 2 -}}
{{- if not (hasKey $context $key) -}}{{- $_ := set $context $key $value -}}{{- end -}}
{{- end -}}
{{- include "koord-suite.placement" (list $root $values) | trim }}
{{- if $values.hostNetwork }}
hostNetwork: true
{{- end }}
dnsPolicy: {{ if and $values.hostNetwork (eq $values.dnsPolicy "ClusterFirst") }}ClusterFirstWithHostNet{{ else }}{{ $values.dnsPolicy }}{{ end }}
{{- with $values.dnsConfig }}
dnsConfig: {{- toYaml . | nindent 2 }}
{{- end }}
securityContext: {{- toYaml $context | nindent 2 }}
{{- end }}

{{/* Affinity and spread of the replicas of a workload. Call with (list $ PART VALUES). */}}
{{- define "koord-suite.spread" -}}
{{- $selector := dict "labelSelector" (dict "matchLabels" (include "koord-suite.selectorLabels" . | fromYaml)) -}}
affinity:
  {{- include "koord-suite.affinity" (list (index . 0) (index . 2) (index . 1)) | nindent 2 }}
{{- with (index . 2).topologySpreadConstraints }}
topologySpreadConstraints:
{{- range . }}
{{- /* Without a selector a constraint counts no pod. */}}
- {{ hasKey . "labelSelector" | ternary . (merge (deepCopy .) $selector) | toYaml | nindent 2 | trim }}
{{- end }}
{{- end }}
{{- end }}

{{/*
The nodes of `affinity`, for pods with the manager's values that are not its replicas: affinity to pods is about those, and
would keep a hook from the only node. Call with VALUES.
*/}}
{{- define "koord-suite.nodeAffinity" -}}
{{- with get (.affinity | default dict) "nodeAffinity" -}}
nodeAffinity: {{- toYaml . | nindent 2 }}
{{- end }}
{{- end }}
