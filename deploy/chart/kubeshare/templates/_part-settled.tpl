{{- /* A part of the policy kubeshare-pods: what updates of our pods may not change, which is what their containers were told of
cards and, at any time, annotations that bring devices. */}}
{{- define "kubeshare.settled.applies" -}}
(oldObject != null && object.kind == 'Pod' && object.spec.schedulerName in {{ include "kubeshare.cel.choices" . }}
&& ((object.metadata.?annotations.orValue({}) != oldObject.metadata.?annotations.orValue({})
&& (object.metadata.?annotations.orValue({}).exists(key, {{ include "kubeshare.cel.bringsDevices" . }}
{{- with include "kubeshare.ofDialects" (list . "sharedBy") | fromJsonArray }} || key in {{ toJson . }}{{ end }})
{{- with include "kubeshare.ofDialects" (list . "sharedBy") | fromJsonArray }}
|| oldObject.metadata.?annotations.orValue({}).exists(key, key in {{ toJson . }} && !(key in object.metadata.?annotations.orValue({})))
{{- end }}))
|| (!has(oldObject.spec.nodeName) && object.metadata.?labels.orValue({}) != oldObject.metadata.?labels.orValue({}))))
{{- end }}

{{- define "kubeshare.settled.variables" -}}
- name: labelsBefore
  expression: "oldObject.metadata.?labels.orValue({})"
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
{{- end }}

{{- define "kubeshare.settled.validations" -}}
- expression: "!variables.settledApply || has(oldObject.spec.nodeName) || variables.kindBefore == variables.kind"
  message: >-
    what its containers are told of cards was settled when the pod was created: to ask for cards, for none, for a share
    instead of whole cards or for another isolation, create it anew
  reason: Forbidden
{{- end }}
