{{- /* Rules of kubeshare_py/dialects about sharedgpu/* as CEL; written by `make manifests`. */}}
{{- define "kubeshare.cel.labelRules" -}}
- name: knownLabels
  expression: >-
    ["sharedgpu/gpu_request","sharedgpu/gpu_limit","sharedgpu/gpu_mem","sharedgpu/gpu_model","sharedgpu/gpu_models","sharedgpu/gpu_models_denied","sharedgpu/gpu_model_mix","sharedgpu/gpu_request_of","sharedgpu/numa_bind","sharedgpu/gpu_exclusive","sharedgpu/priority","sharedgpu/isolation","sharedgpu/group_name","sharedgpu/pod_group_name","sharedgpu/group_headcount","sharedgpu/group_threshold","sharedgpu/min_available"]
- name: knownAnnotations
  expression: >-
    ["sharedgpu/gpu_models","sharedgpu/gpu_models_denied","sharedgpu/gpu_model_mix","sharedgpu/gpu_request_of","sharedgpu/group_within","sharedgpu/allocation","sharedgpu/cell_id","sharedgpu/earmark","sharedgpu/fence","sharedgpu/gpu_manager_port","sharedgpu/gpu_mem","sharedgpu/gpu_mem_mib","sharedgpu/gpu_model","sharedgpu/gpu_uuid","sharedgpu/mps_memory","sharedgpu/mps_thread_percentage"] + variables.dialectAnnotations
- name: badLabels
  expression: >-
    variables.labels.filter(key, key.lowerAscii().matches('^(shared|kubeshare/)')
    && key.lowerAscii().matches("^(sharedgpu/.*|(kubeshare|(sharedgpu|shared[._-]gpu|sharedgpus)([.][A-Za-z0-9.-]*)?)/(allocation|cell_id|earmark|fence|gpu_exclusive|gpu_limit|gpu_manager_port|gpu_mem|gpu_mem_mib|gpu_model|gpu_model_mix|gpu_models|gpu_models_denied|gpu_request|gpu_request_of|gpu_uuid|group_headcount|group_name|group_threshold|group_within|isolation|min_available|mps_memory|mps_thread_percentage|numa_bind|pod_group_name|priority))$")
    && !(key in variables.knownLabels))
- name: badAnnotations
  expression: >-
    variables.annotations.filter(key, key.lowerAscii().matches('^(shared|kubeshare/)')
    && key.lowerAscii().matches("^(sharedgpu/.*|(kubeshare|(sharedgpu|shared[._-]gpu|sharedgpus)([.][A-Za-z0-9.-]*)?)/(allocation|cell_id|earmark|fence|gpu_exclusive|gpu_limit|gpu_manager_port|gpu_mem|gpu_mem_mib|gpu_model|gpu_model_mix|gpu_models|gpu_models_denied|gpu_request|gpu_request_of|gpu_uuid|group_headcount|group_name|group_threshold|group_within|isolation|min_available|mps_memory|mps_thread_percentage|numa_bind|pod_group_name|priority))$")
    && !(key in variables.knownAnnotations || key.matches("^(sharedgpu/(container|init)-[0-9]+[.](gpu_uuid|gpu_mem_mib|mps_thread_percentage|mps_memory))$"))) + (variables.annotations.exists(key, key in ["sharedgpu/allocation","sharedgpu/gpu_uuid"]) ? []
    : ["sharedgpu/gpu_mem","sharedgpu/gpu_model"].filter(key, key in variables.annotations && !(key in variables.labels)))
- name: badLabel
  expression: >-
    size(variables.badLabels) == 0 ? '' : variables.badLabels.min()
- name: badAnnotation
  expression: >-
    size(variables.badAnnotations) == 0 ? '' : variables.badAnnotations.min()
- name: keyProblem
  expression: >-
    variables.badLabel != '' && (variables.badLabel in variables.knownAnnotations || variables.badLabel.matches("^(sharedgpu/(container|init)-[0-9]+[.](gpu_uuid|gpu_mem_mib|mps_thread_percentage|mps_memory))$")) ? variables.badLabel + ' is an annotation, not a label' :
    variables.badLabel != '' ? 'label ' + variables.badLabel + " is not known; labels are sharedgpu/gpu_request, sharedgpu/gpu_limit, sharedgpu/gpu_mem, sharedgpu/gpu_model, sharedgpu/gpu_models, sharedgpu/gpu_models_denied, sharedgpu/gpu_model_mix, sharedgpu/gpu_request_of, sharedgpu/numa_bind, sharedgpu/gpu_exclusive, sharedgpu/priority, sharedgpu/isolation, sharedgpu/group_name, sharedgpu/pod_group_name, sharedgpu/group_headcount, sharedgpu/group_threshold, sharedgpu/min_available" :
    variables.badAnnotation in variables.knownLabels ? variables.badAnnotation + ' is a label, not an annotation' :
    variables.badAnnotation != '' ? 'annotation ' + variables.badAnnotation + " is not known; annotations are sharedgpu/gpu_models, sharedgpu/gpu_models_denied, sharedgpu/gpu_model_mix, sharedgpu/gpu_request_of, sharedgpu/group_within" :
    ''
