{{- /* What patches new pods: policy, webhook or none. Helm knows a cluster's kinds only while it talks to one; otherwise
(helm template without --api-versions) the release decides, of which --kube-version says another one. */}}
{{- define "kubeshare.admission" -}}
{{- $by := .Values.admission.by }}
{{- $served := .Capabilities.APIVersions.Has "admissionregistration.k8s.io/v1/MutatingAdmissionPolicy" }}
{{- if not (.Capabilities.APIVersions.Has "v1/Pod") }}
{{- $served = semverCompare ">=1.36.0-0" .Capabilities.KubeVersion.Version }}
{{- end }}
{{- if and (eq $by "policy") (not $served) }}
{{- fail (printf "admission.by: policy: this cluster (%s) does not serve MutatingAdmissionPolicy in admissionregistration.k8s.io/v1, as Kubernetes does from 1.36 on: use auto or webhook" .Capabilities.KubeVersion.Version) }}
{{- end }}
{{- if eq $by "auto" }}{{ $served | ternary "policy" "webhook" }}
{{- else if eq $by "nobody" }}none
{{- else }}{{ $by }}
{{- end }}
{{- end }}

{{- /* All that patch pods after this upgrade, as words: that of `kubeshare.admission`, and beside it the one before, until
the new one is in force. API servers notice a new policy after a second, and a webhook has to start; Helm deletes what an
upgrade leaves out at once, Deployments before webhooks. So the one before is left out by the next upgrade. Both change a
pod in the same way, and the second of them finds nothing to do. */}}
{{- define "kubeshare.mutators" -}}
{{- $by := include "kubeshare.admission" . }}
{{- $api := "admissionregistration.k8s.io/v1" }}
{{- $found := list $by }}
{{- if and .Release.IsUpgrade (.Capabilities.APIVersions.Has (printf "%s/MutatingAdmissionPolicy" $api)) }}
{{- $policy := lookup $api "MutatingAdmissionPolicyBinding" "" "kubeshare-environment" }}
{{- if and (eq $by "policy") (not $policy) (lookup $api "MutatingWebhookConfiguration" "" "kubeshare-admission") }}
{{- $found = append $found "webhook" }}
{{- else if and (eq $by "webhook") $policy }}
{{- $server := lookup "apps/v1" "Deployment" .Release.Namespace "kubeshare-admission" | default dict }}
{{- if not (dig "status" "availableReplicas" 0 $server) }}
{{- $found = append $found "policy" }}
{{- end }}
{{- end }}
{{- end }}
{{- join " " $found }}
{{- end }}

{{- /* The RuntimeClass of pods that get a card; the collectors' unless it is said. */}}
{{- define "kubeshare.runtimeClass" -}}
{{- $own := .Values.admission.runtimeClassName }}
{{- kindIs "invalid" $own | ternary .Values.collector.runtimeClassName $own }}
{{- end }}

{{- /* The isolation back-ends of each profile by its schedulerName, as CEL: JSON is CEL. */}}
{{- define "kubeshare.cel.choices" -}}
{{- $found := dict }}
{{- range include "kubeshare.profiles" . | fromJsonArray }}
{{- $_ := set $found (.schedulerName | default "kubeshare-scheduler") (.isolation | default (list "none")) }}
{{- end }}
{{- toJson $found }}
{{- end }}

{{- /* Which containers see cards by the resources that they ask for: the rules of the dialects that profiles enable, and
those of other dialects that the values name. */}}
{{- define "kubeshare.rules" -}}
{{- $known := include "kubeshare.containerRules" . | fromJson }}
{{- $found := list }}
{{- range include "kubeshare.profiles" . | fromJsonArray }}
{{- range include "kubeshare.dialectsOf" . | fromJsonArray }}
{{- $found = concat $found (get $known . | default list) }}
{{- end }}
{{- end }}
{{- range .Values.admission.containerRules }}
{{- $rule := dict "resource" .resource "sees" .sees "variables" (.variables | default dict) }}
{{- with .wholeFrom }}
{{- $_ := set $rule "wholeFrom" (int64 . | toString) }}
{{- end }}
{{- if eq (toString .initContainers) "false" }}
{{- $_ := set $rule "initContainers" "false" }}
{{- end }}
{{- $found = append $found $rule }}
{{- end }}
{{- $found | uniq | toJson }}
{{- end }}

