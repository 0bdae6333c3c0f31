{{- /* The annotations by which the scheduler says what a pod got, as a list of CEL; `kubeshare.cel.isResult` has those for one
container too. */}}
{{- define "kubeshare.cel.results" -}}
['sharedgpu/allocation', 'sharedgpu/gpu_uuid', 'sharedgpu/gpu_model', 'sharedgpu/gpu_mem',
'sharedgpu/cell_id', 'sharedgpu/gpu_manager_port', 'sharedgpu/fence', 'sharedgpu/gpu_mem_mib',
'sharedgpu/mps_thread_percentage', 'sharedgpu/mps_memory', 'sharedgpu/earmark']
{{- end }}

{{- /* Whether `key` is one of `variables.keys`, or one for one container. */}}
{{- define "kubeshare.cel.isResult" -}}
key in variables.keys
|| key.matches('^sharedgpu/(container|init)-[0-9]+[.](gpu_uuid|gpu_mem_mib|mps_thread_percentage|mps_memory)$')
{{- end }}