- name: group
  expression: >-
    ('sharedgpu/group_name' in variables.labels ? variables.labels['sharedgpu/group_name'] : '') != '' ? ('sharedgpu/group_name' in variables.labels ? variables.labels['sharedgpu/group_name'] : '') :
    ('sharedgpu/pod_group_name' in variables.labels ? variables.labels['sharedgpu/pod_group_name'] : '')
- name: headcount
  expression: >-
    ('sharedgpu/group_headcount' in variables.labels ? variables.labels['sharedgpu/group_headcount'] : '')
- name: threshold
  expression: >-
    ('sharedgpu/group_threshold' in variables.labels ? variables.labels['sharedgpu/group_threshold'] : '')
- name: within
  expression: >-
    ('sharedgpu/group_within' in variables.annotations ? variables.annotations['sharedgpu/group_within'] : '')
- name: groupProblem
  expression: >-
    variables.headcount != '' && !(variables.headcount.matches("^([0-9]+)$") && variables.headcount.find('[1-9][0-9]*$') != '' && !(size(variables.headcount.find('[1-9][0-9]*$')) > 19 || (size(variables.headcount.find('[1-9][0-9]*$')) == 19 && variables.headcount.find('[1-9][0-9]*$') > '9223372036854775807'))) ? "sharedgpu/group_headcount=\"" + variables.headcount + "\": must be an integer of at least 1" :
    (size(variables.headcount.find('[1-9][0-9]*$')) > 7 || (size(variables.headcount.find('[1-9][0-9]*$')) == 7 && variables.headcount.find('[1-9][0-9]*$') > '1000000')) ? "sharedgpu/group_headcount=\"" + variables.headcount + "\": must be at most 1000000" :
    variables.threshold != '' && !variables.threshold.matches("^([+]?([0-9]*[1-9][0-9]*[.]?[0-9]*|[0-9]+[.][0-9]*[1-9][0-9]*|[.][0-9]*[1-9][0-9]*)([eE][+-]?[0-9]{1,3})?)$") ? "sharedgpu/group_threshold=\"" + variables.threshold + "\": must be a decimal number above 0, such as 0.5" :
    !(variables.group != '' && variables.headcount != '' && variables.threshold != '') ? '' :
    (variables.threshold.matches('[eE][+]?[1-9][0-9]{2}$') || (double(variables.threshold) - 1.0) * double(variables.headcount.find('[1-9][0-9]*$')) >= 0.5 - 0.0000001) ? "sharedgpu/group_threshold=\"" + variables.threshold + "\": " + "asks for more pods than the group's " + variables.headcount.find('[1-9][0-9]*$') + ", which can never be met" :
    variables.within != '' && !variables.within.matches("^(([a-z0-9]([-a-z0-9.]{0,251}[a-z0-9])?/)?[A-Za-z0-9]([-A-Za-z0-9_.]{0,61}[A-Za-z0-9])?)$") ? "sharedgpu/group_within=\"" + (size(variables.within) > 60 ? variables.within.substring(0, 60) + '…' : variables.within) + "\": must be the name of a node label, such as topology.kubernetes.io/zone" :
    ''
- name: priority
  expression: >-
    ('sharedgpu/priority' in variables.labels ? variables.labels['sharedgpu/priority'] : '')
- name: priorityProblem
  expression: >-
    variables.priority != '' && !variables.priority.matches("^([+]?0*([0-9]|[1-9][0-9]|100)|-0*[01])$") ? "sharedgpu/priority=\"" + variables.priority + "\": must be an integer from -1 to 100" :
    ''
- name: shareLimit
  expression: >-
    ('kubeshare/gpu_limit' in variables.annotations ? variables.annotations['kubeshare/gpu_limit'] : '')
- name: shareRequest
  expression: >-
    ('kubeshare/gpu_request' in variables.annotations ? variables.annotations['kubeshare/gpu_request'] : '')
- name: shareMemory
  expression: >-
    ('kubeshare/gpu_mem' in variables.annotations ? variables.annotations['kubeshare/gpu_mem'] : '')
