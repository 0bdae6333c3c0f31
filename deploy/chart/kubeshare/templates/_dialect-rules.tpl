{{- /* By which keys pods of each schedulerName ask in which dialects, in the profile's order, as CEL. Labels sharedgpu/gpu_*
ask for GPUs where no profile enables them too. */}}
{{- define "kubeshare.cel.asking" -}}
{{- $known := include "kubeshare.knownDialects" . | fromJson }}
{{- $found := dict }}
{{- range $profile := include "kubeshare.profiles" . | fromJsonArray }}
{{- $own := list }}
{{- $names := include "kubeshare.dialectsOf" $profile | fromJsonArray }}
{{- range $name := append $names "sharedgpu" | uniq }}
{{- $one := get $known $name | default dict }}
{{- $own = append $own (dict
  "name" (list $name) "enabled" (has $name $names | ternary (list "true") list)
  "givesWay" ($one.givesWay | default false | ternary (list "true") list)
  "labels" ($one.labels | default list) "annotations" ($one.annotations | default list)
  "prefixes" ($one.prefixes | default list)
  "resources" (concat ($one.resources | default list) ($one.contested | default list) | default list)
  "results" (concat ($one.resultKeys | default list) (keys ($one.devicePluginKeys | default dict) | sortAlpha) | default list)
  "resultPrefixes" ($one.resultPrefixes | default list)) }}
{{- end }}
{{- $_ := set $found ($profile.schedulerName | default "kubeshare-scheduler") $own }}
{{- end }}
{{- toJson $found }}
{{- end }}

{{- /* Whether `key` asks in a dialect, or is one of ours, or may be meant as one. */}}
{{- define "kubeshare.cel.isAskingKey" -}}
key.lowerAscii().matches('^(shared|kubeshare/)')
{{- $keys := concat (include "kubeshare.ofDialects" (list . "labels") | fromJsonArray) (include "kubeshare.ofDialects" (list . "annotations") | fromJsonArray) }}
{{- $others := list }}
{{- range $keys }}
{{- if not (regexMatch "^(shared|kubeshare/)" .) }}{{ $others = append $others . }}{{ end }}
{{- end }}
{{- with $others | uniq }} || key in {{ toJson . }}{{ end }}
{{- with include "kubeshare.ofDialects" (list . "prefixes") | fromJsonArray }} || {{ toJson . }}.exists(one, key.startsWith(one)){{ end }}
{{- end }}

{{- /* The variable `dialectProblem`: the sentence of kubeshare_py/dialects/dialect_table about a pod that asks in two dialects
or in one that its profile does not enable, '' if there is none. `.spec` is the pod's spec, `.context` the chart's. */}}
{{- define "kubeshare.cel.dialectProblem" -}}
{{- $first := include "kubeshare.firstScheduler" .context }}
- name: dialects
  expression: >-
    {{ include "kubeshare.cel.asking" .context }}
- name: own
  expression: >-
    variables.dialects[{{ .spec }}.?schedulerName.orValue('') in variables.dialects ? {{ .spec }}.schedulerName : '{{ $first }}']
- name: dialectAnnotations
  expression: >-
    variables.own.filter(one, size(one.enabled) > 0).map(one, one.annotations).flatten()
- name: resources
  expression: >-
    ({{ .spec }}.containers + {{ .spec }}.?initContainers.orValue([])).map(container,
    [container.?resources.?limits.orValue({}), container.?resources.?requests.orValue({})].map(amounts,
    amounts.filter(name, name.contains('/') && quantity(string(amounts[name])).isGreaterThan(quantity('0')))).flatten()).flatten()
- name: everyAsk
  expression: >-
    variables.own.map(one, [one.name[0], size(one.enabled) > 0 ? 'enabled' : '',
    ([variables.labels.filter(key, key in one.labels || (one.prefixes.exists(start, key.startsWith(start))
    && !(key in one.results) && !one.resultPrefixes.exists(start, key.startsWith(start)))),
    variables.annotations.filter(key, key in one.annotations || (one.prefixes.exists(start, key.startsWith(start))
    && !(key in one.results) && !one.resultPrefixes.exists(start, key.startsWith(start))))]
    .filter(keys, size(keys) > 0).map(keys, string(keys.min()))
    + [variables.resources.filter(name, name in one.resources)].filter(names, size(names) > 0)
    .map(names, 'resources[' + string(names.min()) + ']') + [''])[0], size(one.givesWay) > 0 ? 'gives way' : ''])
    .filter(one, one[2] != '')
# Some dialects give way to any other.
- name: asks
  expression: >-
    variables.everyAsk.exists(one, one[3] == '') ? variables.everyAsk.filter(one, one[3] == '') : variables.everyAsk
- name: dialectProblem
  expression: >-
    size(variables.asks) > 1 ? variables.asks[0][2] + ' asks in dialect ' + variables.asks[0][0] + ', and '
    + variables.asks[1][2] + ' in dialect ' + variables.asks[1][0] + ': a pod can only use one dialect' :
    size(variables.asks) == 1 && variables.asks[0][1] == '' ? variables.asks[0][2] + ' asks in dialect '
    + variables.asks[0][0] + ", which this pod's profile does not enable: add it to the profile, or "
    + 'helm upgrade RELEASE CHART --reset-then-reuse-values --set dialects=all' : ''
{{- end }}

{{- /* Whether the rules about keys find nothing in a pod, and no advice, without asking them: one that asks for a share or
for one card by labels sharedgpu/gpu_request, gpu_limit and gpu_mem alone, in plain numbers. It may be false of others, and
is of pods that are so large that match conditions might pass their budget. Most
pods with a card are such, and the rules cost the API server 5 ms each time (2026-11-28). */}}
{{- define "kubeshare.cel.asksPlainly" -}}
{{- $plain := list }}
{{- range $profile := include "kubeshare.profiles" . | fromJsonArray }}
{{- if has "sharedgpu" (include "kubeshare.dialectsOf" $profile | fromJsonArray) }}
{{- $plain = append $plain ($profile.schedulerName | default "kubeshare-scheduler") }}
{{- end }}
{{- end }}
{{- if not $plain }}false
{{- else -}}
(object.spec.schedulerName in {{ toJson $plain }} && size(object.metadata.?annotations.orValue({})) <= 50
&& size(object.spec.containers) + size(object.spec.?initContainers.orValue([])) <= 600
&& object.metadata.?labels[?'sharedgpu/gpu_request'].orValue('').matches('^(0[.][0-9]{0,2}[1-9]|1)$')
&& object.metadata.labels[?'sharedgpu/gpu_limit'].orValue('1').matches('^1([.]0)?$')
&& object.metadata.labels[?'sharedgpu/gpu_mem'].orValue('1Gi').matches('^[1-9][0-9]{0,4}[MG]i$')
&& ![dyn(object.metadata.labels.filter(key, !(key in ['sharedgpu/gpu_request', 'sharedgpu/gpu_limit', 'sharedgpu/gpu_mem']))),
object.metadata.?annotations.orValue({})].exists(keys, keys.exists(key, {{ include "kubeshare.cel.isAskingKey" . }}))
&& !(object.spec.containers + object.spec.?initContainers.orValue([])).exists(container,
container.?resources.?limits.orValue({}).exists(name, name.contains('/'))
|| container.?resources.?requests.orValue({}).exists(name, name.contains('/'))))
{{- end }}
{{- end }}
