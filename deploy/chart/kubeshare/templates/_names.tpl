{{- /* What selects the pods: never changed by an upgrade. */}}
{{- define "kubeshare.selector" -}}
app.kubernetes.io/name: {{ .Values.name }}
{{- end }}

{{- define "collector.selector" -}}
app.kubernetes.io/name: {{ .Values.collector.name }}
{{- end }}

{{- define "kubeshare.labels" -}}
{{ include "kubeshare.selector" . }}
{{ include "kubeshare.labels-of-all" . }}
{{- end }}

{{- define "collector.labels" -}}
{{ include "collector.selector" . }}
{{ include "kubeshare.labels-of-all" . }}
{{- end }}

{{- define "kubeshare.labels-of-all" -}}
app.kubernetes.io/version: {{ .Chart.AppVersion | quote }}
{{- with .Values.labels }}
{{ toYaml . }}
{{- end }}
{{- end }}

{{- /* metadata of an object in the release's namespace. */}}
{{- define "kubeshare.metadata" -}}
name: {{ .Values.name }}
namespace: {{ .Release.Namespace }}
labels:
  {{- include "kubeshare.labels" . | nindent 2 }}
{{- end }}

{{- define "collector.metadata" -}}
name: {{ .Values.collector.name }}
namespace: {{ .Release.Namespace }}
labels:
  {{- include "collector.labels" . | nindent 2 }}
{{- end }}

{{- /* Folders of the node in which it is seen whether the back-ends of some profile work there. Never the folder that a
pod's own volume needs: made here, it would be there for the pod, with nothing behind it. */}}
{{- define "collector.folders" -}}
{{- $used := list }}
{{- range include "kubeshare.profiles" . | fromJsonArray }}
{{- $used = concat $used (.isolation | default list) }}
{{- end }}
{{- $folders := list }}
{{- if .Values.collector.watchIsolation }}
{{- range $backend, $folder := dict "driver" (dict "name" "cdi" "path" "/var/run/cdi") "gemini" (dict "name" "gemini" "path" "/kubeshare") "hami-core" (dict "name" "vgpu" "path" "/usr/local/vgpu") "mps" (dict "name" "mps-alive" "path" "/run/kubeshare/mps-alive") }}
{{- if has $backend $used }}
{{- $folders = append $folders $folder }}
{{- end }}
{{- end }}
{{- end }}
{{- toYaml $folders }}
{{- end }}

{{- define "kubeshare.image" -}}
{{- include "kubeshare.image-of" (list . .Values.image) }}
{{- end }}

{{- /* All of them have one image, unless the collector was given its own. */}}
{{- define "collector.memory" -}}
{{- with .Values.collector.memory -}}
{{- $rules := list -}}
{{- range $model, $amount := . }}{{ $rules = append $rules (printf "%s=%s" $model $amount) }}{{ end -}}
- {name: KUBESHARE_CARD_MEMORY, value: {{ join "," $rules | quote }}}
{{- end -}}
{{- end }}
{{- define "collector.image" -}}
{{- include "kubeshare.image-of" (list . (.Values.collector.image | default .Values.image)) }}
{{- end }}

{{- /* Of the release and what its values say of an image. */}}
{{- define "kubeshare.image-of" -}}
{{- $release := first . }}
{{- with last . -}}
{{ .repository }}{{ if .digest }}@{{ .digest }}{{ else }}:{{ .tag | default $release.Chart.AppVersion }}{{ end }}
{{- end }}
{{- end }}

{{- define "kubeshare.port" -}}
{{ dig "server" "port" 10259 .Values.config }}
{{- end }}

{{- define "kubeshare.extenderPort" -}}
{{ dig "extender" "port" 10270 .Values.config }}
{{- end }}

{{- /* Whom kube-apiserver trusts to be the scheduler: as it is said, or as the certificate's Secret says; base64. Without a
Secret the scheduler writes it there itself. */}}
{{- define "kubeshare.caBundle" -}}
{{- if .Values.apiService.caBundle }}
{{- b64enc .Values.apiService.caBundle }}
{{- else if and .Values.certificateSecret (not .Values.apiService.injectCaFrom) }}
{{- $secret := lookup "v1" "Secret" .Release.Namespace .Values.certificateSecret }}
{{- dig "data" "ca.crt" "" $secret }}
{{- end }}
{{- end }}