{{- /* The same as CEL, whose maps have values of one type: what containers see, and the variables that they get. */}}
{{- define "kubeshare.cel.rules" -}}
{{- $found := list }}
{{- range include "kubeshare.rules" . | fromJsonArray }}
{{- $found = append $found (omit . "variables") }}
{{- end }}
{{- toJson $found }}
{{- end }}

{{- define "kubeshare.cel.told" -}}
{{- /* Of an empty list CEL would not know that its values are texts; no container asks for "". */}}
{{- $found := list (dict "resource" "" "name" "" "path" "") }}
{{- range $rule := include "kubeshare.rules" . | fromJsonArray }}
{{- range $name, $key := $rule.variables }}
{{- $told := dict "resource" $rule.resource "name" $name "path" (printf "metadata.annotations['%s']" $key) }}
{{- $found = append $found (merge $told (pick $rule "initContainers")) }}
{{- end }}
{{- end }}
{{- toJson $found }}
{{- end }}

{{- /* The schedulerName of a pod that is or becomes ours. */}}
{{- define "kubeshare.cel.scheduler" -}}
object.spec.schedulerName in {{ include "kubeshare.cel.choices" . }} ? object.spec.schedulerName :
{{- if ne (include "kubeshare.dialectPods" .) "none" }}
{{ include "kubeshare.cel.asksInDialect" . }} ?
{{ include "kubeshare.takenResources" . }}[{{ include "kubeshare.cel.taken" . }}.flatten().min()] :
{{- end }}
'{{ include "kubeshare.firstScheduler" . }}'
{{- end }}

{{- /* Names of resources in rules about containers. */}}
{{- define "kubeshare.cel.ruleResources" -}}
{{- $found := list }}
{{- range include "kubeshare.rules" . | fromJsonArray }}{{ $found = append $found .resource }}{{ end }}
{{- $found | uniq | toJson }}
{{- end }}

{{- /* What all policies about containers' environment compute first; `.scheduler` is the pod's schedulerName as CEL,
`.context` the chart's. A variable that nothing asks for costs nothing. */}}
{{- define "kubeshare.cel.pod" -}}
{{- $context := .context }}
- name: labels
  expression: "object.metadata.?labels.orValue({})"
- name: allowed
  expression: >-
    {{ include "kubeshare.cel.choices" $context }}[{{ .scheduler }}]
- name: wish
  expression: "variables.labels[?'sharedgpu/isolation'].orValue('')"
- name: annotations
  expression: "object.metadata.?annotations.orValue({})"
- name: reach
  expression: >-
    {{ include "kubeshare.cel.sharedBy" (list $context "annotations") }}
    {{- include "kubeshare.cel.reach" $context | nindent 4 }}
- name: backend
  expression: "variables.wish in variables.allowed ? variables.wish : variables.allowed[0]"
- name: rules
  expression: >-
    {{ include "kubeshare.cel.rules" $context }}
- name: told
  expression: >-
    {{ include "kubeshare.cel.told" $context }}
# What each container sees by the first rule that it meets.
{{- range list "containers" "initContainers" }}
- name: {{ . }}See
  expression: >-
    object.spec.?{{ . }}.orValue([]).map(container, (variables.rules.filter(rule,
    {{- if eq . "initContainers" }} !('initContainers' in rule) &&{{ end }}
    rule.resource in container.?resources.?limits.orValue({}) &&
    quantity(string(container.resources.limits[rule.resource])).isGreaterThan(quantity('0')))
    .map(rule, 'wholeFrom' in rule &&
    !quantity(string(container.resources.limits[rule.resource])).isLessThan(quantity(rule.wholeFrom))
    ? 'whole' : rule.sees) + ['void'])[0])
{{- end }}
# Whether containers ask each for itself; otherwise labels ask for all of them.
- name: differs
  expression: >-
    (object.spec.containers + object.spec.?initContainers.orValue([])).exists(container,
    container.?resources.?limits.orValue({}).exists(name, name in {{ include "kubeshare.cel.ruleResources" $context }}))
    && (variables.containersSee + variables.initContainersSee).exists(one, one != 'void')
# Which column of the tables is the pod's: where containers differ, that of the one with the most.
- name: kind
  expression: >-
    variables.differs ? ('share' in variables.containersSee + variables.initContainersSee ? variables.backend : 'whole') :
    variables.reach != 'share' ? variables.reach : variables.backend
