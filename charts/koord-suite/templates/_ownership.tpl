{{/*
Fail if an object of this release belongs to another helm release, such as Koordinator's: helm would refuse it without
the name of the value that leaves it to its owner. Without a cluster (helm template) no object is seen.
*/}}
{{- define "koord-suite.refuseObjectsOfOthers" -}}
{{- $release := .Release -}}
{{- $values := .Values -}}
{{- $found := list -}}
{{- range list
  (list $values.koordlet.enabled "apps/v1" "DaemonSet" $release.Namespace "koordlet" "koordlet.enabled=false")
  (list $values.manager.enabled "apps/v1" "Deployment" $release.Namespace "koord-manager" "manager.enabled=false")
  (list (ne (include "koord-suite.schedulerMode" .) "none") "apps/v1" "Deployment" $release.Namespace "koord-scheduler" "scheduler.mode=none")
  (list $values.sloControllerConfig.create "v1" "ConfigMap" $release.Namespace $values.sloControllerConfig.name "sloControllerConfig.create=false")
  (list $values.crds.install "apiextensions.k8s.io/v1" "CustomResourceDefinition" "" "nodemetrics.slo.koordinator.sh" "crds.install=false")
  (list $values.priorityClasses.create "scheduling.k8s.io/v1" "PriorityClass" "" "koord-prod" "priorityClasses.create=false")
-}}
{{- $kind := index . 2 -}}{{- $name := index . 4 -}}{{- $value := index . 5 -}}
{{- if index . 0 -}}
{{- with lookup (index . 1) $kind (index . 3) $name -}}
{{- $owner := dig "annotations" "meta.helm.sh/release-name" "" .metadata -}}
{{- $place := dig "annotations" "meta.helm.sh/release-namespace" $release.Namespace .metadata -}}
{{- if and $owner (or (ne $owner $release.Name) (ne $place $release.Namespace)) -}}
{{- $found = append $found (printf "%s %s is of the release %s in %s: set %s" $kind $name $owner $place $value) -}}
{{- end -}}
{{- end -}}
{{- end -}}
{{- end -}}
{{- with $found -}}
{{- fail (printf "objects of another helm release have the names of this one's; see docs/how-to/install.md.\n%s" (join "\n" .)) -}}
{{- end -}}
{{- end }}
