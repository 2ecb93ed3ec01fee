package main

import (
	meta "k8s.io/apiextensions-apiserver/pkg/generated/openapi"
	"k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/kube-openapi/pkg/common"
	"k8s.io/kube-openapi/pkg/validation/spec"
)

type properties = map[string]spec.Schema

// definitions describes what is served, beside what every API server has: metadata, lists, Status.
func definitions(ref common.ReferenceCallback) map[string]common.OpenAPIDefinition {
	made := meta.GetOpenAPIDefinitions(ref)
	to := func(model string) spec.Schema {
		return spec.Schema{SchemaProps: spec.SchemaProps{Default: map[string]any{}, Ref: ref(model)}}
	}
	parts := map[string]properties{
		"TenantSecret": {
			"type":       *spec.StringProperty(),
			"data":       *spec.MapProperty(spec.StrFmtProperty("byte")),
			"stringData": *spec.MapProperty(spec.StringProperty()),
		},
		"TenantModule":    {"appVersion": *spec.StringProperty(), "status": to(models + "TenantModuleStatus")},
		"TenantNamespace": {},
		"Option":          {"spec": to(models + "OptionSpec")},
	}
	for kind, more := range parts {
		made[models+kind] = withMetadata(more, to(v1.ObjectMeta{}.OpenAPIModelName()), models+"OptionSpec", models+"TenantModuleStatus")
		items := properties{"items": list(to(models + kind))}
		made[models+kind+"List"] = withMetadata(items, to(v1.ListMeta{}.OpenAPIModelName()), models+kind)
	}
	item := properties{
		"value": *spec.StringProperty(), "label": *spec.StringProperty(),
		"description": *spec.StringProperty(), "default": *spec.BoolProperty(),
	}
	condition := v1.Condition{}.OpenAPIModelName()
	status := properties{"version": *spec.StringProperty(), "conditions": list(to(condition))}
	made[models+"OptionItem"] = plain(item)
	made[models+"OptionSpec"] = plain(properties{"items": list(to(models + "OptionItem"))}, models+"OptionItem")
	made[models+"TenantModuleStatus"] = plain(status, condition)
	return made
}

func withMetadata(parts properties, metadata spec.Schema, uses ...string) common.OpenAPIDefinition {
	parts["kind"], parts["apiVersion"], parts["metadata"] = *spec.StringProperty(), *spec.StringProperty(), metadata
	return plain(parts, append(uses, v1.ObjectMeta{}.OpenAPIModelName(), v1.ListMeta{}.OpenAPIModelName())...)
}

func plain(parts properties, uses ...string) common.OpenAPIDefinition {
	props := spec.SchemaProps{Type: []string{"object"}, Properties: parts}
	return common.OpenAPIDefinition{Schema: spec.Schema{SchemaProps: props}, Dependencies: uses}
}

func list(of spec.Schema) spec.Schema { return *spec.ArrayProperty(&of) }
