{{- /* All known dialects by name: those of kubeshare-py, and those of `extraDialects`. */}}
{{- define "kubeshare.knownDialects" -}}
{{- $known := include "kubeshare.dialects" . | fromJson }}
{{- range .Values.extraDialects }}
{{- $_ := set $known .name (dict "labels" (.labels | default list) "annotations" (.annotations | default list) "prefixes" (.prefixes | default list) "resources" (.resources | default list) "contested" (.contested | default list) "givesWay" (.givesWay | default false) "sharedBy" (.sharedBy | default list) "answered" (.answered | default list) "resultKeys" (.resultKeys | default list) "resultPrefixes" (.resultPrefixes | default list) "resultLabels" (.resultLabels | default list) "devicePluginKeys" (.devicePluginKeys | default dict)) }}
{{- end }}
{{- toJson $known }}
{{- end }}

{{- /* The names that the value `dialects` has, as a list; none by default. */}}
{{- define "kubeshare.chosenDialects" -}}
{{- $wish := .Values.dialects | default list }}
{{- kindIs "string" $wish | ternary (list $wish) $wish | toJson }}
{{- end }}

{{- /* As a profile lists them. */}}
{{- define "kubeshare.namedDialects" -}}
{{- $found := list }}
{{- range include "kubeshare.chosenDialects" . | fromJsonArray }}
{{- $found = append $found (dict "name" .) }}
{{- end }}
{{- toJson $found }}
{{- end }}

{{- /* The profiles, as a list: those without dialects of their own have the chosen ones. */}}
{{- define "kubeshare.profiles" -}}
{{- $chosen := include "kubeshare.namedDialects" . | fromJsonArray }}
{{- $found := list }}
{{- range .Values.config.profiles | default (list dict) }}
{{- $own := . }}
{{- if and $chosen (not .dialects) }}
{{- $own = merge (dict "dialects" $chosen) . }}
{{- end }}
{{- $found = append $found $own }}
{{- end }}
{{- toJson $found }}
{{- end }}

{{- /* "true" where KubeShare 1.0's SharePods become pods: by choice, or with their dialect. */}}
{{- define "kubeshare.sharePods" -}}
{{- $wish := .Values.sharePods.enabled }}
{{- if kindIs "invalid" $wish }}
{{- range include "kubeshare.chosenDialects" . | fromJsonArray }}
{{- if has . (list "all" "sharepod") }}{{ $wish = true }}{{ end }}
{{- end }}
{{- end }}
{{- if $wish }}true{{ end }}
{{- end }}

{{- /* The names of the dialects that some profile enables, as a list. */}}
{{- define "kubeshare.enabledDialects" -}}
{{- $names := list }}
{{- range include "kubeshare.profiles" . | fromJsonArray }}
{{- $names = concat $names (include "kubeshare.dialectsOf" . | fromJsonArray) }}
{{- end }}
{{- $names | uniq | toJson }}
{{- end }}

{{- /* Those of one profile, in its order. */}}
{{- define "kubeshare.dialectsOf" -}}
{{- $names := list }}
{{- range .dialects }}
{{- if eq .name "all" }}
{{- $names = concat $names (include "kubeshare.defaultDialects" . | fromJsonArray) (list "hami" "nvidia") }}
{{- else }}
{{- $names = append $names .name }}
{{- end }}
{{- end }}
{{- if $names }}{{ $names | uniq | toJson }}{{ else }}{{ include "kubeshare.defaultDialects" . }}{{ end }}
{{- end }}

{{- /* Those whose results only their writers write: with device plugins all of ours, because the agent gives containers
the cards that annotations of former schedulers name, whatever the profiles enable. */}}
{{- define "kubeshare.guardedDialects" -}}
{{- $names := include "kubeshare.enabledDialects" . | fromJsonArray }}
{{- if .Values.nodeAgent.devices }}
{{- $names = concat $names (include "kubeshare.dialects" . | fromJson | keys | sortAlpha) }}
{{- end }}
{{- $names | uniq | toJson }}
{{- end }}

