{{/* Name of a workload, its service account and its Lease. Call with (list $ "koordlet"). */}}
{{- define "koord-suite.name" -}}{{ (index . 0).Values.namePrefix }}{{ index . 1 }}{{- end }}

{{/* Selector labels of a workload. Call with (list $ "koordlet"). */}}
{{- define "koord-suite.selectorLabels" -}}
app.kubernetes.io/name: {{ index . 1 }}
app.kubernetes.io/instance: {{ (index . 0).Release.Name | quote }}
{{- end }}

{{/*
Labels of every object: the suite's own, those of one kind of object, and commonLabels; the first of these decides. Call
with (list $ "koordlet") or (list $ "koordlet" .podLabels).
*/}}
{{- define "koord-suite.labels" -}}
{{- $root := index . 0 -}}
{{- $more := gt (len .) 2 | ternary (last .) nil | default dict -}}
{{- $own := include "koord-suite.selectorLabels" . | fromYaml -}}
{{- $_ := set $own "app.kubernetes.io/part-of" ($root.Values.nameOverride | default "koord-suite") -}}
{{- $_ := set $own "app.kubernetes.io/version" $root.Chart.AppVersion -}}
{{- $_ := set $own "app.kubernetes.io/managed-by" $root.Release.Service -}}
{{- $_ := set $own "helm.sh/chart" (printf "%s-%s" $root.Chart.Name $root.Chart.Version) -}}
{{- merge $own $more ($root.Values.commonLabels | default dict) | toYaml -}}
{{- end }}

{{/*
Image and pull policy of a container, by the name of the image and where its values are, and the tag in place of an
empty one, by default the version of the chart. An image of the name and the version has the digest of the release, if
this is a released chart. Call with (list $ "koordlet" "koordlet.image").
*/}}
{{- define "koord-suite.image" -}}
{{- $root := index . 0 -}}{{- $name := index . 1 -}}{{- $image := $root.Values -}}
{{- range splitList "." (index . 2) -}}{{- $image = get $image . -}}{{- end -}}
{{- $registry := $root.Values.global.imageRegistry -}}
{{- $reference := $image.repository | default $name -}}
{{- /* As container runtimes read it: the first part is a registry if it has a dot or a port, or is localhost. */ -}}
{{- $isWhole := regexMatch "^(localhost|[^/]*[.:][^/]*)/" $reference -}}
{{- if not (or $isWhole $image.repository $registry) -}}
{{- fail (printf "%s.repository is not set. No image of this suite is published: make and push a release (docs/getting-started.md), then set global.imageRegistry to where it is, such as registry.example/koord-suite" (index . 2)) -}}
{{- end -}}
{{- if and $registry (not $isWhole) -}}
{{- $reference = printf "%s/%s" (trimSuffix "/" $registry) $reference -}}
{{- end -}}
{{- $tag := $image.tag -}}{{- $digest := $image.digest -}}
{{- if not (or $tag $digest) -}}
{{- $tag = gt (len .) 3 | ternary (last .) $root.Chart.AppVersion -}}
{{- end -}}
{{- if and (not $digest) (eq (base $reference) $name) (hasPrefix $root.Chart.AppVersion $tag) -}}
{{- $digest = get ($root.Values.global.imageDigests | default dict) (printf "%s%s" $name (trimPrefix $root.Chart.AppVersion $tag)) -}}
{{- end -}}
{{- with $tag -}}{{- $reference = printf "%s:%s" $reference . -}}{{- end -}}
{{- with $digest -}}{{- $reference = printf "%s@%s" $reference . -}}{{- end -}}
image: {{ $reference | quote }}
imagePullPolicy: {{ $image.pullPolicy }}
{{- end }}

{{/* plugin, extender or none: where the scheduler plugin runs. Keys of earlier releases are refused by name. */}}
{{- define "koord-suite.schedulerMode" -}}
{{- $scheduler := .Values.scheduler -}}
{{- $upgrade := "in your values. With --reuse-values, which brings old keys back, use --reset-then-reuse-values instead" -}}
{{- if hasKey $scheduler "enabled" -}}
{{- $new := ternary "plugin (or to extender, for an unmodified kube-scheduler as before)" "none" (ne (toString $scheduler.enabled) "false") -}}
{{- fail (printf "scheduler.enabled is replaced by scheduler.mode: remove scheduler.enabled (%v) and set scheduler.mode to %s %s" $scheduler.enabled $new $upgrade) -}}
{{- end -}}
{{- if hasKey $scheduler "queue" -}}
{{- fail (printf "scheduler.queue is gone, because refused pods are woken when a node passes: remove it %s" $upgrade) -}}
{{- end -}}
{{- required "scheduler.mode is not set: want plugin, extender or none" $scheduler.mode -}}
{{- end }}

