{{- /* What NOTES.txt says of the cards: where they come from, and what is missing. */}}
{{- define "kubeshare.cardsNote" -}}
{{- $inventory := .Values.config.inventory | default dict }}
{{- $source := $inventory.source | default "auto" }}
{{- $url := $inventory.url | default "" }}
{{- if eq $source "auto" }}
Cards come from the collectors themselves until {{ with $url }}the Prometheus at {{ . }}{{ else }}the Prometheus Operator's Prometheus, if there is one,{{ end }} names all of them
(config.inventory.source: auto).
{{- else if eq $source "prometheus" }}
Cards come from {{ $url | default "http://prometheus-k8s.monitoring:9090" }} alone (config.inventory.source: prometheus).
Without this Prometheus no pod that asks for GPUs is placed; with source auto the collectors are asked then.
{{- else }}
Cards come from {{ dict "scrape" "the collectors themselves" "annotation" "annotations that collectors write on Nodes" "hami" "annotations that HAMi's device plugins write on Nodes" "file" "a file" | dig $source $source }} (config.inventory.source: {{ $source }}).
{{- end }}
{{- if not (has $source (list "hami" "file")) }}
{{- if not .Values.collector.enabled }}
No collectors are installed (collector.enabled: false): something else has to be on the nodes with cards.
{{- else if eq (include "collector.lacksNodes" .) "true" }}
No node has a label that collectors look for, so that none starts and no card is known. Label the nodes with cards:
  kubectl label node NODE SharedGPU=true
or install NVIDIA's GPU feature discovery, or say in collector.affinity which nodes these are.
{{- end }}
{{- end }}
{{- end }}

{{- /* "true" if the cluster's nodes can be seen and collectors may run on none of them; taints do not count. */}}
{{- define "collector.lacksNodes" -}}
{{- $nodes := (lookup "v1" "Node" "" "").items | default list }}
{{- $affinity := .Values.collector.affinity | default dict }}
{{- $terms := dig "nodeAffinity" "requiredDuringSchedulingIgnoredDuringExecution" "nodeSelectorTerms" list $affinity }}
{{- $found := or (not $nodes) (not $terms) }}
{{- range $node := $nodes }}
{{- $labels := $node.metadata.labels | default dict }}
{{- range $term := $terms }}
{{- $fits := true }}
{{- range $one := $term.matchExpressions }}
{{- $has := hasKey $labels $one.key }}
{{- if or (and (eq $one.operator "Exists") (not $has)) (and (eq $one.operator "In") (not (and $has (has (index $labels $one.key) $one.values)))) }}
{{- $fits = false }}
{{- end }}
{{- end }}
{{- if $fits }}
{{- $found = true }}
{{- end }}
{{- end }}
{{- end }}
{{- not $found }}
{{- end }}
