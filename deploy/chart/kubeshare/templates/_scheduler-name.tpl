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

{{- /* The schedulerName that a pod gets by the name of a resource that it asks for: that of the first profile with the
dialect. As JSON, which is CEL. */}}
{{- define "kubeshare.takenResources" -}}
{{- $known := include "kubeshare.knownDialects" . | fromJson }}
{{- $found := dict }}
{{- range $profile := .Values.config.profiles | default (list dict) }}
{{- $name := $profile.schedulerName | default "kubeshare-scheduler" }}
{{- range include "kubeshare.dialectsOf" $profile | fromJsonArray }}
{{- $one := get $known . | default dict }}
{{- $resources := $one.resources | default list }}
{{- if $.Values.admission.contestedPods }}
{{- $resources = concat $resources ($one.contested | default list) }}
{{- end }}
{{- range $resources }}
{{- if not (hasKey $found .) }}
{{- $_ := set $found . $name }}
{{- end }}
{{- end }}
{{- end }}
{{- end }}
{{- toJson $found }}
{{- end }}

{{- /* Which namespaces' pods are taken by such resources: namespace, all or none. */}}
{{- define "kubeshare.dialectPods" -}}
{{- $wish := .Values.admission.dialectPods | default "namespace" }}
{{- if or (ne (include "kubeshare.schedulerName" .) "set") (eq (include "kubeshare.takenResources" .) "{}") }}none
{{- else }}{{ $wish }}
{{- end }}
{{- end }}

{{- /* A namespaceSelector of them. */}}
{{- define "kubeshare.optedIn" -}}
matchExpressions:
{{- if eq (include "kubeshare.dialectPods" .) "all" }}
  - {key: kubeshare.io/dialects, operator: NotIn, values: ["false"]}
{{- else }}
  - {key: kubeshare.io/dialects, operator: In, values: ["true"]}
{{- end }}
  # Of HAMi's webhook, and of 4paradigm's.
  - {key: hami.io/webhook, operator: NotIn, values: [ignore]}
  - {key: 4pd.io/webhook, operator: NotIn, values: [ignore]}
{{- end }}

{{- /* The same as CEL, which match conditions cannot ask: they know no namespace. */}}
{{- define "kubeshare.cel.optedIn" -}}
namespaceObject.metadata.?labels[?'kubeshare.io/dialects'].orValue('')
{{- if eq (include "kubeshare.dialectPods" .) "all" }} != 'false'
{{- else }} == 'true'
{{- end }} && !['hami.io/webhook', '4pd.io/webhook'].exists(key, namespaceObject.metadata.?labels[?key].orValue('') == 'ignore')
{{- end }}

{{- /* A new pod that becomes ours by resources of dialects, if its namespace opted in. Whoever names a scheduler or a node
keeps it, and sharedgpu/* decide before. */}}
{{- define "kubeshare.cel.asksInDialect" -}}
(request.operation == 'CREATE' && object.spec.?schedulerName.orValue('') in ['', 'default-scheduler'] && !(object.spec.?schedulerName.orValue('') in {{ include "kubeshare.cel.choices" . }}) && !has(object.spec.nodeName) && !{{ include "kubeshare.cel.carriesKeys" . }} && object.metadata.?labels[?'kubeshare.io/dialects'].orValue('') != 'false' && !['hami.io/webhook', '4pd.io/webhook'].exists(key, object.metadata.?labels[?key].orValue('') == 'ignore') && {{ include "kubeshare.cel.taken" . }}.exists(found, size(found) > 0))
{{- end }}

{{- /* What each container asks for of them: a list of lists of names. */}}
{{- define "kubeshare.cel.taken" -}}
(object.spec.containers + object.spec.?initContainers.orValue([])).map(container, [container.?resources.?limits.orValue({}), container.?resources.?requests.orValue({})].map(amounts, amounts.filter(name, name in {{ include "kubeshare.takenResources" . }} && quantity(string(amounts[name])).isGreaterThan(quantity('0')))).flatten())
{{- end }}
