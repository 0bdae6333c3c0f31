{{- /* What values.schema.json cannot say: rules about several values. Each message begins with the path of a value. */}}
{{- define "kubeshare.checks" -}}
{{- include "kubeshare.checkProfiles" . }}
{{- include "kubeshare.checkDialects" . }}
{{- include "kubeshare.checkFiles" . }}
{{- include "kubeshare.checkTexts" . }}
{{- include "kubeshare.checkAgent" . }}
{{- include "kubeshare.checkExtender" . }}
{{- if and .Values.admission.others (eq (include "kubeshare.admission" .) "none") }}
{{- fail "admission.others: true: needs admission.by auto, policy or webhook, not none" }}
{{- end }}
{{- if and (eq (dig "inventory" "source" "auto" .Values.config) "annotation") .Values.collector.enabled (not .Values.collector.annotateNode) }}
{{- fail "config.inventory.source: annotation: needs collector.annotateNode=true, or collectors write no annotations; with collector.enabled=false something else has to" }}
{{- end }}
{{- end }}

{{- define "kubeshare.checkAgent" -}}
{{- if and .Values.nodeAgent.devices (not .Values.nodeAgent.enabled) }}
{{- fail "nodeAgent.devices: needs nodeAgent.enabled=true, which serves them" }}
{{- end }}
{{- if and .Values.nodeAgent.hamiCore.enabled (not .Values.nodeAgent.devices) }}
{{- fail "nodeAgent.hamiCore.enabled: true: needs nodeAgent.devices, with which containers get it, such as [nvidia.com/gpu]" }}
{{- end }}
{{- if and .Values.nodeAgent.hamiCore.metrics.enabled (not .Values.nodeAgent.hamiCore.enabled) }}
{{- fail "nodeAgent.hamiCore.metrics.enabled: true: needs nodeAgent.hamiCore.enabled=true, which reads them" }}
{{- end }}
{{- if and .Values.nodeAgent.gemini.enabled (not .Values.nodeAgent.enabled) }}
{{- fail "nodeAgent.gemini.enabled: true: needs nodeAgent.enabled=true, which writes the files that Gemini's daemons read" }}
{{- end }}
{{- end }}

{{- define "kubeshare.checkExtender" -}}
{{- $found := false }}
{{- range $index, $profile := .Values.config.profiles }}
{{- if $profile.extender }}
{{- $found = true }}
{{- if not $.Values.extender.enabled }}
{{- fail (printf "config.profiles[%d].extender: true: needs extender.enabled=true, or kube-scheduler cannot ask" $index) }}
{{- end }}
{{- end }}
{{- end }}
{{- if and .Values.extender.enabled (not $found) }}
{{- fail "extender.enabled: true: needs a profile in config.profiles with extender: true, for the pods that kube-scheduler asks about" }}
{{- end }}
{{- if and .Values.extender.clientCertificates (not .Values.extender.certificateSecret) }}
{{- fail "extender.clientCertificates: true: needs extender.certificateSecret, whose ca.crt is the authority of the clients" }}
{{- end }}
{{- end }}

{{- define "kubeshare.checkProfiles" -}}
{{- $known := concat (include "kubeshare.plugins" . | fromJsonArray) (.Values.extraPlugins | default list) }}
{{- $names := list }}
{{- range $index, $profile := .Values.config.profiles }}
{{- $path := printf "config.profiles[%d]" $index }}
{{- $name := $profile.schedulerName | default "kubeshare-scheduler" }}
{{- if has $name $names }}
{{- fail (printf "%s.schedulerName: %s is there twice" $path $name) }}
{{- end }}
{{- $names = append $names $name }}
{{- range $place, $dialect := $profile.dialects }}
{{- $dialects := include "kubeshare.knownDialects" $ | fromJson }}
{{- if not (or (eq $dialect.name "all") (hasKey $dialects $dialect.name)) }}
{{- fail (printf "%s.dialects[%d].name: no dialect %s; there are all, %s. A dialect of your own image: name it in extraDialects" $path $place $dialect.name (keys $dialects | sortAlpha | join ", ")) }}
{{- end }}
{{- end }}
{{- range $place, $backend := $profile.isolation }}
{{- if and (eq $backend "mps") (not $.Values.mps.enabled) (not $.Values.mps.external) }}
{{- fail (printf "%s.isolation[%d]: mps: needs its daemons on the nodes: mps.enabled=true, or mps.external=true where something else runs them" $path $place) }}
{{- end }}
{{- end }}
{{- range $point, $changes := $profile.plugins }}
{{- range $kind, $listed := $changes }}
{{- range $place, $one := $listed }}
{{- if not (or (has $one.name $known) (and (eq $kind "disabled") (eq $one.name "*"))) }}
{{- include "kubeshare.noPlugin" (list (printf "%s.plugins.%s.%s[%d]" $path $point $kind $place) $one.name $known) }}
{{- end }}
{{- end }}
{{- end }}
{{- end }}
{{- range $place, $one := $profile.pluginConfig }}
{{- if not (has $one.name $known) }}
{{- include "kubeshare.noPlugin" (list (printf "%s.pluginConfig[%d]" $path $place) $one.name $known) }}
{{- end }}
{{- end }}
{{- end }}
{{- end }}