- name: sharePodProblem
  expression: >-
    !('kubeshare/gpu_request' in variables.dialectAnnotations) ? '' :
    variables.shareRequest == '' && variables.shareLimit == '' && variables.shareMemory == '' ? (('kubeshare/GPUID' in variables.annotations ? variables.annotations['kubeshare/GPUID'] : '') != '' ? "kubeshare/GPUID says nothing without kubeshare/gpu_request, kubeshare/gpu_limit and kubeshare/gpu_mem" :
    ('kubeshare/sched_affinity' in variables.annotations ? variables.annotations['kubeshare/sched_affinity'] : '') != '' ? "kubeshare/sched_affinity says nothing without kubeshare/gpu_request, kubeshare/gpu_limit and kubeshare/gpu_mem" :
    ('kubeshare/sched_anti-affinity' in variables.annotations ? variables.annotations['kubeshare/sched_anti-affinity'] : '') != '' ? "kubeshare/sched_anti-affinity says nothing without kubeshare/gpu_request, kubeshare/gpu_limit and kubeshare/gpu_mem" :
    ('kubeshare/sched_exclusion' in variables.annotations ? variables.annotations['kubeshare/sched_exclusion'] : '') != '' ? "kubeshare/sched_exclusion says nothing without kubeshare/gpu_request, kubeshare/gpu_limit and kubeshare/gpu_mem" :
    '') :
    variables.shareRequest == '' ? "kubeshare/gpu_request is missing: a GPU is asked for by kubeshare/gpu_request, kubeshare/gpu_limit and kubeshare/gpu_mem together" :
    variables.shareLimit == '' ? "kubeshare/gpu_limit is missing: a GPU is asked for by kubeshare/gpu_request, kubeshare/gpu_limit and kubeshare/gpu_mem together" :
    variables.shareMemory == '' ? "kubeshare/gpu_mem is missing: a GPU is asked for by kubeshare/gpu_request, kubeshare/gpu_limit and kubeshare/gpu_mem together" :
    !(size(variables.shareLimit) <= 63 && variables.shareLimit.matches("^([+-]?([0-9]+[.]?[0-9]*|[.][0-9]+)([eE][+-]?[0-9]{1,3})?)$") && !variables.shareLimit.matches('[1-9].*[eE][+]?[1-9][0-9]{2}$') && double(variables.shareLimit) >= 0.0 && double(variables.shareLimit) <= 1.0) ? "kubeshare/gpu_limit=\"" + (size(variables.shareLimit) > 128 ? variables.shareLimit.substring(0, 128) + '…' : variables.shareLimit) + "\": " + "must be a number from 0 to 1, such as 0.5" :
    !(size(variables.shareRequest) <= 63 && variables.shareRequest.matches("^([+-]?([0-9]+[.]?[0-9]*|[.][0-9]+)([eE][+-]?[0-9]{1,3})?)$") && !variables.shareRequest.matches('[1-9].*[eE][+]?[1-9][0-9]{2}$') && double(variables.shareRequest) >= 0.0 && double(variables.shareRequest) <= 1.0) ? "kubeshare/gpu_request=\"" + (size(variables.shareRequest) > 128 ? variables.shareRequest.substring(0, 128) + '…' : variables.shareRequest) + "\": " + "must be a number from 0 to 1, such as 0.5" :
    double(variables.shareRequest) > double(variables.shareLimit) ? "kubeshare/gpu_request=\"" + variables.shareRequest + "\": " + "must not be above kubeshare/gpu_limit, which is " + variables.shareLimit :
    !(size(variables.shareMemory) <= 63 && variables.shareMemory.matches("^([+]?[0-9]+|-0+)$")) || (size(variables.shareMemory.find('[1-9][0-9]*$')) > 19 || (size(variables.shareMemory.find('[1-9][0-9]*$')) == 19 && variables.shareMemory.find('[1-9][0-9]*$') > '9223372036854775807')) ? "kubeshare/gpu_mem=\"" + (size(variables.shareMemory) > 128 ? variables.shareMemory.substring(0, 128) + '…' : variables.shareMemory) + "\": " + "must be a whole number of bytes, such as 1073741824" :
    (size(variables.shareMemory.find('[1-9][0-9]*$')) > 15 || (size(variables.shareMemory.find('[1-9][0-9]*$')) == 15 && variables.shareMemory.find('[1-9][0-9]*$') > '281474976710656')) ? "kubeshare/gpu_mem=\"" + (size(variables.shareMemory) > 128 ? variables.shareMemory.substring(0, 128) + '…' : variables.shareMemory) + "\": " + "must be at most 281474976710656 bytes, more than any card has" :
    ('kubeshare/GPUID' in variables.annotations ? variables.annotations['kubeshare/GPUID'] : '') != '' && !('kubeshare/GPUID' in variables.annotations ? variables.annotations['kubeshare/GPUID'] : '').matches("^([A-Za-z0-9._-]{1,63})$") ? "kubeshare/GPUID=\"" + (size(('kubeshare/GPUID' in variables.annotations ? variables.annotations['kubeshare/GPUID'] : '')) > 128 ? ('kubeshare/GPUID' in variables.annotations ? variables.annotations['kubeshare/GPUID'] : '').substring(0, 128) + '…' : ('kubeshare/GPUID' in variables.annotations ? variables.annotations['kubeshare/GPUID'] : '')) + "\": " + "must be 1 to 63 letters, digits, dots, dashes and underscores" :
    ('kubeshare/sched_affinity' in variables.annotations ? variables.annotations['kubeshare/sched_affinity'] : '') != '' && !('kubeshare/sched_affinity' in variables.annotations ? variables.annotations['kubeshare/sched_affinity'] : '').matches("^([A-Za-z0-9._-]{1,63})$") ? "kubeshare/sched_affinity=\"" + (size(('kubeshare/sched_affinity' in variables.annotations ? variables.annotations['kubeshare/sched_affinity'] : '')) > 128 ? ('kubeshare/sched_affinity' in variables.annotations ? variables.annotations['kubeshare/sched_affinity'] : '').substring(0, 128) + '…' : ('kubeshare/sched_affinity' in variables.annotations ? variables.annotations['kubeshare/sched_affinity'] : '')) + "\": " + "must be 1 to 63 letters, digits, dots, dashes and underscores" :
    ('kubeshare/sched_anti-affinity' in variables.annotations ? variables.annotations['kubeshare/sched_anti-affinity'] : '') != '' && !('kubeshare/sched_anti-affinity' in variables.annotations ? variables.annotations['kubeshare/sched_anti-affinity'] : '').matches("^([A-Za-z0-9._-]{1,63})$") ? "kubeshare/sched_anti-affinity=\"" + (size(('kubeshare/sched_anti-affinity' in variables.annotations ? variables.annotations['kubeshare/sched_anti-affinity'] : '')) > 128 ? ('kubeshare/sched_anti-affinity' in variables.annotations ? variables.annotations['kubeshare/sched_anti-affinity'] : '').substring(0, 128) + '…' : ('kubeshare/sched_anti-affinity' in variables.annotations ? variables.annotations['kubeshare/sched_anti-affinity'] : '')) + "\": " + "must be 1 to 63 letters, digits, dots, dashes and underscores" :
    ('kubeshare/sched_exclusion' in variables.annotations ? variables.annotations['kubeshare/sched_exclusion'] : '') != '' && !('kubeshare/sched_exclusion' in variables.annotations ? variables.annotations['kubeshare/sched_exclusion'] : '').matches("^([A-Za-z0-9._-]{1,63})$") ? "kubeshare/sched_exclusion=\"" + (size(('kubeshare/sched_exclusion' in variables.annotations ? variables.annotations['kubeshare/sched_exclusion'] : '')) > 128 ? ('kubeshare/sched_exclusion' in variables.annotations ? variables.annotations['kubeshare/sched_exclusion'] : '').substring(0, 128) + '…' : ('kubeshare/sched_exclusion' in variables.annotations ? variables.annotations['kubeshare/sched_exclusion'] : '')) + "\": " + "must be 1 to 63 letters, digits, dots, dashes and underscores" :
    ''
