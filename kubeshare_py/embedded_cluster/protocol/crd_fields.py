"""Fields of apiextensions.k8s.io/v1; letters as in `fields`."""

_SCHEMA = "JSONSchemaProps"
CRD_TYPES = {
    "CustomResourceDefinition": ("apiVersion:s kind:s metadata:Meta spec:CrdSpec status:CrdStatus"),
    "CrdSpec": (
        "group:s names:CrdNames scope:s versions:[CrdVersion] conversion:CrdConversion "
        "preserveUnknownFields:o"
    ),
    "CrdNames": "plural:s singular:s shortNames:[s] kind:s listKind:s categories:[s]",
    "CrdVersion": (
        "name:s served:b storage:b deprecated:o deprecationWarning:e schema:CrdValidation "
        "subresources:CrdSubresources additionalPrinterColumns:[CrdColumn] "
        "selectableFields:[CrdSelectable]"
    ),
    "CrdValidation": f"openAPIV3Schema:{_SCHEMA}",
    "CrdSubresources": "status:* scale:CrdScale",
    "CrdScale": "specReplicasPath:s statusReplicasPath:s labelSelectorPath:s",
    "CrdColumn": "name:s type:s format:s description:s priority:z jsonPath:s",
    "CrdSelectable": "jsonPath:s",
    "CrdConversion": "strategy:s webhook:*",
    "CrdStatus": "conditions:[Condition] acceptedNames:CrdNames storedVersions:[s]",
    _SCHEMA: (
        "id:s $schema:s $ref:s description:s type:s format:s title:s default:j maximum:n "
        "exclusiveMaximum:o minimum:n exclusiveMinimum:o maxLength:i minLength:i pattern:s "
        "maxItems:i minItems:i uniqueItems:o multipleOf:n enum:[j] maxProperties:i "
        f"minProperties:i required:[s] items:?{_SCHEMA} allOf:[{_SCHEMA}] oneOf:[{_SCHEMA}] "
        f"anyOf:[{_SCHEMA}] not:{_SCHEMA} properties:{{{_SCHEMA}}} "
        f"additionalProperties:?{_SCHEMA} patternProperties:{{{_SCHEMA}}} dependencies:* "
        f"additionalItems:?{_SCHEMA} definitions:{{{_SCHEMA}}} externalDocs:* example:j "
        "nullable:o x-kubernetes-preserve-unknown-fields:b x-kubernetes-embedded-resource:o "
        "x-kubernetes-int-or-string:o x-kubernetes-list-map-keys:[s] x-kubernetes-list-type:s "
        "x-kubernetes-map-type:s x-kubernetes-validations:*"
    ),
}