{{/* Non-empty if the chart installs a scheduler. */}}
{{- define "koord-suite.hasScheduler" -}}
{{- if ne (include "koord-suite.schedulerMode" .) "none" -}}yes{{- end -}}
{{- end }}

{{/*
Image of kube-scheduler: koord-scheduler has the plugin compiled in, and is built for some minor versions of Kubernetes.
The newest one that is not newer than the cluster runs, which may be one minor older.
*/}}
{{- define "koord-suite.schedulerImage" -}}
{{- $version := semver .Capabilities.KubeVersion.Version -}}
{{- if eq (include "koord-suite.schedulerMode" .) "extender" -}}
{{- $tag := printf "v%d.%d.%d" $version.Major $version.Minor $version.Patch -}}
{{- include "koord-suite.image" (list . "registry.k8s.io/kube-scheduler" "scheduler.image" $tag) -}}
{{- else -}}
{{- $build := 0 -}}
{{- range list 34 36 37 -}}
{{- if le . (int $version.Minor) -}}{{- $build = . -}}{{- end -}}
{{- end -}}
{{- if eq (base .Values.scheduler.image.repository) "kube-scheduler" -}}
{{- fail (printf "scheduler.image.repository is %s, which has no plugin: name a copy of koord-scheduler, or set scheduler.mode to extender" .Values.scheduler.image.repository) -}}
{{- end -}}
{{- $tag := printf "%s-1.%d" .Chart.AppVersion $build -}}
{{- include "koord-suite.image" (list . "koord-scheduler" "scheduler.image" $tag) -}}
{{- end -}}
{{- end }}

{{/* Flags that all programs of the suite share. */}}
{{- define "koord-suite.commonArgs" -}}
- --log-format={{ .Values.logFormat }}
- --log-level={{ .Values.logLevel }}
{{- end }}

{{/* Annotations of a pod; a port of 0 is none. Call with (list $ .Values.koordlet.podAnnotations $port). */}}
{{- define "koord-suite.podAnnotations" -}}
{{- $annotations := index . 1 | default dict | deepCopy -}}
{{- if and (index . 0).Values.prometheusAnnotations (index . 2) -}}
{{- $scrape := dict "prometheus.io/scrape" "true" "prometheus.io/port" (index . 2 | toString) "prometheus.io/path" "/metrics" -}}
{{- $annotations = merge $annotations $scrape -}}
{{- end -}}
{{- with $annotations }}{{ toYaml . }}{{ end -}}
{{- end }}

{{/* User of the agent and of nothing else: with the /proc of the host a process reads the environment of every process of
its own user, and 65532 is the user of many images. It is above the users of a host (to 60000) and below the dynamic
users of systemd (from 61184). The image is built for it. */}}
{{- define "koord-suite.agentUser" -}}60931{{- end }}

{{/* User of every process but the agent; the images are built for it. OpenShift chooses one of the namespace instead. */}}
{{- define "koord-suite.podSecurityContext" -}}
runAsNonRoot: true
{{- if not .Values.openshift.enabled }}
runAsUser: 65532
runAsGroup: 65532
{{- end }}
seccompProfile: {type: RuntimeDefault}
{{- end }}

{{- define "koord-suite.containerSecurityContext" -}}
allowPrivilegeEscalation: false
readOnlyRootFilesystem: true
capabilities: {drop: [ALL]}
{{- end }}

{{/* Affinity from the values, else replicas on different nodes if possible. Call with (list $ .Values.manager "koord-manager"). */}}
{{- define "koord-suite.affinity" -}}
{{- with (index . 1).affinity -}}
{{ toYaml . }}
{{- else -}}
podAntiAffinity:
  preferredDuringSchedulingIgnoredDuringExecution:
  - weight: 100
    podAffinityTerm:
      topologyKey: kubernetes.io/hostname
      labelSelector:
        matchLabels:
          {{- include "koord-suite.selectorLabels" (list (index . 0) (index . 2)) | nindent 10 }}
{{- end -}}
{{- end }}

{{/* User name of a service account in the API server. Call with (list $ "koordlet"). */}}
{{- define "koord-suite.user" -}}
system:serviceaccount:{{ (index . 0).Release.Namespace }}:{{ include "koord-suite.serviceAccountName" . }}
{{- end }}