- name: alone
  expression: >-
    ('sharedgpu/gpu_exclusive' in variables.labels ? variables.labels['sharedgpu/gpu_exclusive'] : '')
- name: aloneProblem
  expression: >-
    !(variables.alone in ['', 'true', 'false']) ? "sharedgpu/gpu_exclusive=\"" + variables.alone + "\": must be \"true\" or \"false\"" :
    variables.alone == 'true' && ('sharedgpu/gpu_limit' in variables.labels && !('sharedgpu/gpu_limit' in variables.labels ? variables.labels['sharedgpu/gpu_limit'] : '').matches("^(0*[1-9][0-9]*([.]0+)?)$") || 'sharedgpu/gpu_request' in variables.labels && !('sharedgpu/gpu_request' in variables.labels ? variables.labels['sharedgpu/gpu_request'] : '').matches("^(0*[1-9][0-9]*([.]0+)?)$")) ? "sharedgpu/gpu_exclusive=\"" + variables.alone + "\": is for whole cards, so sharedgpu/gpu_request and sharedgpu/gpu_limit must be whole numbers above 0" :
    ''
- name: limit
  expression: >-
    ('sharedgpu/gpu_limit' in variables.labels ? variables.labels['sharedgpu/gpu_limit'] : '')
- name: request
  expression: >-
    variables.alone == 'true' && !('sharedgpu/gpu_request' in variables.labels) ? ('sharedgpu/gpu_limit' in variables.labels ? ('sharedgpu/gpu_limit' in variables.labels ? variables.labels['sharedgpu/gpu_limit'] : '') : '1') :
    ('sharedgpu/gpu_request' in variables.labels ? variables.labels['sharedgpu/gpu_request'] : '')
- name: memory
  expression: >-
    ('sharedgpu/gpu_mem' in variables.labels ? variables.labels['sharedgpu/gpu_mem'] : '')
