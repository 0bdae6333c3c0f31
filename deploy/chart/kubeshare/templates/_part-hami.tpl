{{- /* A part of the policy kubeshare-pods: which pods HAMi's webhook refuses. */}}
{{- define "kubeshare.hami.applies" -}}
(oldObject == null && object.kind == 'Pod' && object.spec.schedulerName in {{ include "kubeshare.hamiSettings" . | fromJson | keys | sortAlpha | toJson }}
&& {{ include "kubeshare.cel.asksForHami" . }})
{{- end }}

{{- define "kubeshare.hami.variables" -}}
{{ include "kubeshare.cel.hami" (dict "context" . "scheduler" "object.spec.schedulerName") | trim }}
{{ include "kubeshare.cel.hamiRefusals" . | trim }}
- name: hamiRefusal
  expression: "!variables.hamiApply ? '' : variables.hamiProblem"
{{- end }}

{{- define "kubeshare.hami.validations" -}}
- expression: "variables.hamiRefusal == ''"
  messageExpression: "variables.hamiRefusal"
  reason: Invalid
{{- end }}

{{- /* Whether a container has a limit of a resource of HAMi's: without one, nothing is added and nothing refused. */}}
{{- define "kubeshare.cel.asksForHami" -}}
{{- $names := list }}
{{- range include "kubeshare.hamiSettings" . | fromJson }}
{{- $names = concat $names (list .count .memory .memory_percentage .cores .priority) }}
{{- end -}}
(object.spec.containers + object.spec.?initContainers.orValue([])).exists(container,
container.?resources.?limits.orValue({}).exists(name, name in {{ $names | uniq | toJson }}))
{{- end }}

{{- /* The settings of the dialect in the pod's profile, and what its containers get. */}}
{{- define "kubeshare.cel.hami" -}}
- name: hamiSettings
  expression: >-
    {{ include "kubeshare.hamiSettings" .context }}
- name: hami
  expression: >-
    variables.hamiSettings[{{ .scheduler }}]
{{ include "kubeshare.cel.hamiAdditions" .context | trim }}
{{- end }}

{{- /* What HAMi's webhook adds to pods of its dialect, as steps of a JSON patch: the count, all cores, the priority. Our
webhook does the same (kubeshare_py/dialects/hami/request.py). A container has its list of variables by then. */}}
{{- define "kubeshare.cel.hamiPatches" -}}
{{- range $at, $list := list "containers" "initContainers" }}
{{- if $at }}
+ {{ end }}lists.range(variables.asksForHami ? size(object.spec.?{{ $list }}.orValue([])) : 0).map(at,
variables.{{ $list }}Added[at].map(one, JSONPatch{op: 'add',
  path: '/spec/{{ $list }}/' + string(at) + '/resources/limits/' + jsonpatch.escapeKey(one.name), value: one.value})
+ (variables.{{ $list }}Priority[at] == ''
  || object.spec.{{ $list }}[at].?env.orValue([]).exists(entry, entry.name == variables.priorityName) ? [] :
  [JSONPatch{op: 'add', path: '/spec/{{ $list }}/' + string(at) + '/env/-',
    value: Object.spec.{{ $list }}.env{name: variables.priorityName, value: variables.{{ $list }}Priority[at]}}])
).flatten()
{{- end }}
{{- end }}
