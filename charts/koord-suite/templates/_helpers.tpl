{{/* Labels by which a workload finds its pods. Call with (list $ "koordlet"). */}}
{{- define "koord-suite.selectorLabels" -}}
app.kubernetes.io/name: {{ index . 1 }}
app.kubernetes.io/instance: {{ (index . 0).Release.Name }}
{{- end }}

{{/* Labels of every object. Call with (list $ "koordlet"). */}}
{{- define "koord-suite.labels" -}}
{{- $root := index . 0 -}}
{{ include "koord-suite.selectorLabels" . }}
app.kubernetes.io/part-of: koord-suite
app.kubernetes.io/version: {{ $root.Chart.AppVersion | quote }}
app.kubernetes.io/managed-by: {{ $root.Release.Service }}
helm.sh/chart: {{ $root.Chart.Name }}-{{ $root.Chart.Version }}
{{- end }}

{{/* Image and pull policy of a container. Call with (list .Values.koordlet.image $defaultTag). */}}
{{- define "koord-suite.image" -}}
{{- $image := index . 0 -}}
image: {{ printf "%s:%s" $image.repository ($image.tag | default (index . 1)) | quote }}
imagePullPolicy: {{ $image.pullPolicy }}
{{- end }}

{{/* Version of the cluster as kube-scheduler images are tagged: v1.34.4-gke.100 is v1.34.4. */}}
{{- define "koord-suite.kubernetesTag" -}}
{{ regexFind "^v[0-9]+[.][0-9]+[.][0-9]+" .Capabilities.KubeVersion.Version }}
{{- end }}

{{/* Flags that all of our programs share. */}}
{{- define "koord-suite.commonArgs" -}}
- --log-format={{ .Values.logFormat }}
- --log-level={{ .Values.logLevel }}
{{- end }}

{{/* Annotations of a pod. Call with (list $ .Values.koordlet.podAnnotations $port). */}}
{{- define "koord-suite.podAnnotations" -}}
{{- $annotations := index . 1 | deepCopy -}}
{{- if (index . 0).Values.prometheusAnnotations -}}
{{- $scrape := dict "prometheus.io/scrape" "true" "prometheus.io/port" (index . 2 | toString) "prometheus.io/path" "/metrics" -}}
{{- $annotations = merge $annotations $scrape -}}
{{- end -}}
{{- with $annotations }}{{ toYaml . }}{{ end -}}
{{- end }}

{{/* The user every process runs as; the images are built for it. */}}
{{- define "koord-suite.podSecurityContext" -}}
runAsNonRoot: true
runAsUser: 65532
runAsGroup: 65532
seccompProfile: {type: RuntimeDefault}
{{- end }}

{{- define "koord-suite.containerSecurityContext" -}}
allowPrivilegeEscalation: false
readOnlyRootFilesystem: true
capabilities: {drop: [ALL]}
{{- end }}

{{/* Replicas on different nodes if possible, unless the user says where. Call with (list $ .Values.manager "koord-manager"). */}}
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