- name: numaBind
  expression: >-
    ('sharedgpu/numa_bind' in variables.labels ? variables.labels['sharedgpu/numa_bind'] : '')
- name: limitWhole
  expression: >-
    variables.limit.split('.')[0].find('[1-9][0-9]*$')
- name: limitPart
  expression: >-
    variables.limit.contains('.') ? variables.limit.split('.')[1].find('^[0-9]*[1-9]') : ''
- name: requestWhole
  expression: >-
    variables.request.split('.')[0].find('[1-9][0-9]*$')
- name: requestPart
  expression: >-
    variables.request.contains('.') ? variables.request.split('.')[1].find('^[0-9]*[1-9]') : ''
- name: wantsCards
  expression: >-
    variables.alone == 'true' || ('sharedgpu/gpu_limit' in variables.labels ? variables.limitWhole != '' || variables.limitPart != '' : 'sharedgpu/gpu_request' in variables.labels)
- name: wholeCards
  expression: >-
    variables.wantsCards && (variables.alone == 'true' || (size(variables.requestWhole) > 1 || variables.requestWhole > '1' || (variables.requestWhole == '1' && variables.requestPart != '')))
- name: limitProblem
  expression: >-
    'sharedgpu/gpu_limit' in variables.labels ? (!variables.limit.matches("^([0-9]+([.][0-9]+)?)$") ? "sharedgpu/gpu_limit=\"" + variables.limit + "\": must be a decimal number, digits with at most one point, such as 0.5, 1 or 2.0" :
    (size(variables.limitWhole) > 1 || variables.limitWhole > '1' || (variables.limitWhole == '1' && variables.limitPart != '')) && variables.limitPart != '' ? "sharedgpu/gpu_limit=\"" + variables.limit + "\": must be a whole number of cards when it is above 1" :
    (size(variables.limitWhole) > 7 || (size(variables.limitWhole) == 7 && variables.limitWhole > '1000000')) ? "sharedgpu/gpu_limit=\"" + variables.limit + "\": must be at most 1000000" :
    '') :
    'sharedgpu/gpu_request' in variables.labels ? (!variables.request.matches("^([0-9]+([.][0-9]+)?)$") ? "sharedgpu/gpu_request=\"" + variables.request + "\": must be a decimal number, digits with at most one point, such as 0.5, 1 or 2.0" :
    (size(variables.requestWhole) > 1 || variables.requestWhole > '1' || (variables.requestWhole == '1' && variables.requestPart != '')) && variables.requestPart != '' ? "sharedgpu/gpu_request=\"" + variables.request + "\": must be a whole number of cards when it is above 1" :
    (size(variables.requestWhole) > 7 || (size(variables.requestWhole) == 7 && variables.requestWhole > '1000000')) ? "sharedgpu/gpu_request=\"" + variables.request + "\": must be at most 1000000" :
    '') :
    !(variables.alone == 'true') && 'sharedgpu/gpu_mem' in variables.labels ? "sharedgpu/gpu_mem alone asks for no card: add sharedgpu/gpu_request, or sharedgpu/gpu_limit for a card without a share" :
    ''
- name: shareProblem
  expression: >-
    !('sharedgpu/gpu_limit' in variables.labels && 'sharedgpu/gpu_request' in variables.labels) ? '' :
    !variables.request.matches("^([0-9]+([.][0-9]+)?)$") ? "sharedgpu/gpu_request=\"" + variables.request + "\": must be a decimal number, digits with at most one point, such as 0.5, 1 or 2.0" :
    size(variables.requestWhole) > size(variables.limitWhole) || (size(variables.requestWhole) == size(variables.limitWhole) && (variables.requestWhole > variables.limitWhole || (variables.requestWhole == variables.limitWhole && variables.requestPart > variables.limitPart))) ? "sharedgpu/gpu_request=\"" + variables.request + "\": " + "must not be above sharedgpu/gpu_limit, which is " + (variables.limitWhole == '' ? '0' : variables.limitWhole) + (variables.limit.contains('.') ? '.' + variables.limit.split('.')[1] : '') + "" :
    (size(variables.limitWhole) > 1 || variables.limitWhole > '1' || (variables.limitWhole == '1' && variables.limitPart != '')) && (variables.requestWhole != variables.limitWhole || variables.requestPart != variables.limitPart) ? "sharedgpu/gpu_request=\"" + variables.request + "\": " + "must equal sharedgpu/gpu_limit, which is " + (variables.limitWhole == '' ? '0' : variables.limitWhole) + (variables.limit.contains('.') ? '.' + variables.limit.split('.')[1] : '') + ", above 1" :
    ''
