{{- /* The steps of one JSON patch by which containers of a pod are told their cards, as CEL, and the pod gets its volumes and
its RuntimeClass; after the variables of kubeshare.cel.pod. One list, because after each mutation the API server writes the
whole pod as JSON and reads it again: with three containers that took 2 ms of 15 for each of four mutations (2026-11-29). */}}
{{- define "kubeshare.cel.environmentPatches" -}}
{{- range $at, $list := list "containers" "initContainers" }}
{{- if $at }}
+ {{ end }}object.spec.?{{ $list }}.orValue([]).transformList(at, container, {{ include "kubeshare.cel.containerPatches" $list | nindent 2 | trim }}
).flatten()
{{- end }}
+ (size(variables.volumes) == 0 || has(object.spec.volumes) ? [] :
  [JSONPatch{op: 'add', path: '/spec/volumes', value: []}])
+ variables.volumes.filter(one, !object.spec.?volumes.orValue([]).exists(volume, volume.name == one.name))
  .map(one, JSONPatch{op: 'add', path: '/spec/volumes/-', value: Object.spec.volumes{
    name: one.name, hostPath: Object.spec.volumes.hostPath{path: one.path, type: one.type}}})
{{- if ne (include "kubeshare.hamiSettings" .) "{}" }}
+ {{ include "kubeshare.cel.hamiPatches" . }}
{{- end }}
{{- with include "kubeshare.runtimeClass" . }}
+ (variables.kind == 'void' || has(object.spec.runtimeClassName) ? [] :
  [JSONPatch{op: 'add', path: '/spec/runtimeClassName', value: {{ . | squote }}}])
{{- end }}
{{- end }}

{{- /* Those of one container, whose place is `at`: a list. A list in the pod that is not there is made first, for the value
of a patch cannot be a list of objects (kubernetes/kubernetes#142181). */}}
{{- define "kubeshare.cel.containerPatches" -}}
{{- $library := printf "variables.preload[variables.differs ? variables.%sKind[at] : variables.kind]" . }}
{{- $mounts := printf "(variables.differs ? variables.mountTable[variables.%sKind[at]] : variables.mounts)" . -}}
(has(container.env) ? [] :
  [JSONPatch{op: 'add', path: '/spec/{{ . }}/' + string(at) + '/env', value: []}])
+ ({{ $library }} == '' ? [] :
  [lists.range(size(container.?env.orValue([]))).filter(place, container.env[place].name == 'LD_PRELOAD')].map(found,
  size(found) == 0
  ? [JSONPatch{op: 'add', path: '/spec/{{ . }}/' + string(at) + '/env/0',
      value: Object.spec.{{ . }}.env{name: 'LD_PRELOAD', value: {{ $library }}}}]
  : has(container.env[found[size(found) - 1]].valueFrom)
  ? [JSONPatch{op: 'add', path: '/spec/{{ . }}/' + string(at) + '/env/-',
      value: Object.spec.{{ . }}.env{name: 'LD_PRELOAD', value: {{ $library }} + ':$(LD_PRELOAD)'}}]
  : (container.env[found[size(found) - 1]].?value.orValue('') + ':').startsWith({{ $library }} + ':')
  ? []
  : [JSONPatch{op: 'add',
      path: '/spec/{{ . }}/' + string(at) + '/env/' + string(found[size(found) - 1]) + '/value',
      value: container.env[found[size(found) - 1]].?value.orValue('') == '' ? {{ $library }}
        : {{ $library }} + ':' + container.env[found[size(found) - 1]].value}])[0])
+ [container.?env.orValue([]).map(entry, entry.name)].map(names,
  (variables.differs ? variables.{{ . }}Wanted[at] : variables.wanted).reverse().filter(one, !(one.name in names)
  || one.default != 'true' && !container.env.exists(entry, entry.name == one.name && entry.?value.orValue('') == one.value
  && entry.?valueFrom.?fieldRef.?fieldPath.orValue('') == one.path)))[0]
  .map(one, JSONPatch{op: 'add', path: '/spec/{{ . }}/' + string(at) + '/env/0', value: one.path == ''
  ? Object.spec.{{ . }}.env{name: one.name, value: one.value}
  : Object.spec.{{ . }}.env{name: one.name, valueFrom: Object.spec.{{ . }}.env.valueFrom{
      fieldRef: Object.spec.{{ . }}.env.valueFrom.fieldRef{fieldPath: one.path}}}})
+ (size({{ $mounts }}) == 0 || has(container.volumeMounts) ? [] :
  [JSONPatch{op: 'add', path: '/spec/{{ . }}/' + string(at) + '/volumeMounts', value: []}])
