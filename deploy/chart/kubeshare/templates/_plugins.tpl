{{- /* What profiles may list, and list by default; written by `make manifests`. */}}
{{- define "kubeshare.plugins" -}}
["AvoidGpuNodes", "BinPack", "Coscheduling", "DefaultPreemption", "DialectNodes", "DynamicResources", "GpuFit", "GpuModel", "GpuNames", "GpuTags", "GpuUuids", "ImageLocality", "InterPodAffinity", "IsolationReady", "KubeShareGuarantee", "KubeShareOpportunistic", "LeastTenants", "ModelPreference", "ModelWorth", "NodeAffinity", "NodeDeclaredFeatures", "NodePorts", "NodeResourcesBalancedAllocation", "NodeResourcesFit", "NodeUnschedulable", "NodeVolumeLimits", "NumaBinding", "OneModel", "PodPolicy", "PodTopologySpread", "PrioritySort", "Random", "RdmaProximity", "Spread", "TaintToleration", "Topology", "VolumeBinding", "VolumeRestrictions", "VolumeZone"]
{{- end }}
{{- define "kubeshare.defaultDialects" -}}
["sharedgpu", "gpushare", "nano-gpu", "sharepod"]
{{- end }}