- name: restProblem
  expression: >-
    !variables.wantsCards ? '' :
    'sharedgpu/gpu_mem' in variables.labels && !(variables.memory.matches("^([0-9]+([.][0-9]+)?([KMGTPE]i|[kMGTPE]|[eE][0-9]{1,3}))$") || (variables.memory.matches("^([0-9]+)$") && !(size(variables.memory.find('[1-9][0-9]*$')) > 19 || (size(variables.memory.find('[1-9][0-9]*$')) == 19 && variables.memory.find('[1-9][0-9]*$') > '9223372036854775807')))) ? "sharedgpu/gpu_mem=\"" + variables.memory + "\": must be a whole number of bytes, such as 1073741824, or have a unit, such as 8Gi" :
    'sharedgpu/gpu_mem' in variables.labels && (variables.memory.matches('[eE][+]?[1-9][0-9]{2}$') ? variables.memory.matches('^[0.]*[1-9]') : (variables.memory.matches('[eE][0-9]') ? double(variables.memory) : double(variables.memory.find('^[0-9.]+')) * {"":1.0,"k":1000.0,"M":1000000.0,"G":1000000000.0,"T":1000000000000.0,"P":1000000000000000.0,"E":1e18,"Ki":1024.0,"Mi":1048576.0,"Gi":1073741824.0,"Ti":1099511627776.0,"Pi":1125899906842624.0,"Ei":1.152921504606847e18}[variables.memory.substring(size(variables.memory.find('^[0-9.]+')))]) > (variables.wholeCards ? double(variables.requestWhole) : 1.0) * 281474976710656.0) ? "sharedgpu/gpu_mem=\"" + variables.memory + "\": must be at most 281474976710656 bytes a card" :
    !(variables.numaBind in ['', 'true', 'false']) ? "sharedgpu/numa_bind=\"" + variables.numaBind + "\": must be \"true\" or \"false\"" :
    ''
- name: advice
  expression: >-
    variables.memory.matches("^(0*[1-9][0-9]{0,5})$") ? "sharedgpu/gpu_mem is " + variables.memory.find('[1-9][0-9]*$') + " bytes; units are written behind the number, as in 8Gi" :
    variables.limit.matches("^(0*([2-9]|[1-9][0-9]+)([.]0+)?)$") && !('sharedgpu/gpu_request' in variables.labels) && !(variables.alone == 'true') ? "sharedgpu/gpu_limit of several cards without sharedgpu/gpu_request sets nothing aside: the pod gets a place on one card" :
    variables.group != '' && (variables.headcount == '' || variables.threshold == '') ? "sharedgpu/group_name makes no group without sharedgpu/group_headcount and sharedgpu/group_threshold: the pod starts alone" :
    ''
- name: requestProblem
  expression: >-
    variables.aloneProblem != '' ? variables.aloneProblem :
    variables.limitProblem != '' ? variables.limitProblem :
    variables.shareProblem != '' ? variables.shareProblem :
    variables.restProblem != '' ? variables.restProblem :
    ''
- name: models
  expression: >-
    ('sharedgpu/gpu_models' in variables.annotations ? variables.annotations['sharedgpu/gpu_models'] : '') != '' ? ('sharedgpu/gpu_models' in variables.annotations ? variables.annotations['sharedgpu/gpu_models'] : '') :
    ('sharedgpu/gpu_models' in variables.labels ? variables.labels['sharedgpu/gpu_models'] : '')
- name: denied
  expression: >-
    ('sharedgpu/gpu_models_denied' in variables.annotations ? variables.annotations['sharedgpu/gpu_models_denied'] : '') != '' ? ('sharedgpu/gpu_models_denied' in variables.annotations ? variables.annotations['sharedgpu/gpu_models_denied'] : '') :
    ('sharedgpu/gpu_models_denied' in variables.labels ? variables.labels['sharedgpu/gpu_models_denied'] : '')
- name: mix
  expression: >-
    ('sharedgpu/gpu_model_mix' in variables.annotations ? variables.annotations['sharedgpu/gpu_model_mix'] : '') != '' ? ('sharedgpu/gpu_model_mix' in variables.annotations ? variables.annotations['sharedgpu/gpu_model_mix'] : '') :
    ('sharedgpu/gpu_model_mix' in variables.labels ? variables.labels['sharedgpu/gpu_model_mix'] : '')
- name: requestOf
  expression: >-
    ('sharedgpu/gpu_request_of' in variables.annotations ? variables.annotations['sharedgpu/gpu_request_of'] : '') != '' ? ('sharedgpu/gpu_request_of' in variables.annotations ? variables.annotations['sharedgpu/gpu_request_of'] : '') :
    ('sharedgpu/gpu_request_of' in variables.labels ? variables.labels['sharedgpu/gpu_request_of'] : '')
