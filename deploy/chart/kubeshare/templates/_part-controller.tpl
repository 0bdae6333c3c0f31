{{- /* A part of the policy kubeshare-pods: which pods the account of kubeshare-controller may make and change, stolen or not:
SharePods', and none that run. */}}
{{- define "kubeshare.controller.applies" -}}
(object.kind == 'Pod' && request.?subResource.orValue('') == ''
&& request.userInfo.username == 'system:serviceaccount:{{ .Release.Namespace }}:kubeshare-controller')
{{- end }}

{{- define "kubeshare.controller.variables" -}}
- name: ownersBefore
  expression: "oldObject == null ? [] : oldObject.metadata.?ownerReferences.orValue([])"
{{- end }}

{{- define "kubeshare.controller.validations" -}}
- expression: >-
    !variables.controllerApply || object.metadata.?ownerReferences.orValue([]).exists(one, one.?controller.orValue(false)
    && one.kind == 'SharePod' && one.apiVersion.startsWith('kubeshare.nthu/') && one.name == object.metadata.name)
  message: kubeshare-controller makes the pods of SharePods and no others
  reason: Forbidden
- expression: "!variables.controllerApply || oldObject != null || !has(object.spec.nodeName)"
  message: kubeshare-controller leaves it to schedulers where pods go
  reason: Forbidden
- expression: >-
    !variables.controllerApply || oldObject == null || (object.spec == oldObject.spec
    && !variables.ownersBefore.exists(one, one.?controller.orValue(false))
    && 'kubeshare.io/sharepod' in oldObject.metadata.?annotations.orValue({})
    && object.metadata.?labels == oldObject.metadata.?labels
    && object.metadata.?annotations == oldObject.metadata.?annotations
    && object.metadata.?finalizers == oldObject.metadata.?finalizers)
  message: kubeshare-controller becomes the owner of pods that it made before, and changes nothing else of pods
  reason: Forbidden
{{- end }}
