package main

import (
	"context"
	"encoding/base64"
	"strings"

	"k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apiserver/pkg/authentication/user"
	"k8s.io/apiserver/pkg/endpoints/request"
	"k8s.io/client-go/tools/cache"
)

const prefix = "tenant-" // of namespaces of tenants

var secretKind = kind{
	name:     "TenantSecret",
	resource: "tenantsecrets",
	of:       schema.GroupVersionResource{Version: "v1", Resource: "secrets"},
	mark:     "internal.cozystack.io/tenantresource",
	empty:    func() object { return &TenantSecret{} },
	list:     func() runtime.Object { return &listOf[TenantSecret]{} },
	fill: func(to object, from *unstructured.Unstructured) {
		secret := to.(*TenantSecret)
		secret.Type, _, _ = unstructured.NestedString(from.Object, "type")
		secret.StringData, _, _ = unstructured.NestedStringMap(from.Object, "data")
		secret.Data = map[string][]byte{}
		for name, text := range secret.StringData {
			secret.Data[name], _ = base64.StdEncoding.DecodeString(text)
		}
	},
	tabled: tabled{
		columns: columns("NAME", "TYPE", "AGE"),
		cells: func(one runtime.Object) []any {
			secret := one.(*TenantSecret)
			return []any{secret.Name, secret.Type, age(secret)}
		},
	},
}

var moduleKind = kind{
	name:     "TenantModule",
	resource: "tenantmodules",
	of:       schema.GroupVersionResource{Group: "helm.toolkit.fluxcd.io", Version: "v2", Resource: "helmreleases"},
	mark:     "internal.cozystack.io/tenantmodule",
	empty:    func() object { return &TenantModule{} },
	list:     func() runtime.Object { return &listOf[TenantModule]{} },
	fill: func(to object, from *unstructured.Unstructured) {
		module := to.(*TenantModule)
		module.AppVersion, _, _ = unstructured.NestedString(from.Object, "spec", "chart", "spec", "version")
		module.Status.Version, _, _ = unstructured.NestedString(from.Object, "status", "lastAttemptedRevision")
	},
	tabled: tabled{
		columns: columns("NAME", "READY", "AGE", "VERSION"),
		cells: func(one runtime.Object) []any {
			module := one.(*TenantModule)
			return []any{module.Name, "Unknown", age(module), module.Status.Version}
		},
	},
}

// namespaceKind shows to somebody the namespaces in which a binding names them, as the host does.
func namespaceKind(c *caches) kind {
	bindings := c.of(v1.SchemeGroupVersion.WithResource("rolebindings"))
	return kind{
		name:        "TenantNamespace",
		resource:    "tenantnamespaces",
		clusterWide: true,
		of:          schema.GroupVersionResource{Version: "v1", Resource: "namespaces"},
		empty:       func() object { return &TenantNamespace{} },
		list:        func() runtime.Object { return &listOf[TenantNamespace]{} },
		fill:        func(object, *unstructured.Unstructured) {},
		shown: func(ctx context.Context, name string) bool {
			who, is := request.UserFrom(ctx)
			return is && strings.HasPrefix(name, prefix) && isBound(who, bindings.ByNamespace(name))
		},
		tabled: tabled{
			columns: columns("NAME", "AGE"),
			cells: func(one runtime.Object) []any {
				return []any{one.(object).GetName(), age(one.(object))}
			},
		},
	}
}

func isBound(who user.Info, bindings cache.GenericNamespaceLister) bool {
	names := map[string]bool{"User/" + who.GetName(): true}
	for _, group := range who.GetGroups() {
		if group == user.SystemPrivilegedGroup {
			return true
		}
		names["Group/"+group] = true
	}
	found, _ := bindings.List(labels.Everything())
	for _, one := range found {
		binding := v1.RoleBinding{}
		content := one.(*unstructured.Unstructured).Object
		if runtime.DefaultUnstructuredConverter.FromUnstructured(content, &binding) != nil {
			continue
		}
		for _, subject := range binding.Subjects {
			if names[subject.Kind+"/"+subject.Name] {
				return true
			}
		}
	}
	return false
}

var optionTable = tabled{
	columns: []metav1.TableColumnDefinition{{Name: "NAME", Type: "string"}, {Name: "ITEMS", Type: "integer"}},
	cells: func(one runtime.Object) []any {
		option := one.(*Option)
		return []any{option.Name, len(option.Spec.Items)}
	},
}
