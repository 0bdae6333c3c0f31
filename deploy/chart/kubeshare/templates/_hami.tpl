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
- name: hamiAsks
  expression: >-
    (variables.containersLimits + variables.initContainersLimits).exists(limits, [variables.hami.count, variables.hami.memory, variables.hami.memory_percentage, variables.hami.cores, variables.hami.priority].exists(name, name in limits && quantity(string(limits[name])).isGreaterThan(quantity('0'))))
    && (variables.containersLimits + variables.initContainersLimits).exists(limits, (variables.hami.count in limits && quantity(string(limits[variables.hami.count])).isGreaterThan(quantity('0')))
    || (!(variables.hami.profile == "4paradigm") && variables.hami.default_gpu_num != '0' && [variables.hami.memory, variables.hami.memory_percentage, variables.hami.cores].exists(part, part in limits)))
- name: containersAdded
  expression: >-
    variables.containersLimits.map(limits, variables.hami.profile == "4paradigm" || !((variables.hami.count in limits && quantity(string(limits[variables.hami.count])).isGreaterThan(quantity('0')))
    || (!(variables.hami.profile == "4paradigm") && variables.hami.default_gpu_num != '0' && [variables.hami.memory, variables.hami.memory_percentage, variables.hami.cores].exists(part, part in limits))) ? [] :
    (variables.hami.count in limits ? [] : [{'name': variables.hami.count, 'value': variables.hami.default_gpu_num}])
    + (!(variables.hami.cores in limits) && (variables.hami.memory_percentage in limits ? quantity(string(limits[variables.hami.memory_percentage])).compareTo(quantity('100')) == 0 : !(variables.hami.memory in limits)) ? [{'name': variables.hami.cores, 'value': '100'}] : []))
- name: containersPriority
  expression: >-
    variables.containersLimits.map(limits, variables.hami.priority in limits
    ? string(quantity(string(limits[variables.hami.priority])).asInteger()) : '')
- name: initContainersAdded
  expression: >-
    variables.initContainersLimits.map(limits, variables.hami.profile == "4paradigm" || !((variables.hami.count in limits && quantity(string(limits[variables.hami.count])).isGreaterThan(quantity('0')))
    || (!(variables.hami.profile == "4paradigm") && variables.hami.default_gpu_num != '0' && [variables.hami.memory, variables.hami.memory_percentage, variables.hami.cores].exists(part, part in limits))) ? [] :
    (variables.hami.count in limits ? [] : [{'name': variables.hami.count, 'value': variables.hami.default_gpu_num}])
    + (!(variables.hami.cores in limits) && (variables.hami.memory_percentage in limits ? quantity(string(limits[variables.hami.memory_percentage])).compareTo(quantity('100')) == 0 : !(variables.hami.memory in limits)) ? [{'name': variables.hami.cores, 'value': '100'}] : []))
- name: initContainersPriority
  expression: >-
    variables.initContainersLimits.map(limits, variables.hami.priority in limits
    ? string(quantity(string(limits[variables.hami.priority])).asInteger()) : '')
- name: priorityName
  expression: >-
    "CUDA_TASK_PRIORITY"
{{- end }}
{{- define "kubeshare.cel.hamiRefusals" -}}
- name: hamiAmounts
  expression: >-
    has(object.spec.nodeName) && object.spec.nodeName != '' ? [] : (variables.initContainersLimits + variables.containersLimits).map(limits, (variables.hami.count in limits || variables.hami.profile == "4paradigm" || variables.hami.default_gpu_num == '0') && !(variables.hami.count in limits && quantity(string(limits[variables.hami.count])).isGreaterThan(quantity('0'))) ? (variables.hami.memory in limits && quantity(string(limits[variables.hami.memory])).isGreaterThan(quantity('0')) ? 'resources[' + variables.hami.memory + ']="' + string(quantity(string(limits[variables.hami.memory])).asInteger()) + '": ' + "asks for a part of cards, and not for how many" :
    variables.hami.memory_percentage in limits && quantity(string(limits[variables.hami.memory_percentage])).isGreaterThan(quantity('0')) ? 'resources[' + variables.hami.memory_percentage + ']="' + string(quantity(string(limits[variables.hami.memory_percentage])).asInteger()) + '": ' + "asks for a part of cards, and not for how many" :
    variables.hami.cores in limits && quantity(string(limits[variables.hami.cores])).isGreaterThan(quantity('0')) ? 'resources[' + variables.hami.cores + ']="' + string(quantity(string(limits[variables.hami.cores])).asInteger()) + '": ' + "asks for a part of cards, and not for how many" :
    '') :
    variables.hami.count in limits && quantity(string(limits[variables.hami.count])).isGreaterThan(quantity("1000000")) ? 'resources[' + variables.hami.count + ']="' + string(quantity(string(limits[variables.hami.count])).asInteger()) + '": ' + "at most 1000000 GPUs can be had" :
    variables.hami.memory in limits && quantity(string(limits[variables.hami.memory])).isGreaterThan(quantity(string(268435456 / int(variables.hami.memory_factor)))) ? 'resources[' + variables.hami.memory + ']="' + string(quantity(string(limits[variables.hami.memory])).asInteger()) + '": ' + "is a number of " + (variables.hami.memory_factor == '1' ? 'MiB' : variables.hami.memory_factor + ' MiB') + ", at most " + string(268435456 / int(variables.hami.memory_factor)) :
    variables.hami.memory_percentage in limits && quantity(string(limits[variables.hami.memory_percentage])).isGreaterThan(quantity("100")) ? 'resources[' + variables.hami.memory_percentage + ']="' + string(quantity(string(limits[variables.hami.memory_percentage])).asInteger()) + '": ' + "must be at most 100" :
    '')
    .filter(one, one != '')
- name: hamiPrivileged
  expression: >-
    ((has(object.spec.initContainers) ? object.spec.initContainers : []) + (has(object.spec.containers) ? object.spec.containers : [])).filter(one, has(one.securityContext)
    && has(one.securityContext.privileged) && one.securityContext.privileged).map(one, one.name)
- name: hamiProblem
  expression: >-
    size(variables.hamiAmounts) > 0 ? variables.hamiAmounts[0] :
    !variables.hamiAsks ? '' :
    size(variables.hamiPrivileged) > 0 ? "container " + variables.hamiPrivileged[0] + " is privileged, so that no limit holds it: it cannot be in a pod that asks for parts of GPUs" :
    has(object.spec.nodeName) && object.spec.nodeName != '' ? "it asks for GPUs and names its node: spec.nodeName must be empty" :
    ''
{{- end }}
