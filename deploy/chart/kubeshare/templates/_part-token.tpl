{{- /* A part of the policy kubeshare-pods: which statuses the scheduler's account may write, stolen or not. RBAC knows no
fields, and no pods of one scheduler. */}}
{{- define "kubeshare.token.applies" -}}
(oldObject != null && request.?subResource.orValue('') == 'status'
&& request.userInfo.username == 'system:serviceaccount:{{ .Release.Namespace }}:{{ .Values.name }}')
{{- end }}

{{- define "kubeshare.token.variables" -}}
- name: changedMetadata
  expression: >-
    !variables.tokenApply ? [] : (
    {{- include "kubeshare.cel.changed" (list "oldObject.metadata" "object.metadata") | nindent 4 }}
    ).filter(field, !(field in ['annotations', 'managedFields']))
# Mostly none has changed, and a pod may have very many.
- name: changedByStatus
  expression: >-
    !variables.tokenApply || variables.annotationsBefore == variables.annotations ? [] :
    {{- include "kubeshare.cel.changed" (list "variables.annotationsBefore" "variables.annotations") | nindent 4 }}
- name: changedStatus
  expression: >-
    !variables.tokenApply ? [] : (
    {{- include "kubeshare.cel.changed" (list "oldObject.status" "object.status") | nindent 4 }}
    ).filter(field, !(field in ['conditions', 'nominatedNodeName']))
- name: conditionsBefore
  expression: "oldObject.status.?conditions.orValue([])"
- name: conditionsAfter
  expression: "object.status.?conditions.orValue([])"
{{- end }}

{{- define "kubeshare.token.validations" -}}
- expression: >-
    !variables.tokenApply || object.spec.schedulerName in {{ include "kubeshare.cel.schedulerNames" . }}
  message: kubeshare-scheduler writes the status of its own pods and of no others
  reason: Forbidden
- expression: "size(variables.changedMetadata) == 0"
  messageExpression: >-
    'kubeshare-scheduler writes metadata.annotations with a status and nothing else of metadata: '
    + variables.changedMetadata.join(', ')
  reason: Forbidden
- expression: "variables.changedByStatus.all(key, key == 'sharedgpu/earmark')"
  message: kubeshare-scheduler writes the annotation sharedgpu/earmark with a status and no other
  reason: Forbidden
- expression: "size(variables.changedStatus) == 0"
  messageExpression: >-
    'kubeshare-scheduler writes conditions and nominatedNodeName and nothing else of a status: '
    + variables.changedStatus.join(', ')
  reason: Forbidden
- expression: >-
    !variables.tokenApply ||
    variables.conditionsBefore.all(one, variables.conditionsAfter.exists(other, other.type == one.type))
    && variables.conditionsAfter.filter(one, !(one in variables.conditionsBefore)).all(one,
    (one.type == 'PodScheduled' && one.status == 'False'
    && one.?reason.orValue('') in ['Unschedulable', 'NotReadyForScheduling', 'SchedulerError'])
    || (one.type == 'DisruptionTarget' && one.status == 'True'
    && one.?reason.orValue('') in ['PreemptionByScheduler', 'GangIncomplete']))
  message: >-
    kubeshare-scheduler says in conditions that a pod waits (PodScheduled) or is evicted (DisruptionTarget) and nothing else
  reason: Forbidden
{{- end }}
