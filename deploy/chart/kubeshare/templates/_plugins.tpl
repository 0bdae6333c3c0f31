{{- /* Plugins of kubeshare-py, for profiles; written by `make manifests`. */}}
{{- define "kubeshare.plugins" -}}
["AvoidGpuNodes", "BinPack", "Coscheduling", "DefaultPreemption", "GpuFit", "GpuModel", "GpuTags", "GpuUuids", "IsolationReady", "KubeShareGuarantee", "KubeShareOpportunistic", "LeastTenants", "ModelPreference", "ModelWorth", "NodeAffinity", "NodeResourcesFit", "NodeUnschedulable", "NumaBinding", "OneModel", "PrioritySort", "Random", "Spread", "TaintToleration", "Topology"]
{{- end }}