{{- /* Their result keys besides sharedgpu/*, as a list. */}}
{{- define "kubeshare.resultKeys" -}}
{{- $known := include "kubeshare.knownDialects" . | fromJson }}
{{- $keys := list }}
{{- range include "kubeshare.guardedDialects" . | fromJsonArray }}
{{- $one := get $known . | default dict }}
{{- $keys = concat $keys ($one.resultKeys | default list) (keys ($one.devicePluginKeys | default dict)) }}
{{- end }}
{{- $keys | sortAlpha | uniq | toJson }}
{{- end }}

{{- /* The beginnings of further result keys, and the result keys that Bindings carry as labels too, as lists. */}}
{{- define "kubeshare.resultPrefixes" -}}
{{- include "kubeshare.ofDialects" (list . "resultPrefixes" "guarded") }}
{{- end }}

{{- define "kubeshare.resultLabels" -}}
{{- include "kubeshare.ofDialects" (list . "resultLabels") }}
{{- end }}

{{- /* What a pod sees by annotations of dialects, one of which is not empty: the beginning of a CEL expression for what else it
sees. The argument has the context and the name of the map of annotations. */}}
{{- define "kubeshare.cel.sharedBy" -}}
{{- $annotations := index . 1 }}
{{- with include "kubeshare.ofDialects" (list (index . 0) "sharedBy") | fromJsonArray -}}
{{ toJson . }}.exists(key, variables.{{ $annotations }}[?key].orValue('') != '') ? 'share' :
{{- end }}
{{- end }}

{{- /* One field of all enabled dialects, as a list; or, with a third argument, of the `guarded` ones. */}}
{{- define "kubeshare.ofDialects" -}}
{{- $known := include "kubeshare.knownDialects" (index . 0) | fromJson }}
{{- $field := index . 1 }}
{{- $found := list }}
{{- $which := gt (len .) 2 | ternary "guarded" "enabled" }}
{{- range include (printf "kubeshare.%sDialects" $which) (index . 0) | fromJsonArray }}
{{- $one := get $known . | default dict }}
{{- $found = concat $found (get $one $field | default list) }}
{{- end }}
{{- $found | sortAlpha | uniq | toJson }}
{{- end }}

{{- /* The users that may write some of them too, on pods of their own node: by key. Accounts are written namespace/name; those
of this chart have no namespace. */}}
{{- define "kubeshare.devicePluginUsers" -}}
{{- $known := include "kubeshare.knownDialects" . | fromJson }}
{{- $users := dict }}
{{- range include "kubeshare.guardedDialects" . | fromJsonArray }}
{{- $one := get $known . | default dict }}
{{- range $key, $account := $one.devicePluginKeys | default dict }}
{{- $account = contains "/" $account | ternary $account (printf "%s/%s" $.Release.Namespace $account) }}
{{- $_ := set $users $key (printf "system:serviceaccount:%s" ($account | replace "/" ":")) }}
{{- end }}
{{- end }}
{{- toJson $users }}
{{- end }}

{{- /* What the dialect hami is configured with, by the schedulerName of each profile that lists it: texts, as JSON, which is
CEL. Its policy depends on these. */}}
{{- define "kubeshare.hamiSettings" -}}
{{- $found := dict }}
{{- range $profile := include "kubeshare.profiles" . | fromJsonArray }}
{{- $listed := list }}
{{- range $profile.dialects }}
{{- $listed = append $listed .name }}
{{- end }}
{{- range $dialect := $profile.dialects }}
{{- if or (eq $dialect.name "hami") (and (eq $dialect.name "all") (not (has "hami" $listed))) }}
{{- $own := include "kubeshare.hamiDefaults" $ | fromJson }}
{{- range $key, $value := $dialect.args }}
{{- if hasKey $own $key }}
{{- $_ := set $own $key (kindIs "string" $value | ternary $value (toString (int64 $value))) }}
{{- end }}
{{- end }}
{{- $_ := set $found ($profile.schedulerName | default "kubeshare-scheduler") $own }}
{{- end }}
{{- end }}
{{- end }}
{{- toJson $found }}
{{- end }}
