{{- /* A part of the policy kubeshare-pods: what containers of our pods are told is what the table says, and not the user's to
change by entries of his own. Of labels that ask for something else once the containers are made, see _settled.tpl. */}}
{{- define "kubeshare.containers.applies" -}}
(oldObject == null && object.kind == 'Pod'
&& ({{ include "kubeshare.cel.isOurs" . }}) && !({{ include "kubeshare.cel.isTold" . | nindent 2 | trim }}
&& !object.metadata.?annotations.orValue({}).exists(key, {{ include "kubeshare.cel.bringsDevices" . }})))
{{- end }}

{{- define "kubeshare.containers.variables" -}}
- name: containers
  expression: "object.spec.containers + object.spec.?initContainers.orValue([])"
- name: fixed
  expression: "variables.table[variables.kind].filter(one, one.default == 'false').map(one, one.name)"
- name: theirs
  expression: >-
    !variables.containersApply ? [] : variables.fixed.filter(name,
    {{- range $at, $list := list "containers" "initContainers" }}{{ if $at }} ||{{ end }}
    lists.range(size(object.spec.?{{ $list }}.orValue([]))).exists(at,
    variables.{{ $list }}Wanted[at].exists(one, one.name == name &&
    object.spec.{{ $list }}[at].?env.orValue([]).exists(entry, entry.name == name && !(
    entry.?value.orValue('') == one.value && entry.?valueFrom.?fieldRef.?fieldPath.orValue('') == one.path))))
    {{- end }})
- name: missing
  expression: >-
    !variables.containersApply ? [] : variables.fixed.filter(name,
    {{- range $at, $list := list "containers" "initContainers" }}{{ if $at }} ||{{ end }}
    lists.range(size(object.spec.?{{ $list }}.orValue([]))).exists(at,
    variables.{{ $list }}Wanted[at].exists(one, one.name == name &&
    !object.spec.{{ $list }}[at].?env.orValue([]).exists(entry, entry.name == name && entry.?value.orValue('') == one.value
    && entry.?valueFrom.?fieldRef.?fieldPath.orValue('') == one.path)))
    {{- end }})
# By which value each of them brings nothing.
- name: without
  expression: >-
    {{ include "kubeshare.cel.deviceVariables" . }}
- name: devices
  expression: >-
    !variables.containersApply ? [] : variables.without.filter(one, !(one in {{ toJson .Values.admission.allowVariables }})
    && variables.containers.exists(container, container.?env.orValue([]).exists(entry, entry.name == one
    && (entry.?value.orValue('') != variables.without[one] || has(entry.valueFrom)))))
{{- end }}

{{- define "kubeshare.containers.validations" -}}
- expression: "size(variables.devices) == 0"
  messageExpression: >-
    variables.devices.join(', ') + ' of a container brings devices of the node that nobody counts: take it out, or have'
    + ' an administrator allow it (admission.allowVariables)'
  reason: Forbidden
- expression: "size(variables.theirs) == 0"
  messageExpression: >-
    variables.theirs.join(', ') + ' of a container: take it out, kubeshare-scheduler sets it'
  reason: Forbidden
- expression: "size(variables.theirs) > 0 || size(variables.missing) == 0"
  messageExpression: >-
    variables.missing.join(', ') + ' is not set in every container: kubeshare-admission did not do its work'
  reason: Forbidden
- expression: >-
    !variables.containersApply || variables.wish == '' || variables.wish in variables.allowed
  messageExpression: >-
    'sharedgpu/isolation="' + variables.wish + '": this scheduler allows ' + variables.allowed.join(', ')
  reason: Forbidden
- expression: >-
    !variables.containersApply ||
    {{- include "kubeshare.cel.mountsNoCards" "variables.containers" | nindent 4 }}
  message: "a mount below /var/run/nvidia-container-devices names cards: kubeshare-scheduler chooses them"
  reason: Forbidden
# For each of them a card of its node would be held back. No scheduler of ours places such a pod.
- expression: >-
    !variables.containersApply || !has(object.spec.nodeName) || {{ include "kubeshare.cel.asksForNone" . | nindent 4 | trim }}
  message: "a pod that asks for a vendor's GPUs and names its node itself: leave its node to its scheduler"
  reason: Forbidden
# Its back-end's folder of the node is there for its mounts: other parts of it are for other pods.
- expression: >-
    !variables.containersApply || variables.containers.all(container, container.?volumeMounts.orValue([]).all(mount,
    !variables.mounts.exists(one, one.volume == mount.name) || variables.mounts.exists(one,
    one.volume == mount.name && one.path == mount.mountPath && mount.?subPath.orValue('') == ''
    && one.subPathExpr == mount.?subPathExpr.orValue('') && (one.readOnly == 'true') == mount.?readOnly.orValue(false))))
  messageExpression: >-
    'a container mounts ' + variables.mounts.map(one, one.volume)[0] + ': kubeshare-scheduler mounts it where it belongs'
  reason: Forbidden
{{- end }}
