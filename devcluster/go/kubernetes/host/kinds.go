package main

import (
	"encoding/json"

	"k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/runtime/serializer"
)

var (
	groupVersion = schema.GroupVersion{Group: "core.cozystack.io", Version: "v1alpha1"}
	scheme       = runtime.NewScheme()
	codecs       = serializer.NewCodecFactory(scheme)
)

// Names of models are the host's: clients find schemas by them.
const models = "com.github.cozystack.cozystack.pkg.apis.core.v1alpha1."

// TenantSecret is a Secret that its tenant may see; stringData tells its values as base64 when read.
type TenantSecret struct {
	v1.TypeMeta   `json:",inline"`
	v1.ObjectMeta `json:"metadata,omitempty"`

	Type       string            `json:"type,omitempty"`
	Data       map[string][]byte `json:"data,omitempty"`
	StringData map[string]string `json:"stringData,omitempty"`
}

// TenantModule is a HelmRelease that its tenant may see.
type TenantModule struct {
	v1.TypeMeta   `json:",inline"`
	v1.ObjectMeta `json:"metadata,omitempty"`

	AppVersion string       `json:"appVersion,omitempty"`
	Status     ModuleStatus `json:"status,omitempty"`
}

// ModuleStatus is what has become of a module.
type ModuleStatus struct {
	Version    string         `json:"version,omitempty"`
	Conditions []v1.Condition `json:"conditions,omitempty"`
}

// TenantNamespace is a Namespace of a tenant.
type TenantNamespace struct {
	v1.TypeMeta   `json:",inline"`
	v1.ObjectMeta `json:"metadata,omitempty"`
}

// Option is what one source offers for a field of a form.
type Option struct {
	v1.TypeMeta   `json:",inline"`
	v1.ObjectMeta `json:"metadata,omitempty"`

	Spec OptionSpec `json:"spec,omitempty"`
}

// OptionSpec is the choices of a source.
type OptionSpec struct {
	Items []OptionItem `json:"items,omitempty"`
}

// OptionItem is one choice.
type OptionItem struct {
	Value       string `json:"value"`
	Label       string `json:"label,omitempty"`
	Description string `json:"description,omitempty"`
	Default     bool   `json:"default,omitempty"`
}

type listOf[T modelled] struct {
	v1.TypeMeta `json:",inline"`
	v1.ListMeta `json:"metadata,omitempty"`

	Items []T `json:"items"`
}

type modelled interface{ OpenAPIModelName() string }

func (TenantSecret) OpenAPIModelName() string    { return models + "TenantSecret" }
func (TenantModule) OpenAPIModelName() string    { return models + "TenantModule" }
func (TenantNamespace) OpenAPIModelName() string { return models + "TenantNamespace" }
func (Option) OpenAPIModelName() string          { return models + "Option" }
func (listOf[T]) OpenAPIModelName() string {
	var one T
	return one.OpenAPIModelName() + "List"
}

func (in *TenantSecret) DeepCopyObject() runtime.Object    { return copied(in) }
func (in *TenantModule) DeepCopyObject() runtime.Object    { return copied(in) }
func (in *TenantNamespace) DeepCopyObject() runtime.Object { return copied(in) }
func (in *Option) DeepCopyObject() runtime.Object          { return copied(in) }
func (in *listOf[T]) DeepCopyObject() runtime.Object       { return copied(in) }

// copied is slow and short: nothing here is measured.
func copied[T any](in *T) *T {
	text, err := json.Marshal(in)
	if err != nil {
		panic(err)
	}
	out := new(T)
	if err := json.Unmarshal(text, out); err != nil {
		panic(err)
	}
	return out
}

// What is served is also what is decoded into: there is no other version to convert from.
func init() {
	internal := schema.GroupVersion{Group: groupVersion.Group, Version: runtime.APIVersionInternal}
	for _, version := range []schema.GroupVersion{groupVersion, internal} {
		for kind, object := range map[string]runtime.Object{
			"TenantSecret":        &TenantSecret{},
			"TenantSecretList":    &listOf[TenantSecret]{},
			"TenantModule":        &TenantModule{},
			"TenantModuleList":    &listOf[TenantModule]{},
			"TenantNamespace":     &TenantNamespace{},
			"TenantNamespaceList": &listOf[TenantNamespace]{},
			"Option":              &Option{},
			"OptionList":          &listOf[Option]{},
		} {
			scheme.AddKnownTypeWithName(version.WithKind(kind), object)
		}
	}
	v1.AddToGroupVersion(scheme, groupVersion)
	v1.AddToGroupVersion(scheme, schema.GroupVersion{Version: "v1"})
	scheme.AddUnversionedTypes(schema.GroupVersion{Version: "v1"},
		&v1.Status{}, &v1.APIVersions{}, &v1.APIGroupList{}, &v1.APIGroup{}, &v1.APIResourceList{})
}
