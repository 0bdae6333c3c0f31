{{- /* By which keys pods of each schedulerName ask in which dialects, in the profile's order, as CEL. Labels sharedgpu/gpu_*
ask for GPUs where no profile enables them too. */}}
{{- define "kubeshare.cel.asking" -}}
{{- $known := include "kubeshare.knownDialects" . | fromJson }}
{{- $found := dict }}
{{- range $profile := .Values.config.profiles | default (list dict) }}
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

{{- /* Whether `key` asks in a dialect besides the keys sharedgpu/*; "" if none has such keys. */}}
{{- define "kubeshare.cel.asksByKey" -}}
{{- $keys := concat (include "kubeshare.ofDialects" (list . "labels") | fromJsonArray) (include "kubeshare.ofDialects" (list . "annotations") | fromJsonArray) }}
{{- $others := list }}
{{- range $keys }}
{{- if not (hasPrefix "sharedgpu/" .) }}{{ $others = append $others . }}{{ end }}
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
    + variables.asks[0][0] + ", which this pod's profile does not enable" : ''
{{- end }}
