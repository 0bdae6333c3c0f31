{{- /* What the policies have in common that limit the scheduler's own account. */}}

{{- define "kubeshare.isTheScheduler" -}}
- name: is-the-scheduler
  expression: "request.userInfo.username == 'system:serviceaccount:{{ .Release.Namespace }}:{{ .Values.name }}'"
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