- name: textProblem
  expression: >-
    ('sharedgpu/gpu_models' in variables.labels ? variables.labels['sharedgpu/gpu_models'] : '') != '' && variables.models != ('sharedgpu/gpu_models' in variables.labels ? variables.labels['sharedgpu/gpu_models'] : '') ? "sharedgpu/gpu_models=\"" + (size(variables.models) > 60 ? variables.models.substring(0, 60) + '…' : variables.models) + "\": " + "must be what the label of this name says, which is \"" + ('sharedgpu/gpu_models' in variables.labels ? variables.labels['sharedgpu/gpu_models'] : '') + '"' :
    size(variables.models) > 1024 ? "sharedgpu/gpu_models=\"" + (size(variables.models) > 60 ? variables.models.substring(0, 60) + '…' : variables.models) + "\": must not be longer than 1024 characters" :
    ('sharedgpu/gpu_models_denied' in variables.labels ? variables.labels['sharedgpu/gpu_models_denied'] : '') != '' && variables.denied != ('sharedgpu/gpu_models_denied' in variables.labels ? variables.labels['sharedgpu/gpu_models_denied'] : '') ? "sharedgpu/gpu_models_denied=\"" + (size(variables.denied) > 60 ? variables.denied.substring(0, 60) + '…' : variables.denied) + "\": " + "must be what the label of this name says, which is \"" + ('sharedgpu/gpu_models_denied' in variables.labels ? variables.labels['sharedgpu/gpu_models_denied'] : '') + '"' :
    size(variables.denied) > 1024 ? "sharedgpu/gpu_models_denied=\"" + (size(variables.denied) > 60 ? variables.denied.substring(0, 60) + '…' : variables.denied) + "\": must not be longer than 1024 characters" :
    ('sharedgpu/gpu_model_mix' in variables.labels ? variables.labels['sharedgpu/gpu_model_mix'] : '') != '' && variables.mix != ('sharedgpu/gpu_model_mix' in variables.labels ? variables.labels['sharedgpu/gpu_model_mix'] : '') ? "sharedgpu/gpu_model_mix=\"" + (size(variables.mix) > 60 ? variables.mix.substring(0, 60) + '…' : variables.mix) + "\": " + "must be what the label of this name says, which is \"" + ('sharedgpu/gpu_model_mix' in variables.labels ? variables.labels['sharedgpu/gpu_model_mix'] : '') + '"' :
    size(variables.mix) > 1024 ? "sharedgpu/gpu_model_mix=\"" + (size(variables.mix) > 60 ? variables.mix.substring(0, 60) + '…' : variables.mix) + "\": must not be longer than 1024 characters" :
    ('sharedgpu/gpu_request_of' in variables.labels ? variables.labels['sharedgpu/gpu_request_of'] : '') != '' && variables.requestOf != ('sharedgpu/gpu_request_of' in variables.labels ? variables.labels['sharedgpu/gpu_request_of'] : '') ? "sharedgpu/gpu_request_of=\"" + (size(variables.requestOf) > 60 ? variables.requestOf.substring(0, 60) + '…' : variables.requestOf) + "\": " + "must be what the label of this name says, which is \"" + ('sharedgpu/gpu_request_of' in variables.labels ? variables.labels['sharedgpu/gpu_request_of'] : '') + '"' :
    size(variables.requestOf) > 1024 ? "sharedgpu/gpu_request_of=\"" + (size(variables.requestOf) > 60 ? variables.requestOf.substring(0, 60) + '…' : variables.requestOf) + "\": must not be longer than 1024 characters" :
    ''
- name: modelNames
  expression: >-
    variables.models.replace('>', ',').split(',').map(name, name.replace(' ', '-').split('-').filter(word, word != '').join('-').replace('**', '*').replace('**', '*').replace('**', '*').replace('**', '*').replace('**', '*').replace('**', '*').replace('**', '*').replace('**', '*').replace('**', '*').replace('**', '*').lowerAscii())
- name: lastModels
  expression: >-
    variables.models.split('>')[size(variables.models.split('>')) - 1]
- name: deniedNames
  expression: >-
    variables.denied.split(',').map(name, name.replace(' ', '-').split('-').filter(word, word != '').join('-').replace('**', '*').replace('**', '*').replace('**', '*').replace('**', '*').replace('**', '*').replace('**', '*').replace('**', '*').replace('**', '*').replace('**', '*').replace('**', '*').lowerAscii())
