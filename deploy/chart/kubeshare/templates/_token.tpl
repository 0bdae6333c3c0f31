{{- /* What the policies have in common that limit the scheduler's own account. */}}

{{- define "kubeshare.isTheScheduler" -}}
- name: is-the-scheduler
  expression: "{{ include "kubeshare.cel.isTheScheduler" . }}"
{{- end }}

{{- define "kubeshare.cel.isTheScheduler" -}}
request.userInfo.username == 'system:serviceaccount:{{ .Release.Namespace }}:{{ .Values.name }}'
{{- end }}

{{- /* "true" unless it is switched off: `helm upgrade --reuse-values` from a release before this value has none. */}}
{{- define "kubeshare.limitsToken" -}}
{{- if ne (toString .Values.policies.token) "false" }}true{{ end }}
{{- end }}

{{- /* The schedulerNames of all profiles: the pods that the scheduler decides. */}}
{{- define "kubeshare.cel.schedulerNames" -}}
{{- keys (include "kubeshare.cel.choices" . | fromJson) | sortAlpha | toJson }}
{{- end }}

{{- /* Names of the fields that differ between two objects of any type, before and after. */}}
{{- define "kubeshare.cel.changed" -}}
{{- $before := printf "dyn(%s)" (first .) }}
{{- $after := printf "dyn(%s)" (last .) -}}
{{ $after }}.filter(field, !(field in {{ $before }}) || {{ $before }}[field] != {{ $after }}[field])
+ {{ $before }}.filter(field, !(field in {{ $after }}))
{{- end }}

{{- /* Variables of policies for accounts that write one annotation of the Node that they run on: `nodes` has that Node,
`changed` the keys of changed annotations, and `otherwiseSame` is whether nothing else of the Node that may be written
through this resource changes. */}}
{{- define "kubeshare.cel.ownNode" -}}
# Kubernetes writes into a pod's token on which node it runs, and here from the token.
- name: nodes
  expression: "request.userInfo.?extra['authentication.kubernetes.io/node-name'].orValue([])"
- name: before
  expression: "oldObject.metadata.?annotations.orValue({})"
- name: after
  expression: "object.metadata.?annotations.orValue({})"
- name: changed
  expression: >-
    variables.after.filter(key, !(key in variables.before) || variables.before[key] != variables.after[key])
    + variables.before.filter(key, !(key in variables.after))
- name: otherwiseSame
  expression: >-
    object.spec == oldObject.spec
    && object.metadata.?labels.orValue({}) == oldObject.metadata.?labels.orValue({})
    && object.metadata.?finalizers.orValue([]) == oldObject.metadata.?finalizers.orValue([])
    && object.metadata.?ownerReferences.orValue([]) == oldObject.metadata.?ownerReferences.orValue([])
{{- end }}
