{{- /* A part of the policy kubeshare-pods: pods whose sharedgpu/* the scheduler would not understand, and those that ask in two
dialects, are refused where their users see it, when they are created and when these keys change. Of pods that have their
node, and of those of other schedulers, nothing is looked at. */}}
{{- define "kubeshare.labels.applies" -}}
{{- $demands := eq (include "kubeshare.schedulerName" .) "demand" }}
{{- $ours := include "kubeshare.cel.choices" . -}}
(object.kind == 'Pod' && request.?subResource.orValue('') == ''
&& (object.spec.schedulerName in {{ $ours }}
{{- if $demands }}
|| (request.operation == 'CREATE' && {{ include "kubeshare.cel.carriesKeys" . }})
{{- end }}) && !has(object.spec.nodeName) && (oldObject == null
? !{{ include "kubeshare.cel.asksPlainly" . | nindent 2 | trim }}
: !has(oldObject.spec.nodeName) && [
{{- range $at, $keys := list "labels" "annotations" }}
{{- if $at }},{{ end }} [object.metadata.?{{ $keys }}.orValue({}), oldObject.metadata.?{{ $keys }}.orValue({})]
{{- end }}]
.exists(both, both[0] != both[1] && both.exists(keys, keys.exists(key,
({{ include "kubeshare.cel.isAskingKey" . }}) && both[0][?key] != both[1][?key]))))
&& request.userInfo.username != 'system:serviceaccount:{{ .Release.Namespace }}:{{ .Values.name }}')
{{- end }}

{{- define "kubeshare.labels.variables" -}}
{{- if include "kubeshare.validates" . }}
{{ include "kubeshare.cel.dialectProblem" (dict "context" . "spec" "object.spec") | trim }}
{{ include "kubeshare.cel.labelRules" . | trim }}
{{- end }}
- name: labelProblem
  expression: >-
    !variables.labelsApply ? '' :
    {{- if eq (include "kubeshare.schedulerName" .) "demand" }}
    !(object.spec.schedulerName in {{ include "kubeshare.cel.choices" . }}) ? '' :
    {{- end }} {{ ternary "variables.problem" "''" (ne (include "kubeshare.validates" .) "") }}
{{- end }}

{{- define "kubeshare.labels.validations" -}}
{{- $ours := include "kubeshare.cel.choices" . }}
{{- if eq (include "kubeshare.schedulerName" .) "demand" }}
- expression: >-
    !variables.labelsApply || object.spec.schedulerName in {{ $ours }}
  message: >-
    the pod carries sharedgpu/*, which only {{ include "kubeshare.firstScheduler" . }} understands: set spec.schedulerName
    to {{ keys ($ours | fromJson) | sortAlpha | join " or " }}, or take the labels and annotations out
  reason: Invalid
{{- end }}
{{- if include "kubeshare.validates" . }}
- expression: "variables.labelProblem == ''"
  messageExpression: "variables.labelProblem"
  reason: Invalid
{{- end }}
{{- end }}