{{/* Binding that activates an admission policy. Call with (list $ "koordlet" "name-of-the-policy" "Deny"). */}}
{{- define "koord-suite.policyBinding" -}}
apiVersion: admissionregistration.k8s.io/v1
kind: ValidatingAdmissionPolicyBinding
metadata:
  name: {{ index . 2 }}
  labels:
    {{- include "koord-suite.labels" (list (index . 0) (index . 1)) | nindent 4 }}
spec:
  policyName: {{ index . 2 }}
  validationActions: [{{ index . 3 }}]
{{- end }}

{{/* Fields of metadata that the API server changes in a write of an annotation, and the annotations. */}}
{{- define "koord-suite.serverMetadata" -}}
['annotations', 'managedFields', 'resourceVersion']
{{- end }}

{{/* The part of an object before and after a write, as a map. Call with (list "name" "expression of %s" ...). */}}
{{- define "koord-suite.partVariables" -}}
- name: {{ index . 0 }}
  expression: {{ printf (index . 1) "object" }}
- name: {{ index . 0 }}Before
  expression: {{ printf (index . 1) "oldObject" }}
{{- end }}

{{/* Refuse any change of the part but of the allowed keys. Call with (list "name" "" "allowed keys" "where"). */}}
{{- define "koord-suite.partValidation" -}}
{{- $now := printf "variables.%s" (index . 0) -}}{{- $before := printf "%sBefore" $now -}}{{- $allowed := index . 2 -}}
- expression: >-
    request.operation != 'UPDATE'
    || {{ $now }}.all(k, k in {{ $allowed }} || k in {{ $before }} && {{ $before }}[k] == {{ $now }}[k])
    && {{ $before }}.all(k, k in {{ $allowed }} || k in {{ $now }})
  reason: Forbidden
  messageExpression: >-
    'koord-manager may change only ' + {{ $allowed }}.join(' and ') + ' {{ index . 3 }}'
{{- end }}

{{/* Variables of the admission policies for pods: variables.resources holds the requests and limits of every container
and of the pod as a whole. */}}
{{- define "koord-suite.midPodVariables" -}}
- name: names
  expression: "['kubernetes.io/mid-cpu', 'kubernetes.io/mid-memory']"
- name: resources
  expression: >-
    (variables.spec.containers.map(c, dyn(c)) + variables.spec.?initContainers.orValue([]).map(c, dyn(c))
    + [dyn(variables.spec)]).map(c,
    {'requests': c.?resources.?requests.orValue({}), 'limits': c.?resources.?limits.orValue({})})
- name: fractions
  expression: >-
    (variables.resources.map(r, r.requests) + variables.resources.map(r, r.limits)).map(m,
    variables.names.filter(n, n in m && !quantity(string(m[n])).isInteger()).map(n, n + ': ' + string(m[n])))
    .filter(f, f.size() > 0)
{{- end }}

{{/* Fields that all pods with the manager's image share. Call with (list $ .Values.manager). */}}
{{- define "koord-suite.managerPod" -}}
{{- $context := include "koord-suite.podSecurityContext" (index . 0) | fromYaml -}}
{{- include "koord-suite.pod" (list (index . 0) (index . 1) $context) -}}
{{- end }}

{{/* Annotations of a hook object that is deleted after the hook has succeeded. Call with (list "pre-delete" "-1"). */}}
{{- define "koord-suite.hook" -}}
helm.sh/hook: {{ index . 0 }}
helm.sh/hook-weight: {{ index . 1 | quote }}
helm.sh/hook-delete-policy: before-hook-creation,hook-succeeded
{{- end }}

{{/*
Plugins of the extender, with their weights and arguments. Beside an autoscaler, load alone refuses a Prod pod for 60 s
at most, unless softAfterSeconds is set.
*/}}
{{- define "koord-suite.policies" -}}
{{- with .Values.scheduler.plugin.plugins }}
plugins: {{- toYaml . | nindent 2 }}
{{- end }}
{{- $all := deepCopy (default dict .Values.scheduler.plugin.pluginArgs) }}
{{- if ne .Values.autoscaling "none" }}
{{- $own := default dict (get $all "LoadAwareScheduling") }}
{{- if not (hasKey $own "softAfterSeconds") }}{{ $_ := set $own "softAfterSeconds" 60 }}{{ end }}
{{- $_ := set $all "LoadAwareScheduling" $own }}
{{- end }}
pluginConfig:
{{- range $name, $args := $all }}
- name: {{ $name | quote }}
  args: {{- toYaml $args | nindent 4 }}
{{- end }}
{{- end }}