{{- /* The value `dialects`, and what older values say otherwise. */}}
{{- define "kubeshare.checkDialects" -}}
{{- $chosen := include "kubeshare.chosenDialects" . | fromJsonArray }}
{{- if $chosen }}
{{- $said := printf "dialects: %s" (join ", " $chosen) }}
{{- $known := include "kubeshare.knownDialects" . | fromJson }}
{{- range $chosen }}
{{- if not (or (eq . "all") (hasKey $known .)) }}
{{- fail (printf "dialects: no dialect %s; there are all, %s. A dialect of your own image: name it in extraDialects" . (keys $known | sortAlpha | join ", ")) }}
{{- end }}
{{- end }}
{{- $read := include "kubeshare.enabledDialects" . | fromJsonArray }}
{{- range include "kubeshare.dialectsOf" (dict "dialects" (include "kubeshare.namedDialects" . | fromJsonArray)) | fromJsonArray }}
{{- if not (has . $read) }}
{{- fail (printf "%s: every profile of config.profiles lists its own dialects, and none lists %s: add it to one of them, or leave `dialects` out of a profile" $said .) }}
{{- end }}
{{- end }}
{{- $wish := .Values.admission.dialectPods | default "all" }}
{{- if and (ne $wish "none") (ne (include "kubeshare.schedulerName" .) "set") }}
{{- $why := eq (include "kubeshare.admission" .) "none" | ternary "admission.by: none" (printf "admission.schedulerName: %s" .Values.admission.schedulerName) }}
{{- fail (printf "%s: pods that name no scheduler get this one, and %s gives them none: choose another, or set admission.dialectPods=none if all pods name it" $said $why) }}
{{- end }}
{{- if and .Values.admission.contestedPods (eq (include "kubeshare.ofDialects" (list . "contested")) "[]") }}
{{- fail (printf "%s: admission.contestedPods: true: no dialect among them reads such a name; hami and nvidia read nvidia.com/gpu" $said) }}
{{- end }}
{{- if and .Values.sharePods.enabled (not (has "sharepod" $read)) }}
{{- fail (printf "%s: sharePods.enabled: true: needs the dialect sharepod, which places their pods" $said) }}
{{- end }}
{{- end }}
{{- end }}

{{- define "kubeshare.noPlugin" -}}
{{- fail (printf "%s.name: no plugin %s; there are %s. A plugin of your own image: name it in extraPlugins" (index . 0) (index . 1) (join ", " (index . 2 | sortAlpha))) }}
{{- end }}

{{- /* A file is in the pods by one of their mounts; the token of their account and the system's authorities always are. */}}
{{- define "kubeshare.checkFiles" -}}
{{- $folders := list "/var/run/secrets/kubernetes.io/serviceaccount" "/etc/ssl" }}
{{- range .Values.extraVolumeMounts }}
{{- $folders = append $folders (trimSuffix "/" .mountPath) }}
{{- end }}
{{- $inventory := .Values.config.inventory | default dict }}
{{- $server := .Values.config.server | default dict }}
{{- range $path, $file := dict "inventory.bearerTokenFile" $inventory.bearerTokenFile "inventory.caFile" $inventory.caFile "server.tokenFile" $server.tokenFile }}
{{- $found := not $file }}
{{- range $folders }}
{{- if or (eq . ($file | default "")) (hasPrefix (printf "%s/" .) ($file | default "")) }}
{{- $found = true }}
{{- end }}
{{- end }}
{{- if not $found }}
{{- fail (printf "config.%s: %s: no such file in the pods: mount its folder by extraVolumes and extraVolumeMounts" $path $file) }}
{{- end }}
{{- end }}
{{- end }}