{{- define "kubeshare.elects" -}}
{{ dig "leaderElection" "leaderElect" true .Values.config }}
{{- end }}

{{- /* The configuration file: what the values say, and what only the chart can know. */}}
{{- define "kubeshare.config" -}}
{{- $server := dict "service" .Values.name }}
{{- if .Values.certificateSecret }}
{{- $_ := set $server "certificateFile" "/etc/kubeshare-tls/tls.crt" }}
{{- $_ := set $server "keyFile" "/etc/kubeshare-tls/tls.key" }}
{{- end }}
{{- if not .Values.apiService.enabled }}
{{- $_ := set $server "apiService" false }}
{{- end }}
{{- $extender := dict }}
{{- if .Values.extender.certificateSecret }}
{{- $_ := set $extender "certificateFile" "/etc/kubeshare-extender-tls/tls.crt" }}
{{- $_ := set $extender "keyFile" "/etc/kubeshare-extender-tls/tls.key" }}
{{- if .Values.extender.clientCertificates }}
{{- $_ := set $extender "clientCaFile" "/etc/kubeshare-extender-tls/ca.crt" }}
{{- end }}
{{- end }}
{{- $hami := dict "port" (ternary 9395 0 .Values.hamiMetrics.enabled) "legacy" .Values.hamiMetrics.legacy }}
{{- $election := dict "resourceNamespace" .Release.Namespace "resourceName" .Values.name }}
{{- $ours := dict "server" $server "leaderElection" $election }}
{{- if ne (include "kubeshare.chosenDialects" .) "[]" }}
{{- $_ := set $ours "profiles" (include "kubeshare.profiles" . | fromJsonArray) }}
{{- end }}
{{- if $extender }}
{{- $_ := set $ours "extender" $extender }}
{{- end }}
{{- if .Values.hamiMetrics.enabled }}
{{- $_ := set $ours "hamiMetrics" $hami }}
{{- end }}
{{- $inventory := .Values.config.inventory | default dict }}
{{- if and (eq ($inventory.source | default "") "file") (not $inventory.path) }}
{{- $_ := set $ours "inventory" (dict "path" "/etc/kubeshare/inventory.yaml") }}
{{- if not .Values.cards }}
{{- fail "config.inventory.source file: say which cards there are in `cards`, or mount a file and name it in config.inventory.path" }}
{{- end }}
{{- end }}
{{- toYaml (mergeOverwrite (deepCopy .Values.config) $ours) }}
{{- end }}

{{- /* What a running scheduler cannot take over: all but what its profiles consist of. */}}
{{- define "kubeshare.fixed" -}}
{{- $names := list }}
{{- range include "kubeshare.profiles" . | fromJsonArray }}
{{- $names = append $names (list (.schedulerName | default "kubeshare-scheduler") .dialects .extender) }}
{{- end }}
{{- $config := include "kubeshare.config" . | fromYaml }}
{{- dict "config" (omit $config "profiles") "names" $names | toJson }}
{{- end }}

{{- /* For the Prometheus operator. Rules, and the scheduler's configuration, know the jobs by these names. */}}
{{- define "kubeshare.relabelings" -}}
- {targetLabel: job, replacement: kubeshare-scheduler}
- {sourceLabels: [__meta_kubernetes_pod_name], targetLabel: instance}
{{- end }}

{{- define "controller.relabelings" -}}
- {targetLabel: job, replacement: kubeshare-controller}
- {sourceLabels: [__meta_kubernetes_pod_name], targetLabel: instance}
{{- end }}

{{- /* Whatever pod it is, the collector of a node goes on being the same one. */}}
{{- define "collector.relabelings" -}}
- {targetLabel: job, replacement: kubeshare-collector}
- {sourceLabels: [__meta_kubernetes_pod_node_name], targetLabel: instance}
- {sourceLabels: [__meta_kubernetes_pod_node_name], targetLabel: node}
{{- end }}

