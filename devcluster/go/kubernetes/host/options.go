package main

import (
	"context"
	"fmt"
	"sort"

	"k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/apis/meta/internalversion"
	"k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/apiserver/pkg/endpoints/request"
	"k8s.io/client-go/dynamic"
)

// offered serves options as the host does: read anew for each request, selectors not heeded, versions
// always 0, a source that fails left out of lists, and a watch that tells the list once and no more.
type offered struct {
	tabled
	client dynamic.Interface
}

type source struct {
	reads schema.GroupVersionResource
	item  func(*unstructured.Unstructured) OptionItem
}

// A few of the host's twelve: one that ours wins over, some with items, and one whose kind is nowhere.
var sources = map[string]source{
	"gpu": {
		schema.GroupVersionResource{Version: "v1", Resource: "nodes"},
		func(one *unstructured.Unstructured) OptionItem {
			return OptionItem{Value: "nvidia.com/" + one.GetName()}
		},
	},
	"storageclass": {
		schema.GroupVersionResource{Group: "storage.k8s.io", Version: "v1", Resource: "storageclasses"},
		func(one *unstructured.Unstructured) OptionItem {
			if one.GetAnnotations()["storageclass.kubernetes.io/is-default-class"] != "true" {
				return OptionItem{Value: one.GetName()}
			}
			return OptionItem{Value: one.GetName(), Label: one.GetName() + " (default)", Default: true}
		},
	},
	"appkind": {
		schema.GroupVersionResource{Group: "cozystack.io", Version: "v1alpha1", Resource: "applicationdefinitions"},
		func(one *unstructured.Unstructured) OptionItem {
			name, _, _ := unstructured.NestedString(one.Object, "spec", "application", "kind")
			return OptionItem{Value: name}
		},
	},
	"backupclass": {
		schema.GroupVersionResource{Group: "backups.cozystack.io", Version: "v1alpha1", Resource: "backupclasses"},
		func(one *unstructured.Unstructured) OptionItem { return OptionItem{Value: one.GetName()} },
	},
}

func (*offered) New() runtime.Object     { return &Option{} }
func (*offered) NewList() runtime.Object { return &listOf[Option]{} }
func (*offered) Destroy()                {}
func (*offered) NamespaceScoped() bool   { return true }
func (*offered) GetSingularName() string { return "option" }

// GroupVersionKind is told by discovery.
func (*offered) GroupVersionKind(schema.GroupVersion) schema.GroupVersionKind {
	return groupVersion.WithKind("Option")
}

// Get computes one source.
func (o *offered) Get(ctx context.Context, name string, _ *v1.GetOptions) (runtime.Object, error) {
	from, is := sources[name]
	if !is {
		return nil, errors.NewNotFound(groupVersion.WithResource("options").GroupResource(), name)
	}
	found, err := o.client.Resource(from.reads).List(ctx, v1.ListOptions{})
	if err != nil {
		return nil, errors.NewInternalError(fmt.Errorf("compute options for %q: %w", name, err))
	}
	at := v1.ObjectMeta{Name: name, Namespace: request.NamespaceValue(ctx), ResourceVersion: "0"}
	made := &Option{ObjectMeta: at}
	made.SetGroupVersionKind(groupVersion.WithKind("Option"))
	for i := range found.Items {
		made.Spec.Items = append(made.Spec.Items, from.item(&found.Items[i]))
	}
	return made, nil
}

// List computes every source.
func (o *offered) List(ctx context.Context, _ *internalversion.ListOptions) (runtime.Object, error) {
	made := &listOf[Option]{ListMeta: v1.ListMeta{ResourceVersion: "0"}, Items: []Option{}}
	for name := range sources {
		if one, err := o.Get(ctx, name, nil); err == nil {
			made.Items = append(made.Items, *one.(*Option))
		}
	}
	sort.Slice(made.Items, func(i, j int) bool { return made.Items[i].Name < made.Items[j].Name })
	return made, nil
}

// Watch tells the list, and then nothing until somebody ends it.
func (o *offered) Watch(ctx context.Context, asked *internalversion.ListOptions) (watch.Interface, error) {
	found, err := o.List(ctx, asked)
	if err != nil {
		return nil, err
	}
	items := found.(*listOf[Option]).Items
	events := make(chan watch.Event, len(items))
	for i := range items {
		events <- watch.Event{Type: watch.Added, Object: &items[i]}
	}
	return watch.NewProxyWatcher(events), nil
}