- name: table
  expression: >-
    {{- include "kubeshare.cel.variables" $context | nindent 4 }}
- name: wanted
  expression: >-
    variables.table[variables.kind]
    {{- with $context.Values.admission.allowVariables }}
    .filter(one, !(one.name in {{ toJson . }}))
    {{- end }}
- name: preload
  expression: >-
    {{- include "kubeshare.cel.preload" $context | nindent 4 }}
- name: mountTable
  expression: >-
    {{- include "kubeshare.cel.mounts" $context | nindent 4 }}
- name: mounts
  expression: "variables.mountTable[variables.kind]"
# Each container's column, and its variables: where containers differ, from annotations of its own.
{{- range $list, $prefix := dict "containers" "container" "initContainers" "init" }}
- name: {{ $list }}Kind
  expression: >-
    variables.{{ $list }}See.map(sees, !variables.differs ? variables.kind : sees == 'share' ? variables.backend : sees)
- name: {{ $list }}Wanted
  expression: >-
    lists.range(size(object.spec.?{{ $list }}.orValue([]))).map(at, !variables.differs ? variables.wanted :
    variables.table[variables.{{ $list }}Kind[at]]
    {{- with $context.Values.admission.allowVariables }}
    .filter(one, !(one.name in {{ toJson . }}))
    {{- end }}
    .map(one, one.own == 'false' ? one : {'name': one.name, 'value': one.value, 'default': one.default,
    'own': one.own, 'path': one.path.replace("'sharedgpu/", "'sharedgpu/{{ $prefix }}-" + string(at) + '.')})
    + variables.told.filter(one,
    {{- if eq $list "initContainers" }} !('initContainers' in one) &&{{ end }} one.resource in object.spec.{{ $list }}[at].?resources.?limits.orValue({}) &&
    quantity(string(object.spec.{{ $list }}[at].resources.limits[one.resource])).isGreaterThan(quantity('0')))
    .map(one, {'name': one.name, 'value': '', 'default': 'true', 'own': 'false',
    'path': one.path.replace('{container}', '{{ $prefix }}-' + string(at))}))
{{- end }}
{{- end }}

{{- /* The schedulerName of a pod that is or becomes ours, but for one that is taken by its resources. */}}
{{- define "kubeshare.cel.ownScheduler" -}}
object.spec.schedulerName in {{ include "kubeshare.cel.choices" . }} ? object.spec.schedulerName : '{{ include "kubeshare.firstScheduler" . }}'
{{- end }}

{{- /* Policies run in any order, so a pod is ours before its schedulerName is set as well as after. */}}
{{- define "kubeshare.cel.isOurs" -}}
object.spec.schedulerName in {{ include "kubeshare.cel.choices" . }}
{{- if eq (include "kubeshare.schedulerName" .) "set" }} || {{ include "kubeshare.cel.becomesOurs" . }}
{{- end }}
{{- end }}

{{- /* The same, and those that become ours if their namespace opted in, which only variables can ask. */}}
{{- define "kubeshare.cel.mayBeOurs" -}}
{{ include "kubeshare.cel.isOurs" . }}
{{- if ne (include "kubeshare.dialectPods" .) "none" }} || {{ include "kubeshare.cel.asksInDialect" . }}
{{- end }}
{{- end }}

{{- define "kubeshare.cel.isTaken" -}}
{{- if eq (include "kubeshare.dialectPods" .) "none" }}false
{{- else }}{{ include "kubeshare.cel.asksInDialect" . }} && {{ include "kubeshare.cel.optedIn" . }}
{{- end }}
{{- end }}

{{- /* Steps of a JSON patch that put the entries `.wanted` first; `.list` is a kind of containers. */}}
{{- define "kubeshare.cel.entries" -}}
{{ .wanted }}.reverse().filter(one, !object.spec.{{ .list }}[at].?env.orValue([]).exists(entry,
  entry.name == one.name && (one.default == 'true' || (entry.?value.orValue('') == one.value
  && entry.?valueFrom.?fieldRef.?fieldPath.orValue('') == one.path))))
