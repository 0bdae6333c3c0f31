{{- /* What updates of our pods may not change: what its containers were told of cards, and, at any time, annotations that
bring devices. Part of another policy about updates, because the API server converts a pod and the pod before it for each
policy that it asks, which costs more than a condition that is false. */}}
{{- define "kubeshare.cel.mayUnsettle" -}}
oldObject != null && object.kind == 'Pod' && object.spec.schedulerName in {{ include "kubeshare.cel.choices" . }}
&& ((object.metadata.?annotations.orValue({}) != oldObject.metadata.?annotations.orValue({})
&& object.metadata.?annotations.orValue({}).exists(key, {{ include "kubeshare.cel.bringsDevices" . }}
{{- with include "kubeshare.ofDialects" (list . "sharedBy") | fromJsonArray }} || key in {{ toJson . }}{{ end }}))
{{- with include "kubeshare.ofDialects" (list . "sharedBy") | fromJsonArray }}
|| {{ toJson . }}.exists(key, key in oldObject.metadata.?annotations.orValue({}) && !(key in object.metadata.?annotations.orValue({})))
{{- end }}
|| (!has(oldObject.spec.nodeName) && object.metadata.?labels.orValue({}) != oldObject.metadata.?labels.orValue({})))
{{- end }}

{{- define "kubeshare.cel.settled" -}}
{{ include "kubeshare.cel.pod" (dict "context" . "scheduler" "object.spec.schedulerName") | trim }}
- name: mayUnsettle
  expression: >-
    {{ include "kubeshare.cel.mayUnsettle" . | nindent 4 | trim }}
- name: labelsBefore
  expression: "oldObject.metadata.?labels.orValue({})"
- name: annotationsBefore
  expression: "oldObject.metadata.?annotations.orValue({})"
- name: reachBefore
  expression: >-
    {{ include "kubeshare.cel.sharedBy" (list . "annotationsBefore") }}
    {{- include "kubeshare.cel.reachBefore" . | nindent 4 }}
- name: wishBefore
  expression: "variables.labelsBefore[?'sharedgpu/isolation'].orValue('')"
- name: backendBefore
  expression: "variables.wishBefore in variables.allowed ? variables.wishBefore : variables.allowed[0]"
# Resources of containers never change.
- name: kindBefore
  expression: >-
    variables.differs ? (variables.kind == 'whole' ? variables.kind : variables.backendBefore) :
    variables.reachBefore != 'share' ? variables.reachBefore : variables.backendBefore
{{ include "kubeshare.cel.broughtDevices" . }}
{{- end }}

{{- define "kubeshare.cel.isSettled" -}}
- expression: "!variables.mayUnsettle || has(oldObject.spec.nodeName) || variables.kindBefore == variables.kind"
  message: >-
    what its containers are told of cards was settled when the pod was created: to ask for cards, for none, for a share
    instead of whole cards or for another isolation, create it anew
  reason: Forbidden
- expression: "!variables.mayUnsettle || size(variables.broughtDevices) == 0"
  messageExpression: >-
    'annotation ' + variables.broughtDevices[0] + ' brings devices of the node into containers: take it out'
  reason: Forbidden
{{- end }}