{{- /* Texts, of each the rule and an example: a pattern of the schema would tell neither. As in settings_rules.py. */}}
{{- define "kubeshare.checkTexts" -}}
{{- $label := `[a-z0-9]([-a-z0-9]*[a-z0-9])?` }}
{{- $name := `[A-Za-z0-9]([-A-Za-z0-9_.]{0,61}[A-Za-z0-9])?` }}
{{- $key := printf `(%s(\.%s)*/)?%s` $label $label $name }}
{{- $value := printf `(%s)?` $name }}
{{- $values := printf `\(\s*%s\s*(,\s*%s\s*)*\)` $value $value }}
{{- $wish := printf `\s*(!?\s*%s|%s\s*(==|!=|=)\s*%s|%s\s+(in|notin)\s*%s)\s*` $key $key $value $key $values }}
{{- $matcher := `\s*[a-zA-Z_][a-zA-Z0-9_]*\s*(=~|!~|!=|=)\s*("([^"\\\n]|\\.)*"|'([^'\\\n]|\\.)*'|\x60[^\x60]*\x60)\s*` }}
{{- $duration := dict "pattern" `([0-9]+(\.[0-9]*)?|\.[0-9]+)(ns|us|µs|ms|s|m|h)(([0-9]+(\.[0-9]*)?|\.[0-9]+)(ns|us|µs|ms|s|m|h))*` "rule" "a duration such as 15s, 1m30s or 500ms" }}
{{- $file := dict "pattern" `(/.*)?` "rule" "the whole path of a file in the pods, such as /etc/prometheus/token" }}
{{- $rules := dict
  "inventory.url" (dict "pattern" `(https?://([^\s/?#@]+@)?(\[[0-9a-fA-F:.]+\]|[^\s/?#@:\[\]]+)(:[0-9]{1,5})?(/[^\s?#]*)?)?` "rule" "a URL such as http://prometheus-k8s.monitoring:9090")
  "inventory.selector" (dict "pattern" (printf `\s*|%s(,%s)*,?\s*` $matcher $matcher) "rule" `conditions on labels as in PromQL between { and }, such as job="kubeshare-collector"`)
  "inventory.namespace" (dict "pattern" (printf `(%s)?` $label) "rule" "the name of a namespace, such as kube-system")
  "inventory.podSelector" (dict "pattern" (printf `%s(,%s)*` $wish $wish) "rule" "a label selector such as app=collector,tier in (gpu,cpu),!old")
  "inventory.path" $file "inventory.cellsFile" $file "inventory.bearerTokenFile" $file "inventory.caFile" $file "server.tokenFile" $file
  "leaderElection.leaseDuration" $duration "leaderElection.renewDeadline" $duration "leaderElection.retryPeriod" $duration
}}
{{- range $path, $rule := $rules }}
{{- $section := index $.Values.config (first (splitList "." $path)) | default dict }}
{{- $field := last (splitList "." $path) }}
{{- if hasKey $section $field }}
{{- $given := index $section $field }}
{{- if not (regexMatch (printf `^(%s)$` $rule.pattern) (toString $given)) }}
{{- fail (printf "config.%s: must be %s, not %q" $path $rule.rule (toString $given)) }}
{{- end }}
{{- end }}
{{- end }}
{{- $lease := dig "leaderElection" "leaseDuration" "15s" .Values.config }}
{{- $begin := toDate "2006" "2000" }}
{{- if gt (sub (unixEpoch (mustDateModify $lease $begin)) (unixEpoch $begin)) 600 }}
{{- fail (printf "config.leaderElection.leaseDuration: must be at most 10m, not %q" $lease) }}
{{- end }}
{{- end }}
