"""Fields of the kinds of resource.k8s.io/v1; letters as in `fields`.

https://kubernetes.io/docs/reference/kubernetes-api/workload-resources/resource-claim-v1/
"""

_TOP = "apiVersion:s kind:s metadata:Meta"
_REQUEST = (
    "deviceClassName:s selectors:[DeviceSelector] allocationMode:s count:z "
    "tolerations:[DeviceToleration] capacity:CapacityRequirements"
)
DEVICE_TYPES = {
    "ResourceClaim": f"{_TOP} spec:ResourceClaimSpec status:ResourceClaimStatus",
    "ResourceClaimSpec": "devices:DeviceClaim",
    "DeviceClaim": (
        "requests:[DeviceRequest] constraints:[DeviceConstraint] config:[DeviceConfiguration]"
    ),
    "DeviceRequest": "name:s exactly:ExactDeviceRequest firstAvailable:[DeviceSubRequest]",
    "ExactDeviceRequest": f"{_REQUEST} adminAccess:b",
    "DeviceSubRequest": f"name:s {_REQUEST}",
    "CapacityRequirements": "requests:{q}",
    "DeviceSelector": "cel:DeviceExpression",
    "DeviceExpression": "expression:s",
    "DeviceConstraint": "requests:[s] matchAttribute:s distinctAttribute:s",
    "DeviceConfiguration": "requests:[s] opaque:OpaqueConfiguration source:s",
    "OpaqueConfiguration": "driver:s parameters:j",
    "DeviceToleration": "key:s operator:s value:s effect:s tolerationSeconds:i",
    "ResourceClaimStatus": (
        "allocation:DeviceAllocation reservedFor:[ClaimConsumer] devices:[AllocatedDevice]"
    ),
    "ClaimConsumer": "apiGroup:s resource:s name:s uid:s",
    "DeviceAllocation": (
        "devices:DeviceAllocationResult nodeSelector:NodeTerms allocationTimestamp:s"
    ),
    "DeviceAllocationResult": ("results:[AllocatedRequest] config:[DeviceConfiguration]"),
    "AllocatedRequest": (
        "request:s driver:s pool:s device:s adminAccess:b tolerations:[DeviceToleration] "
        "bindingConditions:[s] bindingFailureConditions:[s] shareID:s consumedCapacity:{q}"
    ),
    "AllocatedDevice": (
        "driver:s pool:s device:s shareID:s conditions:[StandardCondition] data:j networkData:*"
    ),
    "ResourceClaimTemplate": f"{_TOP} spec:ResourceClaimTemplateSpec",
    "ResourceClaimTemplateSpec": "metadata:Meta spec:ResourceClaimSpec",
    "ResourceSlice": f"{_TOP} spec:ResourceSliceSpec",
    "ResourceSliceSpec": (
        "driver:s pool:ResourcePool nodeName:e nodeSelector:NodeTerms allNodes:b "
        "devices:[Device] perDeviceNodeSelection:b sharedCounters:[CounterSet]"
    ),
    "ResourcePool": "name:s generation:i resourceSliceCount:i",
    "CounterSet": "name:s counters:{DeviceCounter}",
    "DeviceCounter": "value:q",
    "Device": (
        "name:s attributes:{DeviceAttribute} capacity:{DeviceCapacity} "
        "consumesCounters:[CounterConsumption] nodeName:e nodeSelector:NodeTerms allNodes:b "
        "taints:[DeviceTaint] bindsToNode:b bindingConditions:[s] bindingFailureConditions:[s] "
        "allowMultipleAllocations:b nodeAllocatableResourceMappings:*"
    ),
    "DeviceAttribute": (
        "int:i bool:b string:e version:e ints:[i] bools:[b] strings:[s] versions:[s]"
    ),
    "DeviceCapacity": "value:q requestPolicy:*",
    "CounterConsumption": "counterSet:s counters:{DeviceCounter}",
    "DeviceTaint": "key:s value:s effect:s timeAdded:s",
    "DeviceClass": f"{_TOP} spec:DeviceClassSpec",
    "DeviceClassSpec": (
        "selectors:[DeviceSelector] config:[DeviceConfiguration] extendedResourceName:s"
    ),
}
