{{- /* Parts of the policy kubeshare-pods about pods of other schedulers, in namespaces that are not exempt. Conditions know no
namespace, variables do. */}}

{{- /* Pods that ask for no GPU see none, whatever their images say. */}}
{{- define "kubeshare.others.applies" -}}
(oldObject == null && object.kind == 'Pod' && {{ include "kubeshare.cel.isAnothers" . }}
&& ((object.spec.containers + object.spec.?initContainers.orValue([])).exists(container,
container.?env.orValue([]).exists(entry, entry.name == 'NVIDIA_VISIBLE_DEVICES'
&& (has(entry.valueFrom) || !(entry.?value.orValue('') in ['void', 'none', '']))))
|| !{{ include "kubeshare.cel.mountsNoCards" "(object.spec.containers + object.spec.?initContainers.orValue([]))" }}
|| (has(object.spec.nodeName) && !{{ include "kubeshare.cel.asksForNone" . | nindent 2 | trim }})))
{{- end }}

{{- define "kubeshare.others.variables" -}}
- name: othersContainers
  expression: "object.spec.containers + object.spec.?initContainers.orValue([])"
- name: isAnothers
  expression: "variables.othersApply && !variables.isExempt"
- name: asksForNone
  expression: >-
    {{- include "kubeshare.cel.asksForNone" . | nindent 4 }}
{{- end }}

{{- define "kubeshare.others.validations" -}}
- expression: >-
    !variables.isAnothers || !variables.asksForNone || variables.othersContainers.all(container,
    container.?env.orValue([]).filter(entry, entry.name == 'NVIDIA_VISIBLE_DEVICES').all(entry,
    !has(entry.valueFrom) && entry.?value.orValue('') in ['void', 'none', '']))
  message: >-
    NVIDIA_VISIBLE_DEVICES in a pod that asks for no GPU: ask for one, or use a namespace with the label
    kubeshare.io/exempt
  reason: Forbidden
- expression: >-
    !variables.isAnothers ||
    {{- include "kubeshare.cel.mountsNoCards" "variables.othersContainers" | nindent 4 }}
  message: >-
    a mount below /var/run/nvidia-container-devices names cards: use a namespace with the label kubeshare.io/exempt
  reason: Forbidden
# A kubelet does not look whether its node has such a resource at all: that is for schedulers.
- expression: "!variables.isAnothers || variables.asksForNone || !has(object.spec.nodeName)"
  message: >-
    a pod that asks for a GPU and names its node itself: leave its node to its scheduler, or use a namespace with
    the label kubeshare.io/exempt
  reason: Forbidden
{{- end }}

{{- /* Annotations by which container runtimes and NVIDIA's NRI plugin bring devices into containers are the node's to write,
on containers: those of a pod are its user's. At any time, since a pod's sandbox may be made anew. Of our pods the parts
containers and settled look at them. */}}
{{- define "kubeshare.devices.applies" -}}
(object.kind == 'Pod' && object.metadata.?annotations.orValue({}).exists(key, {{ include "kubeshare.cel.bringsDevices" . }})
&& {{ include "kubeshare.cel.isAnothers" . }})
{{- end }}

{{- define "kubeshare.devices.variables" -}}
- name: othersDevices
  expression: "variables.devicesApply && !variables.isExempt"
{{- end }}

{{- define "kubeshare.devices.validations" }}{{ end }}