- name: wishProblem
  expression: >-
    variables.models != '' && !variables.modelNames.all(name, name.matches("^([A-Za-z0-9._+/()*-]{1,253})$")) ? "sharedgpu/gpu_models=\"" + (size(variables.models) > 60 ? variables.models.substring(0, 60) + '…' : variables.models) + "\": must be names of GPU models or words of them, such as A100, with \",\" between equally good ones, and \">\" before worse ones" :
    variables.denied != '' && !variables.deniedNames.all(name, name.matches("^([A-Za-z0-9._+/()*-]{1,253})$")) ? "sharedgpu/gpu_models_denied=\"" + (size(variables.denied) > 60 ? variables.denied.substring(0, 60) + '…' : variables.denied) + "\": must be names of GPU models or words of them, such as A100, with \",\" between equally good ones" :
    size(variables.modelNames) > 16 ? "sharedgpu/gpu_models=\"" + (size(variables.models) > 60 ? variables.models.substring(0, 60) + '…' : variables.models) + "\": must not be more than 16 names" :
    variables.modelNames.exists(name, size(name.split('*')) > 5) ? "sharedgpu/gpu_models=\"" + (size(variables.models) > 60 ? variables.models.substring(0, 60) + '…' : variables.models) + "\": must not have more than 4 \"*\" in a name" :
    variables.models != '' && variables.modelNames.filter(one, variables.modelNames.filter(other, other == one).size() > 1).size() > 0 ? "sharedgpu/gpu_models=\"" + (size(variables.models) > 60 ? variables.models.substring(0, 60) + '…' : variables.models) + "\": " + 'names ' + variables.modelNames.filter(one, variables.modelNames.filter(other, other == one).size() > 1).min() + ' twice' :
    '*' in variables.modelNames && variables.lastModels.replace(' ', '-').split('-').filter(word, word != '').join('-').replace('**', '*').replace('**', '*').replace('**', '*').replace('**', '*').replace('**', '*').replace('**', '*').replace('**', '*').replace('**', '*').replace('**', '*').replace('**', '*') != '*' ? "sharedgpu/gpu_models=\"" + (size(variables.models) > 60 ? variables.models.substring(0, 60) + '…' : variables.models) + "\": must have \"*\", all other models, at its end and alone: \"A100 > *\"" :
    '*' in variables.deniedNames ? "sharedgpu/gpu_models_denied=\"" + (size(variables.denied) > 60 ? variables.denied.substring(0, 60) + '…' : variables.denied) + "\": must not be \"*\", which denies every model" :
    size(variables.deniedNames) > 16 ? "sharedgpu/gpu_models_denied=\"" + (size(variables.denied) > 60 ? variables.denied.substring(0, 60) + '…' : variables.denied) + "\": must not be more than 16 names" :
    variables.deniedNames.exists(name, size(name.split('*')) > 5) ? "sharedgpu/gpu_models_denied=\"" + (size(variables.denied) > 60 ? variables.denied.substring(0, 60) + '…' : variables.denied) + "\": must not have more than 4 \"*\" in a name" :
    ''
- name: mixProblem
  expression: >-
    !(variables.mix in ['', 'same', 'any']) ? "sharedgpu/gpu_model_mix=\"" + (size(variables.mix) > 60 ? variables.mix.substring(0, 60) + '…' : variables.mix) + "\": must be \"same\" or \"any\"" :
    ''
- name: requestOfProblem
  expression: >-
    variables.requestOf == '' ? '' :
    !variables.requestOf.replace(' ', '-').split('-').filter(word, word != '').join('-').replace('**', '*').replace('**', '*').replace('**', '*').replace('**', '*').replace('**', '*').replace('**', '*').replace('**', '*').replace('**', '*').replace('**', '*').replace('**', '*').matches("^([A-Za-z0-9._+/()*-]{1,253})$") || variables.requestOf.replace(' ', '-').split('-').filter(word, word != '').join('-').replace('**', '*').replace('**', '*').replace('**', '*').replace('**', '*').replace('**', '*').replace('**', '*').replace('**', '*').replace('**', '*').replace('**', '*').replace('**', '*').contains('*') ? "sharedgpu/gpu_request_of=\"" + (size(variables.requestOf) > 60 ? variables.requestOf.substring(0, 60) + '…' : variables.requestOf) + "\": must be the name of one GPU model, such as A100" :
    variables.wholeCards ? "sharedgpu/gpu_request_of=\"" + (size(variables.requestOf) > 60 ? variables.requestOf.substring(0, 60) + '…' : variables.requestOf) + "\": is for shares of one card, not for whole ones" :
    ''
- name: modelProblem
  expression: >-
    !variables.wantsCards ? '' :
    variables.textProblem != '' ? variables.textProblem :
    variables.wishProblem != '' ? variables.wishProblem :
    variables.mixProblem != '' ? variables.mixProblem :
    variables.requestOfProblem != '' ? variables.requestOfProblem :
    ''
- name: problem
  expression: >-
    variables.keyProblem != '' ? variables.keyProblem :
    variables.groupProblem != '' ? variables.groupProblem :
    variables.priorityProblem != '' ? variables.priorityProblem :
    variables.dialectProblem != '' ? variables.dialectProblem :
    variables.sharePodProblem != '' ? variables.sharePodProblem :
    variables.requestProblem != '' ? variables.requestProblem :
    variables.modelProblem != '' ? variables.modelProblem :
    ''
{{- end }}
