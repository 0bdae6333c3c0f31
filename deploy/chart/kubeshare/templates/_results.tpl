{{- /* Result annotations, from kubeshare_py/dialects; written by `make manifests`. */}}
{{- define "kubeshare.dialects" -}}
{"sharedgpu":{"labels":["sharedgpu/gpu_exclusive","sharedgpu/gpu_limit","sharedgpu/gpu_mem","sharedgpu/gpu_model","sharedgpu/gpu_model_mix","sharedgpu/gpu_models","sharedgpu/gpu_models_denied","sharedgpu/gpu_request","sharedgpu/gpu_request_of","sharedgpu/numa_bind"],"annotations":["sharedgpu/gpu_model_mix","sharedgpu/gpu_models","sharedgpu/gpu_models_denied","sharedgpu/gpu_request_of"],"prefixes":[],"resources":[],"contested":[],"resultKeys":[],"resultPrefixes":[],"resultLabels":[],"devicePluginKeys":{}},"gpushare":{"labels":["ack.gpushare.placement","aliyun.com/gpu-count"],"annotations":[],"prefixes":[],"resources":["aliyun.com/gpu-core.percentage","aliyun.com/gpu-core.tflops","aliyun.com/gpu-count","aliyun.com/gpu-mem"],"contested":[],"resultKeys":["ALIYUN_COM_GPU_MEM_DEV","ALIYUN_COM_GPU_MEM_IDX","ALIYUN_COM_GPU_MEM_POD","gpushare.alibabacloud.com/core-percentage","gpushare.alibabacloud.com/device-resource","scheduler.framework.gpushare.allocation"],"resultPrefixes":["gpushare.kubeshare.io/"],"resultLabels":[],"devicePluginKeys":{"ALIYUN_COM_GPU_MEM_ASSIGNED":"kubeshare-node-agent","ALIYUN_COM_GPU_MEM_ASSIGN_TIME":"kubeshare-node-agent","ALIYUN_COM_GPU_MEM_ASSUME_TIME":"kubeshare-node-agent","scheduler.framework.gpushare.assigned":"kubeshare-node-agent","scheduler.framework.gpushare.assume-time":"kubeshare-node-agent"}},"nano-gpu":{"labels":[],"annotations":[],"prefixes":[],"resources":["elastic-gpu/gpu-percent","elasticgpu.io/gpu-core","elasticgpu.io/gpu-memory","nano-gpu.io/gpu-core","nano-gpu.io/gpu-memory","nano-gpu/gpu-percent"],"contested":[],"resultKeys":["elastic-gpu/assume","elasticgpu.io/assumed","nano-gpu.io/gpu","nano-gpu/assume"],"resultPrefixes":["elastic-gpu/container-","elasticgpu.io/container-","nano-gpu.io/gpu-","nano-gpu/container-"],"resultLabels":["elastic-gpu/assume","elasticgpu.io/assumed","nano-gpu.io/gpu","nano-gpu/assume"],"devicePluginKeys":{}},"nvidia":{"labels":[],"annotations":[],"prefixes":[],"resources":[],"contested":["nvidia.com/gpu"],"resultKeys":[],"resultPrefixes":[],"resultLabels":[],"devicePluginKeys":{}}}
{{- end }}
{{- define "kubeshare.cel.results" -}}
['sharedgpu/allocation', 'sharedgpu/cell_id', 'sharedgpu/earmark', 'sharedgpu/fence',
'sharedgpu/gpu_manager_port', 'sharedgpu/gpu_mem', 'sharedgpu/gpu_mem_mib', 'sharedgpu/gpu_model',
'sharedgpu/gpu_uuid', 'sharedgpu/mps_memory', 'sharedgpu/mps_thread_percentage']
{{- with include "kubeshare.resultKeys" . | fromJsonArray }} + {{ toJson . }}{{- end }}
{{- end }}
{{- define "kubeshare.cel.isResult" -}}
key in variables.keys
|| key.matches('^sharedgpu/(container|init)-[0-9]+[.](gpu_uuid|gpu_mem_mib|mps_thread_percentage|mps_memory)$'){{- with include "kubeshare.resultPrefixes" . | fromJsonArray }}
|| {{ toJson . }}.exists(prefix, key.startsWith(prefix)){{- end }}
{{- end }}