{{/*
Volumes of metrics providers, with their secrets and with their kept measurements, and the mounts. Call with
.Values.scheduler.plugin.
*/}}
{{- define "koord-suite.providerVolumes" -}}
{{- if .tokenSecret.name -}}
- name: provider-secrets
  secret: {secretName: {{ .tokenSecret.name | quote }}}
{{ end -}}
{{- if .keepMeasurements -}}
- name: measurements
  emptyDir: {}
{{- end -}}
{{- end -}}
{{- define "koord-suite.providerMounts" -}}
{{- if .tokenSecret.name -}}
- {name: provider-secrets, mountPath: /etc/scheduler-plugin-secrets, readOnly: true}
{{ end -}}
{{- if .keepMeasurements -}}
- {name: measurements, mountPath: /var/lib/scheduler-plugin}
{{- end -}}
{{- end -}}

{{/* Non-empty if TargetLoadPacking scores. Call with scheduler.plugin. */}}
{{- define "koord-suite.packs" -}}
{{- if .enabled -}}
{{- $score := default dict .plugins.score -}}
{{- $everywhere := default dict .plugins.multiPoint -}}
{{- range concat (default list $score.enabled) (default list $everywhere.enabled) -}}
{{- if eq .name "TargetLoadPacking" -}}yes{{- end -}}
{{- end -}}
{{- end -}}
{{- end -}}

{{/* Non-empty unless no plugin filters: `*` is disabled and none is enabled. Call with scheduler.plugin. */}}
{{- define "koord-suite.filters" -}}
{{- $filter := default dict .plugins.filter -}}
{{- $everywhere := default dict .plugins.multiPoint -}}
{{- $isOff := false -}}
{{- range $filter.disabled -}}{{- if eq .name "*" -}}{{- $isOff = true -}}{{- end -}}{{- end -}}
{{- if or (not $isOff) $filter.enabled $everywhere.enabled -}}yes{{- end -}}
{{- end -}}

{{/* Container of the extender, without its ports and volumes. Call with (list $ $flags). */}}
{{- define "koord-suite.extenderContainer" -}}
{{- $root := index . 0 -}}
{{- with $root.Values.scheduler.plugin -}}
{{ include "koord-suite.image" (list $root "scheduler-plugin" "scheduler.plugin.image") }}
args:
- run
- --config=/etc/koord-scheduler/scheduler-plugin.yaml
{{- if .keepMeasurements }}
- --measurement-file=/var/lib/scheduler-plugin/windows.sqlite
{{- end }}
{{- with index $ 1 }}
{{ toYaml . }}
{{- end }}
{{ include "koord-suite.commonArgs" $root }}
{{- with .extraArgs }}
{{ toYaml . }}
{{- end }}
env:
- {name: OPENBLAS_NUM_THREADS, value: "1"}
- {name: MALLOC_MMAP_THRESHOLD_, value: "131072"} # returns the buffers of closed connections, 256 KiB each
{{- with .extraEnv }}
{{ toYaml . }}
{{- end }}
startupProbe:
  httpGet: {path: /startupz, port: http}
  initialDelaySeconds: 3
  periodSeconds: 1
  timeoutSeconds: 3
  failureThreshold: 120
livenessProbe:
  httpGet: {path: /healthz, port: http}
  periodSeconds: 10
  timeoutSeconds: 5
  failureThreshold: 6
readinessProbe:
  httpGet: {path: /readyz, port: http}
  periodSeconds: 5
  timeoutSeconds: 3
securityContext:
  {{- include "koord-suite.containerSecurityContext" $root | nindent 2 }}
resources: {{- toYaml .resources | nindent 2 }}
{{- end }}
{{- end }}

{{/* Non-empty if Koordinator's webhook changes pods in this cluster. Without a cluster (helm template) it is not seen. */}}
{{- define "koord-suite.upstreamPodWebhook" -}}
{{- range (lookup "admissionregistration.k8s.io/v1" "MutatingWebhookConfiguration" "" "").items -}}
{{- range .webhooks -}}
{{- if regexMatch "^mpod.*[.]koordinator[.]sh$" .name -}}{{ .name }} {{ end -}}
{{- end -}}
{{- end -}}
{{- end }}

{{/*
How new Mid pods get their limits: policy, webhook or none. `auto` chooses the webhook in a cluster that helm sees only:
elsewhere it cannot see Koordinator's webhook either. Every cluster has the namespace kube-system.
*/}}
{{- define "koord-suite.admissionMode" -}}
{{- $served := printf "admissionregistration.k8s.io/%s/MutatingAdmissionPolicy" .Values.admission.policyVersion -}}
{{- if include "koord-suite.upstreamPodWebhook" . -}}none
{{- else if ne .Values.admission.mode "auto" -}}{{ .Values.admission.mode }}
{{- else if .Capabilities.APIVersions.Has $served -}}policy
{{- else if lookup "v1" "Namespace" "" "kube-system" -}}webhook
{{- else -}}none
{{- end -}}
{{- end }}