{{- /* metadata of an object in the release's namespace that has a name of its own: of the release and this name. */}}
{{- define "kubeshare.namedMetadata" -}}
name: {{ last . }}
namespace: {{ (first .).Release.Namespace }}
labels:
  {{- include "kubeshare.namedLabels" . | nindent 2 }}
{{- end }}

{{- define "kubeshare.namedLabels" -}}
app.kubernetes.io/name: {{ last . }}
{{ include "kubeshare.labels-of-all" (first .) }}
{{- end }}

{{- /* collector.affinity, and with collector.leavePausedNodes no node that NVIDIA's GPU Operator pauses: it gives the labels
of the parts that have the driver open such a value before it changes the driver, MIG or the mode of cards. Each of the
terms is enough by itself, so each gets these requirements. A node without the labels meets them. */}}
{{- define "kubeshare.affinityOfCollectors" -}}
{{- $affinity := deepCopy (.Values.collector.affinity | default dict) }}
{{- if .Values.collector.leavePausedNodes }}
{{- $paused := list "paused-for-driver-upgrade" "paused-for-mig-change" "paused-for-vgpu-change" "paused-for-cc-mode-change" }}
{{- $pauses := list }}
{{- range list "client" "device-plugin" "gpu-feature-discovery" "dcgm-exporter" "dcgm" "sandbox-device-plugin" }}
{{- $pauses = append $pauses (dict "key" (printf "nvidia.com/gpu.deploy.%s" .) "operator" "NotIn" "values" $paused) }}
{{- end }}
{{- $nodes := $affinity.nodeAffinity | default dict }}
{{- $required := $nodes.requiredDuringSchedulingIgnoredDuringExecution | default dict }}
{{- $terms := list }}
{{- range $required.nodeSelectorTerms | default (list dict) }}
{{- $terms = append $terms (merge (dict "matchExpressions" (concat (.matchExpressions | default list) $pauses)) .) }}
{{- end }}
{{- $_ := set $nodes "requiredDuringSchedulingIgnoredDuringExecution" (dict "nodeSelectorTerms" $terms) }}
{{- $_ := set $affinity "nodeAffinity" $nodes }}
{{- end }}
{{- with $affinity }}{{ toYaml . }}{{ end }}
{{- end }}

{{- /* The user of pods that need none in particular; without runAsUser the platform chooses one (OpenShift's restricted-v2). */}}
{{- define "kubeshare.plainUser" -}}
runAsNonRoot: true
{{- if not (kindIs "invalid" .Values.runAsUser) }}
runAsUser: {{ int64 .Values.runAsUser }}
runAsGroup: {{ int64 .Values.runAsUser }}
{{- end }}
{{- end }}

{{- /* As before, with the group of mounted files, or the key of a certificate could not be read. */}}
{{- define "kubeshare.plainUserWithFiles" -}}
{{ include "kubeshare.plainUser" . }}
{{- if not (kindIs "invalid" .Values.runAsUser) }}
fsGroup: {{ int64 .Values.runAsUser }}
{{- end }}
{{- end }}

{{- /* What the pods of all DaemonSets have in common that run where the collectors do. */}}
{{- define "kubeshare.likeCollectors" -}}
enableServiceLinks: false
priorityClassName: {{ .Values.collector.priorityClassName }}
{{- with .Values.collector.runtimeClassName }}
runtimeClassName: {{ . }}  # brings the driver's library in
{{- end }}
terminationGracePeriodSeconds: 10
{{- with .Values.imagePullSecrets }}
imagePullSecrets:
  {{- toYaml . | nindent 2 }}
{{- end }}
{{- with include "kubeshare.affinityOfCollectors" . }}
affinity:
  {{- . | nindent 2 }}
{{- end }}
{{- with .Values.collector.nodeSelector }}
nodeSelector:
  {{- toYaml . | nindent 2 }}
{{- end }}
{{- with .Values.collector.tolerations }}
tolerations:
  {{- toYaml . | nindent 2 }}
{{- end }}
{{- end }}
