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
{{- (first (include "kubeshare.profiles" . | fromJsonArray)).schedulerName | default "kubeshare-scheduler" }}
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
{{- range $profile := include "kubeshare.profiles" . | fromJsonArray }}
{{- $name := $profile.schedulerName | default "kubeshare-scheduler" }}
{{- range include "kubeshare.dialectsOf" $profile | fromJsonArray }}
{{- $one := get $known . | default dict }}
{{- $resources := $one.resources | default list }}
{{- if include "kubeshare.contestedPods" $ }}
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

{{- /* "true" where names that device plugins have too count: by choice, or with chosen dialects. */}}
{{- define "kubeshare.contestedPods" -}}
{{- $wish := .Values.admission.contestedPods }}
{{- if kindIs "invalid" $wish | ternary (ne (include "kubeshare.chosenDialects" .) "[]") $wish }}true{{ end }}
{{- end }}

{{- /* Which namespaces' pods are taken by such resources: namespace, all or none. */}}
{{- define "kubeshare.dialectPods" -}}
{{- $wish := .Values.admission.dialectPods | default (eq (include "kubeshare.chosenDialects" .) "[]" | ternary "namespace" "all") }}
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
(request.operation == 'CREATE' && object.spec.?schedulerName.orValue('') in ['', 'default-scheduler'] && !(object.spec.?schedulerName.orValue('') in {{ include "kubeshare.cel.choices" . }}) && !has(object.spec.nodeName) && !{{ include "kubeshare.cel.carriesKeys" . }} && object.metadata.?labels[?'kubeshare.io/dialects'].orValue('') != 'false' && !['hami.io/webhook', '4pd.io/webhook'].exists(key, object.metadata.?labels[?key].orValue('') == 'ignore') && (object.spec.containers + object.spec.?initContainers.orValue([])).exists(container, has(container.resources) && (
{{- range $at, $amounts := list "limits" "requests" }}{{ if $at }} || {{ end }}(has(container.resources.{{ $amounts }}) && container.resources.{{ $amounts }}.exists(name, {{ include "kubeshare.cel.isTakenAmount" (list $ (printf "container.resources.%s" $amounts)) }})){{ end }})))
{{- end }}

{{- /* Whether `name` is such a resource and asked for by these amounts. */}}
{{- define "kubeshare.cel.isTakenAmount" -}}
name in {{ include "kubeshare.takenResources" (index . 0) | fromJson | keys | sortAlpha | toJson }} && quantity(string({{ index . 1 }}[name])).isGreaterThan(quantity('0'))
{{- end }}

{{- /* What each container asks for of them: a list of lists of names. */}}
{{- define "kubeshare.cel.taken" -}}
(object.spec.containers + object.spec.?initContainers.orValue([])).map(container, [container.?resources.?limits.orValue({}), container.?resources.?requests.orValue({})].map(amounts, amounts.filter(name, {{ include "kubeshare.cel.isTakenAmount" (list . "amounts") }})).flatten())
{{- end }}
