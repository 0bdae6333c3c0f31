{{- /* A part of the policy kubeshare-pods: which cards a pod got is written by the scheduler alone. Whoever could change these
annotations could put a container on somebody else's card at its next start. Labels, with which users ask for cards, are not
touched. */}}
{{- /* The keys after and before are asked in one place, so that the names of results are there once. Most requests change no annotations. Which of very many are results is left to the validation: match conditions have a
quarter of its budget. */}}
{{- define "kubeshare.results.applies" -}}
(request.userInfo.username != 'system:serviceaccount:{{ .Release.Namespace }}:{{ .Values.name }}'
&& object.metadata.?annotations.orValue({}) != (oldObject == null ? {} : oldObject.metadata.?annotations.orValue({}))
&& [object.metadata.?annotations.orValue({}), oldObject == null ? {} : oldObject.metadata.?annotations.orValue({})]
.exists(keys, size(keys) > 50 || keys.exists(key, (
{{- include "kubeshare.cel.isResult" . | nindent 2 }}) && object.metadata.?annotations[?key] != (oldObject == null
? optional.none() : oldObject.metadata.?annotations[?key]))))
{{- end }}

{{- define "kubeshare.results.variables" -}}
- name: changed
  expression: >-
    !variables.resultsApply ? [] :
    variables.annotations.filter(key, !(key in variables.annotationsBefore)
    || variables.annotationsBefore[key] != variables.annotations[key])
    + variables.annotationsBefore.filter(key, !(key in variables.annotations))
{{- $users := include "kubeshare.devicePluginUsers" . | fromJson }}
{{- if $users }}
# Keys that device plugins write too, each on pods of its own node: Kubernetes writes into a pod's token on which node
# it runs, and here from the token.
- name: plugins
  expression: '{{ toJson $users }}'
- name: node
  expression: "oldObject == null ? '' : oldObject.?spec.?nodeName.orValue('')"
- name: onOwnNode
  expression: >-
    variables.node != ''
    && variables.node in request.userInfo.?extra['authentication.kubernetes.io/node-name'].orValue([])
{{- end }}
{{- with .Values.policies.formerWriters }}
{{- $accounts := list }}
{{- range . }}{{ $accounts = append $accounts (printf "system:serviceaccount:%s" (. | replace "/" ":")) }}{{ end }}
# Schedulers and device plugins of before, while they still run: what they write on pods that are not ours, and what a
# device plugin does on all pods of its node.
- name: isFormer
  expression: 'request.userInfo.username in {{ toJson $accounts }}'
- name: former
  expression: >-
    variables.isFormer && object.kind == 'Pod'
    && !(object.?spec.?schedulerName.orValue('') in {{ include "kubeshare.cel.choices" $ }})
{{- end }}
- name: touched
  expression: >-
    variables.changed.filter(key,
    {{- if .Values.policies.formerWriters }}
    (key.startsWith('sharedgpu/') || !variables.former) &&
    {{- end }} (
    {{- include "kubeshare.cel.isResult" . | nindent 8 }})
    {{- if $users }}
    && !(variables.onOwnNode && (variables.plugins[?key].orValue('') == request.userInfo.username
    {{- if .Values.policies.formerWriters }} || (variables.isFormer && key in variables.plugins){{ end }}))
    {{- end }})
{{- end }}

{{- define "kubeshare.results.validations" -}}
- expression: "size(variables.touched) == 0"
  messageExpression: >-
    'only kubeshare-scheduler writes ' + variables.touched.join(', ')
    + (oldObject == null ? ': take the annotations out of the pod, or out of the template that it is made from' : '')
  reason: Forbidden
{{- end }}
