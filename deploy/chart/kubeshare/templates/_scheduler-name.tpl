{{- /* What is done with pods that carry sharedgpu/* and name no scheduler of ours: set, demand or ignore. Nothing can set
it where nothing patches pods. */}}
{{- define "kubeshare.schedulerName" -}}
{{- $wish := .Values.admission.schedulerName | default "set" }}
{{- if and (eq $wish "set") (eq (include "kubeshare.admission" .) "none") }}demand
{{- else }}{{ $wish }}
{{- end }}
{{- end }}

{{- /* "true" unless it is switched off: `helm upgrade --reuse-values` from a release before this value has none. */}}
{{- define "kubeshare.validates" -}}
{{- if ne (toString .Values.admission.validate) "false" }}true{{ end }}
{{- end }}

{{- /* The profile that such pods get. */}}
{{- define "kubeshare.firstScheduler" -}}
{{- (first (.Values.config.profiles | default (list dict))).schedulerName | default "kubeshare-scheduler" }}
{{- end }}

{{- /* One line each, so that they can be part of any block.

Kubernetes sets default-scheduler before admission: nobody can tell whether the pod said so itself. Pods that name
another scheduler, or their node, are left alone. */}}
{{- define "kubeshare.cel.becomesOurs" -}}
(request.operation == 'CREATE' && object.spec.?schedulerName.orValue('') in ['', 'default-scheduler'] && !has(object.spec.nodeName) && {{ include "kubeshare.cel.carriesKeys" . }})
{{- end }}

{{- define "kubeshare.cel.carriesKeys" -}}
[object.metadata.?labels.orValue({}), object.metadata.?annotations.orValue({})].exists(keys, keys.exists(key, key.startsWith('sharedgpu/')))
{{- end }}
