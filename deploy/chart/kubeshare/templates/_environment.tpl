{{- /* Tables of kubeshare_py/isolation as CEL; written by `make manifests`. */}}
{{- define "kubeshare.cel.reach" -}}
!(variables.labels[?'sharedgpu/gpu_exclusive'].orValue('') == 'true' || ["sharedgpu/gpu_limit","sharedgpu/gpu_request","sharedgpu/gpu_mem"].exists(label, label in variables.labels)) ||
variables.labels[?'sharedgpu/gpu_limit'].orValue('').matches('^0+([.]0*)?$') ? 'void' :
variables.labels[?'sharedgpu/gpu_exclusive'].orValue('') == 'true' ||
variables.labels[?'sharedgpu/gpu_request'].orValue('').matches('^0*([2-9]|[1-9][0-9]+)([.][0-9]*)?$') ? 'whole' : 'share'
{{- end }}
{{- define "kubeshare.cel.reachBefore" -}}
!(variables.labelsBefore[?'sharedgpu/gpu_exclusive'].orValue('') == 'true' || ["sharedgpu/gpu_limit","sharedgpu/gpu_request","sharedgpu/gpu_mem"].exists(label, label in variables.labelsBefore)) ||
variables.labelsBefore[?'sharedgpu/gpu_limit'].orValue('').matches('^0+([.]0*)?$') ? 'void' :
variables.labelsBefore[?'sharedgpu/gpu_exclusive'].orValue('') == 'true' ||
variables.labelsBefore[?'sharedgpu/gpu_request'].orValue('').matches('^0*([2-9]|[1-9][0-9]+)([.][0-9]*)?$') ? 'whole' : 'share'
{{- end }}
{{- define "kubeshare.cel.variables" -}}
{"void": [{"name":"NVIDIA_VISIBLE_DEVICES","value":"void","path":"","default":"false","own":"false"}],
"whole": [{"name":"NVIDIA_VISIBLE_DEVICES","value":"","path":"metadata.annotations['sharedgpu/gpu_uuid']","default":"false","own":"true"},{"name":"NVIDIA_DRIVER_CAPABILITIES","value":"compute,utility","path":"","default":"true","own":"false"},{"name":"NVIDIA_NVSWITCH","value":"disabled","path":"","default":"true","own":"false"},{"name":"NVIDIA_MOFED","value":"disabled","path":"","default":"true","own":"false"},{"name":"NVIDIA_GDS","value":"disabled","path":"","default":"true","own":"false"},{"name":"NVIDIA_MIG_CONFIG_DEVICES","value":"","path":"","default":"true","own":"false"},{"name":"NVIDIA_MIG_MONITOR_DEVICES","value":"","path":"","default":"true","own":"false"}],
"none": [{"name":"NVIDIA_VISIBLE_DEVICES","value":"","path":"metadata.annotations['sharedgpu/gpu_uuid']","default":"false","own":"true"},{"name":"NVIDIA_DRIVER_CAPABILITIES","value":"compute,utility","path":"","default":"true","own":"false"},{"name":"NVIDIA_NVSWITCH","value":"disabled","path":"","default":"true","own":"false"},{"name":"NVIDIA_MOFED","value":"disabled","path":"","default":"true","own":"false"},{"name":"NVIDIA_GDS","value":"disabled","path":"","default":"true","own":"false"},{"name":"NVIDIA_MIG_CONFIG_DEVICES","value":"","path":"","default":"true","own":"false"},{"name":"NVIDIA_MIG_MONITOR_DEVICES","value":"","path":"","default":"true","own":"false"}],
"driver": [{"name":"NVIDIA_VISIBLE_DEVICES","value":"","path":"metadata.annotations['sharedgpu/gpu_uuid']","default":"false","own":"true"},{"name":"NVIDIA_DRIVER_CAPABILITIES","value":"compute,utility","path":"","default":"true","own":"false"},{"name":"NVIDIA_NVSWITCH","value":"disabled","path":"","default":"true","own":"false"},{"name":"NVIDIA_MOFED","value":"disabled","path":"","default":"true","own":"false"},{"name":"NVIDIA_GDS","value":"disabled","path":"","default":"true","own":"false"},{"name":"NVIDIA_MIG_CONFIG_DEVICES","value":"","path":"","default":"true","own":"false"},{"name":"NVIDIA_MIG_MONITOR_DEVICES","value":"","path":"","default":"true","own":"false"},{"name":"NVIDIA_GPU_MEMORY_REQUEST","value":"","path":"metadata.annotations['sharedgpu/gpu_mem_mib']","default":"false","own":"true"},{"name":"NVIDIA_GPU_MEMORY_LIMIT","value":"","path":"metadata.annotations['sharedgpu/gpu_mem_mib']","default":"false","own":"true"}],
"mps": [{"name":"NVIDIA_VISIBLE_DEVICES","value":"","path":"metadata.annotations['sharedgpu/gpu_uuid']","default":"false","own":"true"},{"name":"NVIDIA_DRIVER_CAPABILITIES","value":"compute,utility","path":"","default":"true","own":"false"},{"name":"NVIDIA_NVSWITCH","value":"disabled","path":"","default":"true","own":"false"},{"name":"NVIDIA_MOFED","value":"disabled","path":"","default":"true","own":"false"},{"name":"NVIDIA_GDS","value":"disabled","path":"","default":"true","own":"false"},{"name":"NVIDIA_MIG_CONFIG_DEVICES","value":"","path":"","default":"true","own":"false"},{"name":"NVIDIA_MIG_MONITOR_DEVICES","value":"","path":"","default":"true","own":"false"},{"name":"CUDA_MPS_ACTIVE_THREAD_PERCENTAGE","value":"","path":"metadata.annotations['sharedgpu/mps_thread_percentage']","default":"false","own":"true"},{"name":"CUDA_MPS_PINNED_DEVICE_MEM_LIMIT","value":"","path":"metadata.annotations['sharedgpu/mps_memory']","default":"false","own":"true"},{"name":"CUDA_MPS_PIPE_DIRECTORY","value":"/tmp/nvidia-mps","path":"","default":"false","own":"false"}],
"gemini": [{"name":"NVIDIA_VISIBLE_DEVICES","value":"","path":"metadata.annotations['sharedgpu/gpu_uuid']","default":"false","own":"true"},{"name":"NVIDIA_DRIVER_CAPABILITIES","value":"compute,utility","path":"","default":"true","own":"false"},{"name":"NVIDIA_NVSWITCH","value":"disabled","path":"","default":"true","own":"false"},{"name":"NVIDIA_MOFED","value":"disabled","path":"","default":"true","own":"false"},{"name":"NVIDIA_GDS","value":"disabled","path":"","default":"true","own":"false"},{"name":"NVIDIA_MIG_CONFIG_DEVICES","value":"","path":"","default":"true","own":"false"},{"name":"NVIDIA_MIG_MONITOR_DEVICES","value":"","path":"","default":"true","own":"false"},{"name":"POD_MANAGER_PORT","value":"","path":"metadata.annotations['sharedgpu/gpu_manager_port']","default":"false","own":"false"},{"name":"KUBESHARE_NAMESPACE","value":"","path":"metadata.namespace","default":"false","own":"false"},{"name":"KUBESHARE_NAME","value":"","path":"metadata.name","default":"false","own":"false"},{"name":"POD_NAME","value":"$(KUBESHARE_NAMESPACE)/$(KUBESHARE_NAME)","path":"","default":"false","own":"false"}],
"hami-core": [{"name":"NVIDIA_VISIBLE_DEVICES","value":"","path":"metadata.annotations['sharedgpu/gpu_uuid']","default":"false","own":"true"},{"name":"NVIDIA_DRIVER_CAPABILITIES","value":"compute,utility","path":"","default":"true","own":"false"},{"name":"NVIDIA_NVSWITCH","value":"disabled","path":"","default":"true","own":"false"},{"name":"NVIDIA_MOFED","value":"disabled","path":"","default":"true","own":"false"},{"name":"NVIDIA_GDS","value":"disabled","path":"","default":"true","own":"false"},{"name":"NVIDIA_MIG_CONFIG_DEVICES","value":"","path":"","default":"true","own":"false"},{"name":"NVIDIA_MIG_MONITOR_DEVICES","value":"","path":"","default":"true","own":"false"}]}
{{- end }}
{{- define "kubeshare.cel.preload" -}}
{"void": "",
"whole": "",
"none": "",
"driver": "",
"mps": "",
"gemini": "/kubeshare/library/libgemhook.so.1",
"hami-core": ""}
{{- end }}
{{- define "kubeshare.cel.mounts" -}}
{"void": [],
"whole": [],
"none": [],
"driver": [],
"mps": [{"volume":"kubeshare-mps","path":"/tmp/nvidia-mps","subPathExpr":"$(NVIDIA_VISIBLE_DEVICES)/pipe","readOnly":"false"},{"volume":"kubeshare-mps","path":"/dev/shm","subPathExpr":"$(NVIDIA_VISIBLE_DEVICES)/shm","readOnly":"false"}],
"gemini": [{"volume":"kubeshare-lib","path":"/kubeshare/library","subPathExpr":"","readOnly":"true"}],
"hami-core": []}
{{- end }}
{{- define "kubeshare.cel.asksForNone" -}}
!(object.spec.containers + object.spec.?initContainers.orValue([])).exists(container,
[container.?resources.?limits.orValue({}), container.?resources.?requests.orValue({})].exists(amounts,
amounts.exists(name, quantity(string(amounts[name])).isGreaterThan(quantity('0')) && name.contains('/') && name.lowerAscii().matches('gpu|(^|[.])nvidia[.]com/mig-|(^|[.])(aliyun[.]com|elasticgpu[.]io|nano-gpu[.]io|4pd[.]io|hami[.]io|deviceclass[.]resource[.]kubernetes[.]io)/'))))
{{- end }}
{{- define "kubeshare.cel.deviceVariables" -}}
{"NVIDIA_NVSWITCH":"disabled","NVIDIA_MOFED":"disabled","NVIDIA_GDS":"disabled","NVIDIA_MIG_CONFIG_DEVICES":"","NVIDIA_MIG_MONITOR_DEVICES":""}
{{- end }}
{{- define "kubeshare.cel.volumes" -}}
{"void": [],
"whole": [],
"none": [],
"driver": [],
"mps": [{"name":"kubeshare-mps","path":"/run/kubeshare/mps","type":"Directory"}],
"gemini": [{"name":"kubeshare-lib","path":"/kubeshare/library","type":"Directory"}],
"hami-core": []}
{{- end }}
{{- define "kubeshare.containerRules" -}}
{"sharedgpu":[],"gpushare":[{"resource":"aliyun.com/gpu-mem","sees":"share","variables":{"ALIYUN_COM_GPU_MEM_IDX":"ALIYUN_COM_GPU_MEM_IDX","ALIYUN_COM_GPU_MEM_POD":"ALIYUN_COM_GPU_MEM_POD","ALIYUN_COM_GPU_MEM_DEV":"ALIYUN_COM_GPU_MEM_DEV","ALIYUN_COM_GPU_MEM_CONTAINER":"gpushare.kubeshare.io/{container}"},"initContainers":"false"}],"nano-gpu":[{"resource":"nano-gpu.io/gpu-core","sees":"share","wholeFrom":"100"},{"resource":"nano-gpu/gpu-percent","sees":"share","wholeFrom":"100"},{"resource":"elastic-gpu/gpu-percent","sees":"share","wholeFrom":"100"},{"resource":"elasticgpu.io/gpu-core","sees":"share","wholeFrom":"100"},{"resource":"nano-gpu.io/gpu-memory","sees":"share"},{"resource":"elasticgpu.io/gpu-memory","sees":"share"}],"nvidia":[{"resource":"nvidia.com/gpu","sees":"whole"}],"sharepod":[],"hami":[{"resource":"nvidia.com/gpu","sees":"share"},{"resource":"nvidia.com/gpumem","sees":"share"},{"resource":"nvidia.com/gpumem-percentage","sees":"share"},{"resource":"nvidia.com/gpucores","sees":"share"}],"cambricon":[]}
{{- end }}