.map(one, JSONPatch{op: 'add', path: '/spec/{{ .list }}/' + string(at) + '/env/0', value: one.path == ''
  ? Object.spec.{{ .list }}.env{name: one.name, value: one.value}
  : Object.spec.{{ .list }}.env{name: one.name, valueFrom: Object.spec.{{ .list }}.env.valueFrom{
      fieldRef: Object.spec.{{ .list }}.env.valueFrom.fieldRef{fieldPath: one.path}}}})
{{- end }}

{{- define "kubeshare.cel.isAnothers" -}}
!({{ include "kubeshare.cel.isOurs" . }})
{{- end }}

{{- /* The container toolkit can be made to read cards from mounts below /var/run/nvidia-container-devices. It cleans paths,
so there are many ways to write that; the last name is in all of them. */}}
{{- define "kubeshare.cel.mountsNoCards" -}}
!{{ . }}.exists(container, container.?volumeMounts.orValue([]).exists(mount,
mount.mountPath.contains('nvidia-container-devices')))
{{- end }}

{{- /* Whether the annotation `key` brings devices of the node into containers: CDI, NRI's device injector, CRI-O, which
   allows the two devices of the last line by itself. */}}
{{- define "kubeshare.cel.bringsDevices" -}}
key.matches('(^|[.])cdi[.]k8s[.]io/|^(cdi-)?devices[.](nri[.]io|noderesource[.]dev)(/|$)|^(io[.]kubernetes[.]cri-o[.]Devices|devices[.]crio[.]io)$') && !object.metadata.annotations[key].matches('^/dev/(fuse|net/tun)(,/dev/(fuse|net/tun))*$')
{{- end }}

{{- define "kubeshare.cel.broughtDevices" -}}
- name: broughtDevices
  expression: >-
    object.metadata.?annotations.orValue({}).filter(key, {{ include "kubeshare.cel.bringsDevices" . }} &&
    (oldObject == null ? '' : oldObject.metadata.?annotations[?key].orValue('')) != object.metadata.annotations[key])
{{- end }}

{{- define "kubeshare.cel.bringsNoDevices" -}}
- expression: "size(variables.broughtDevices) == 0"
  messageExpression: >-
    'annotation ' + variables.broughtDevices[0] + ' brings devices of the node into containers: take it out'
  reason: Forbidden
{{- end }}

{{- /* The parts of every policy about containers that are added to running pods. */}}
{{- define "kubeshare.cel.added" -}}
- name: before
  expression: "oldObject.spec.?ephemeralContainers.orValue([]).map(one, one.name)"
- name: wanted
  expression: >-
    {{- include "kubeshare.cel.variables" . | nindent 4 }}['void']
{{- end }}

{{- define "kubeshare.cel.addedMutation" -}}
- patchType: JSONPatch
  jsonPatch:
    expression: >-
      lists.range(size(object.spec.?ephemeralContainers.orValue([])))
      .filter(at, !(object.spec.ephemeralContainers[at].name in variables.before)).map(at,
      (has(object.spec.ephemeralContainers[at].env) ? [] :
        [JSONPatch{op: 'add', path: '/spec/ephemeralContainers/' + string(at) + '/env', value: []}])
      + {{ include "kubeshare.cel.entries" (dict "list" "ephemeralContainers" "wanted" "variables.wanted") | nindent 6 | trim }}
      ).flatten()
{{- end }}

{{- /* Namespaces whose pods may see cards without asking: those of drivers and device plugins. */}}
{{- define "kubeshare.notExempt" -}}
matchExpressions:
  - {key: kubernetes.io/metadata.name, operator: NotIn, values: [kube-system, {{ .Release.Namespace }}]}
  - {key: kubeshare.io/exempt, operator: NotIn, values: ["true"]}
{{- end }}

{{- /* The same as a variable: conditions know no namespace. */}}
{{- define "kubeshare.cel.isExempt" -}}
- name: isExempt
  expression: >-
    namespaceObject.metadata.name in ['kube-system', '{{ .Release.Namespace }}']
    || namespaceObject.metadata.?labels[?'kubeshare.io/exempt'].orValue('') == 'true'
{{- end }}

{{- define "kubeshare.admissionLabels" -}}
app.kubernetes.io/name: kubeshare-admission
app.kubernetes.io/version: {{ .Chart.AppVersion | quote }}
{{- with .Values.labels }}
{{ toYaml . }}
{{- end }}
{{- end }}
