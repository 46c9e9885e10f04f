{{/*
Fail if an object of this release belongs to another helm release, such as Koordinator's: helm would refuse it without
the name of the value that leaves it to its owner. Without a cluster (helm template) no object is seen.
*/}}
{{- define "koord-suite.refuseObjectsOfOthers" -}}
{{- $release := .Release -}}
{{- $values := .Values -}}
{{- $found := list -}}
{{- range list
  (list $values.koordlet.enabled "apps/v1" "DaemonSet" $release.Namespace (include "koord-suite.name" (list . "koordlet")) "koordlet.enabled=false")
  (list $values.manager.enabled "apps/v1" "Deployment" $release.Namespace (include "koord-suite.name" (list . "koord-manager")) "manager.enabled=false")
  (list (ne (include "koord-suite.schedulerMode" .) "none") "apps/v1" "Deployment" $release.Namespace (include "koord-suite.name" (list . "koord-scheduler")) "scheduler.mode=none")
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
{{- fail (printf "objects of another helm release have the names of this one's; beside Koordinator set namePrefix, or use a namespace of your own: see docs/how-to/beside-koordinator.md.\n%s" (join "\n" .)) -}}
{{- end -}}
{{- if and (eq $values.scheduler.name "koord-scheduler") (ne (include "koord-suite.schedulerMode" .) "none") -}}
{{- $theirs := lookup "apps/v1" "Deployment" "koordinator-system" "koord-scheduler" -}}
{{- if and (dig "metadata" "labels" "koord-app" "" $theirs) (dig "spec" "replicas" 0 $theirs) -}}
{{- fail "Koordinator's koord-scheduler runs in koordinator-system, and both would bind the same pods: set its replicas to 0, scheduler.name to another name, or scheduler.mode=none; see docs/how-to/beside-koordinator.md" -}}
{{- end -}}
{{- end -}}
{{- end }}