+ {{ $mounts }}.filter(one, !container.?volumeMounts.orValue([]).exists(mount, mount.mountPath == one.path))
  .map(one, JSONPatch{op: 'add', path: '/spec/{{ . }}/' + string(at) + '/volumeMounts/-',
    value: Object.spec.{{ . }}.volumeMounts{name: one.volume, mountPath: one.path,
      subPathExpr: one.subPathExpr, readOnly: one.readOnly == 'true'}})
{{- end }}

{{- /* The steps that hide all cards from the containers of a pod, and whether each of them sees none already. */}}
{{- define "kubeshare.cel.voidPatches" -}}
{{- range $at, $list := list "containers" "initContainers" }}
{{- if $at }}
+ {{ end }}lists.range(size(object.spec.?{{ $list }}.orValue([]))).map(at,
(has(object.spec.{{ $list }}[at].env) ? [] :
  [JSONPatch{op: 'add', path: '/spec/{{ $list }}/' + string(at) + '/env', value: []}])
+ {{ include "kubeshare.cel.entries" (dict "list" $list "wanted" "variables.table['void']") }}
).flatten()
{{- end }}
{{- end }}

{{- define "kubeshare.cel.isVoid" -}}
(object.spec.containers + object.spec.?initContainers.orValue([])).all(container,
container.?env.orValue([]).exists(entry, entry.name == 'NVIDIA_VISIBLE_DEVICES' && entry.?value.orValue('') == 'void'))
{{- end }}

{{- /* Variables of a policy with these patches. */}}
{{- define "kubeshare.cel.patchedPod" -}}
{{ include "kubeshare.cel.pod" . | trim }}
{{- if ne (include "kubeshare.hamiSettings" .context) "{}" }}
{{ include "kubeshare.cel.hami" . | trim }}
- name: asksForHami
  expression: >-
    ({{ .scheduler }}) in variables.hamiSettings && variables.hamiAsks
{{- end }}
- name: volumes
  expression: >-
    {{- include "kubeshare.cel.volumes" .context | nindent 4 }}[variables.kind]
{{- end }}

{{- /* Whether a pod of ours already is as these patches make it, and no part of it is refused for what containers are told:
the plain case, a pod that asks by labels with the back-end none. It may be false of others. Nothing that is asked
in every request may cost more: the first variables are compared as one list, and by the beginning that they all have the
others are known not to be of them. */}}
{{- define "kubeshare.cel.isTold" -}}
{{- $plain := list }}
{{- range include "kubeshare.profiles" . | fromJsonArray }}
{{- $name := .schedulerName | default "kubeshare-scheduler" }}
{{- if and (eq (first (.isolation | default (list "none"))) "none") (ne $name "default-scheduler") }}{{ $plain = append $plain $name }}{{ end }}
{{- end }}
{{- if or .Values.admission.allowVariables (not $plain) }}false
{{- else }}
{{- $wanted := (include "kubeshare.cel.variables" . | fromJson).none }}
{{- $told := list }}
{{- range $wanted }}
{{- $more := "" }}
{{- if .value }}{{ $more = printf ", 'value': dyn(%s)" (toJson .value) }}{{ end }}
{{- if .path }}{{ $more = printf ", 'valueFrom': dyn({'fieldRef': {'apiVersion': 'v1', 'fieldPath': %s}})" (toJson .path) }}{{ end }}
{{- $told = append $told (printf "{'name': dyn('%s')%s}" .name $more) }}
{{- end -}}
(object.spec.schedulerName in {{ toJson $plain }} && !has(object.spec.nodeName)
&& size(object.metadata.?annotations.orValue({})) <= 50
&& size(object.spec.containers) + size(object.spec.?initContainers.orValue([])) <= 600
{{- if include "kubeshare.runtimeClass" . }} && has(object.spec.runtimeClassName){{ end }}
&& ('sharedgpu/gpu_request' in object.metadata.?labels.orValue({}) || 'sharedgpu/gpu_limit' in object.metadata.?labels.orValue({}))
&& !('sharedgpu/isolation' in object.metadata.labels)
&& object.metadata.labels[?'sharedgpu/gpu_limit'].orValue('1').matches('[1-9]')
&& [[{{ join ", " $told }}]].all(told,
(object.spec.containers + object.spec.?initContainers.orValue([])).all(container,
size(container.?env.orValue([])) >= {{ len $wanted }} && size(container.env) <= 200
&& container.env.slice(0, {{ len $wanted }}) == told
&& container.env.slice({{ len $wanted }}, size(container.env)).all(entry, !entry.name.startsWith('NVIDIA_'))
&& !container.?resources.?limits.orValue({}).exists(name, name in {{ include "kubeshare.cel.ruleResources" . }})
&& !container.?volumeMounts.orValue([]).exists(mount, mount.mountPath.contains('nvidia-container-devices')))))
{{- end }}
{{- end }}
