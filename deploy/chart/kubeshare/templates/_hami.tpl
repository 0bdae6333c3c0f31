{{- /* Rules of kubeshare_py/dialects/hami as CEL; written by `make manifests`. */}}
{{- define "kubeshare.hamiDefaults" -}}
{"count":"nvidia.com/gpu","memory":"nvidia.com/gpumem","memory_percentage":"nvidia.com/gpumem-percentage","cores":"nvidia.com/gpucores","priority":"nvidia.com/priority","default_gpu_num":"1","memory_factor":"1","profile":"hami"}
{{- end }}
{{- define "kubeshare.cel.hamiAdditions" -}}
- name: containersLimits
  expression: >-
    (has(object.spec.containers) ? object.spec.containers : []).map(one,
    has(one.resources) && has(one.resources.limits) ? one.resources.limits : {})
- name: initContainersLimits
  expression: >-
    (has(object.spec.initContainers) ? object.spec.initContainers : []).map(one,
    has(one.resources) && has(one.resources.limits) ? one.resources.limits : {})
- name: asks
  expression: >-
    (variables.containersLimits + variables.initContainersLimits).exists(limits, [variables.own.count, variables.own.memory, variables.own.memory_percentage, variables.own.cores, variables.own.priority].exists(name, name in limits && quantity(string(limits[name])).isGreaterThan(quantity('0'))))
    && (variables.containersLimits + variables.initContainersLimits).exists(limits, (variables.own.count in limits && quantity(string(limits[variables.own.count])).isGreaterThan(quantity('0')))
    || (!(variables.own.profile == "4paradigm") && variables.own.default_gpu_num != '0' && [variables.own.memory, variables.own.memory_percentage, variables.own.cores].exists(part, part in limits)))
- name: containersAdded
  expression: >-
    variables.containersLimits.map(limits, variables.own.profile == "4paradigm" || !((variables.own.count in limits && quantity(string(limits[variables.own.count])).isGreaterThan(quantity('0')))
    || (!(variables.own.profile == "4paradigm") && variables.own.default_gpu_num != '0' && [variables.own.memory, variables.own.memory_percentage, variables.own.cores].exists(part, part in limits))) ? [] :
    (variables.own.count in limits ? [] : [{'name': variables.own.count, 'value': variables.own.default_gpu_num}])
    + (!(variables.own.cores in limits) && (variables.own.memory_percentage in limits ? quantity(string(limits[variables.own.memory_percentage])).compareTo(quantity('100')) == 0 : !(variables.own.memory in limits)) ? [{'name': variables.own.cores, 'value': '100'}] : []))
- name: containersPriority
  expression: >-
    variables.containersLimits.map(limits, variables.own.priority in limits
    ? string(quantity(string(limits[variables.own.priority])).asInteger()) : '')
- name: initContainersAdded
  expression: >-
    variables.initContainersLimits.map(limits, variables.own.profile == "4paradigm" || !((variables.own.count in limits && quantity(string(limits[variables.own.count])).isGreaterThan(quantity('0')))
    || (!(variables.own.profile == "4paradigm") && variables.own.default_gpu_num != '0' && [variables.own.memory, variables.own.memory_percentage, variables.own.cores].exists(part, part in limits))) ? [] :
    (variables.own.count in limits ? [] : [{'name': variables.own.count, 'value': variables.own.default_gpu_num}])
    + (!(variables.own.cores in limits) && (variables.own.memory_percentage in limits ? quantity(string(limits[variables.own.memory_percentage])).compareTo(quantity('100')) == 0 : !(variables.own.memory in limits)) ? [{'name': variables.own.cores, 'value': '100'}] : []))
- name: initContainersPriority
  expression: >-
    variables.initContainersLimits.map(limits, variables.own.priority in limits
    ? string(quantity(string(limits[variables.own.priority])).asInteger()) : '')
- name: priorityName
  expression: >-
    "CUDA_TASK_PRIORITY"
{{- end }}
{{- define "kubeshare.cel.hamiRefusals" -}}
- name: amounts
  expression: >-
    has(object.spec.nodeName) && object.spec.nodeName != '' ? [] : (variables.initContainersLimits + variables.containersLimits).map(limits, (variables.own.count in limits || variables.own.profile == "4paradigm" || variables.own.default_gpu_num == '0') && !(variables.own.count in limits && quantity(string(limits[variables.own.count])).isGreaterThan(quantity('0'))) ? (variables.own.memory in limits && quantity(string(limits[variables.own.memory])).isGreaterThan(quantity('0')) ? 'resources[' + variables.own.memory + ']="' + string(quantity(string(limits[variables.own.memory])).asInteger()) + '": ' + "asks for a part of cards, and not for how many" :
    variables.own.memory_percentage in limits && quantity(string(limits[variables.own.memory_percentage])).isGreaterThan(quantity('0')) ? 'resources[' + variables.own.memory_percentage + ']="' + string(quantity(string(limits[variables.own.memory_percentage])).asInteger()) + '": ' + "asks for a part of cards, and not for how many" :
    variables.own.cores in limits && quantity(string(limits[variables.own.cores])).isGreaterThan(quantity('0')) ? 'resources[' + variables.own.cores + ']="' + string(quantity(string(limits[variables.own.cores])).asInteger()) + '": ' + "asks for a part of cards, and not for how many" :
    '') :
    variables.own.count in limits && quantity(string(limits[variables.own.count])).isGreaterThan(quantity("1000000")) ? 'resources[' + variables.own.count + ']="' + string(quantity(string(limits[variables.own.count])).asInteger()) + '": ' + "at most 1000000 GPUs can be had" :
    variables.own.memory in limits && quantity(string(limits[variables.own.memory])).isGreaterThan(quantity(string(268435456 / int(variables.own.memory_factor)))) ? 'resources[' + variables.own.memory + ']="' + string(quantity(string(limits[variables.own.memory])).asInteger()) + '": ' + "is a number of " + (variables.own.memory_factor == '1' ? 'MiB' : variables.own.memory_factor + ' MiB') + ", at most " + string(268435456 / int(variables.own.memory_factor)) :
    variables.own.memory_percentage in limits && quantity(string(limits[variables.own.memory_percentage])).isGreaterThan(quantity("100")) ? 'resources[' + variables.own.memory_percentage + ']="' + string(quantity(string(limits[variables.own.memory_percentage])).asInteger()) + '": ' + "must be at most 100" :
    '')
    .filter(one, one != '')
- name: privileged
  expression: >-
    ((has(object.spec.initContainers) ? object.spec.initContainers : []) + (has(object.spec.containers) ? object.spec.containers : [])).filter(one, has(one.securityContext)
    && has(one.securityContext.privileged) && one.securityContext.privileged).map(one, one.name)
- name: problem
  expression: >-
    size(variables.amounts) > 0 ? variables.amounts[0] :
    !variables.asks ? '' :
    size(variables.privileged) > 0 ? "container " + variables.privileged[0] + " is privileged, so that no limit holds it: it cannot be in a pod that asks for parts of GPUs" :
    has(object.spec.nodeName) && object.spec.nodeName != '' ? "it asks for GPUs and names its node: spec.nodeName must be empty" :
    ''
{{- end }}