{{/* Scheduler of Mid pods that name none. */}}
{{- define "koord-suite.midScheduler" -}}
{{- .Values.admission.schedulerName | default (ternary .Values.scheduler.name "default-scheduler" (ne (include "koord-suite.schedulerMode" .) "none")) -}}
{{- end }}

{{/*
Schedulers that may place pods that request Mid resources, as JSON; empty where any may: `*` is listed, or this chart
installs none and none is listed.
*/}}
{{- define "koord-suite.midSchedulers" -}}
{{- $listed := default list .Values.admissionPolicies.midSchedulers -}}
{{- $own := ternary (list .Values.scheduler.name) list (ne (include "koord-suite.schedulerMode" .) "none") -}}
{{- if and (concat $own $listed) (not (has "*" $listed)) -}}
{{- concat $own (compact (list .Values.admission.schedulerName)) $listed | uniq | toJson -}}
{{- end -}}
{{- end }}

{{/* Constraints of advice: pods, and the templates that controllers make them of. */}}
{{- define "koord-suite.podsAndTemplates" -}}
resourceRules:
- apiGroups: [""]
  apiVersions: [v1]
  operations: [CREATE]
  resources: [pods]
- apiGroups: [apps]
  apiVersions: [v1]
  operations: [CREATE, UPDATE]
  resources: [deployments, statefulsets, daemonsets]
- apiGroups: [batch]
  apiVersions: [v1]
  operations: [CREATE]
  resources: [jobs]
- apiGroups: [batch]
  apiVersions: [v1]
  operations: [CREATE, UPDATE]
  resources: [cronjobs]
{{- end }}

{{/* The pod or the template of one in an object of podsAndTemplates. */}}
{{- define "koord-suite.template" -}}
(object.kind == 'Pod' ? dyn(object) : object.kind == 'CronJob' ? dyn(object).spec.jobTemplate.spec.template : dyn(object).spec.template)
{{- end }}

{{/* Whether it is of a Mid pod, by the rule of the policy for limits. */}}
{{- define "koord-suite.isMid" -}}
{{- $condition := index (.Files.Get "files/mid-limits-conditions.yaml" | fromYamlArray) 0 -}}
{{- $condition.expression | replace "[object]" (printf "[%s]" (include "koord-suite.template" .)) -}}
{{- end }}

{{/* Whether a running pod is Mid if it has Mid limits: without a class of its own it was Mid by a label. */}}
{{- define "koord-suite.mayBeMid" -}}
"[oldObject.spec.?priority.orValue(0)].all(p, p <= 7999 && !(p / 1000 in [3, 5]))"
{{- end }}

{{/* Conditions of advice for the author of a pod or of a template. */}}
{{- define "koord-suite.authorConditions" -}}
- name: spec-created-or-changed
  expression: request.operation == 'CREATE' || object.spec != oldObject.spec
# Objects of a controller are skipped: the author of the template gets the warning for the template.
- name: without-controller
  expression: >-
    !object.metadata.?ownerReferences.orValue([]).exists(o, o.?controller.orValue(false))
{{- end }}

{{/* Conditions of the advice for Mid pods and their templates. */}}
{{- define "koord-suite.midPodConditions" -}}
{{ include "koord-suite.authorConditions" . }}
- name: a-mid-pod
  expression: {{ include "koord-suite.isMid" . | quote }}
{{- end }}

{{/* Non-empty if this upgrade takes the right to resize pods from the agents: limits that they lowered are restored. */}}
{{- define "koord-suite.endsSuppression" -}}
{{- if and .Release.IsUpgrade .Values.manager.enabled (not (and .Values.koordlet.enabled .Values.koordlet.suppression.enabled)) -}}
{{- range (lookup "rbac.authorization.k8s.io/v1" "ClusterRole" "" "koord-suite-koordlet").rules -}}
{{- if has "pods/resize" .resources }}true{{ end -}}
{{- end -}}
{{- end -}}
{{- end }}

{{/* RBAC rules of a hook that restores CPU limits. Limited by koordlet/suppression-policy.yaml. */}}
{{- define "koord-suite.restoreLimitsRules" -}}
- apiGroups: [""]
  resources: [pods]
  verbs: [list]
- apiGroups: [""]
  resources: [pods/resize]
  verbs: [patch]
# Events that name what refuses to restore a limit.
- apiGroups: [""]
  resources: [events]
  verbs: [create]
{{- end }}
