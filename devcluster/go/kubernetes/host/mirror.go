package main

import (
	"context"
	"fmt"
	"sort"
	"strconv"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/apis/meta/internalversion"
	"k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/duration"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/apiserver/pkg/endpoints/request"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/dynamic/dynamicinformer"
	"k8s.io/client-go/tools/cache"
)

// object is one that is served.
type object interface {
	runtime.Object
	v1.Object
}

// kind is what is shown of a backing resource, and how.
type kind struct {
	tabled
	name, resource string
	clusterWide    bool
	of             schema.GroupVersionResource
	mark           string // the label that what is shown has; it is not shown itself
	empty          func() object
	list           func() runtime.Object
	fill           func(object, *unstructured.Unstructured)
	shown          func(context.Context, string) bool
}

// mirror serves a kind: gets and lists from a cache, watches as the backing resource's go on.
type mirror struct {
	kind
	client dynamic.Interface
	cached cache.GenericLister
}

func mirrorOf(k kind, client dynamic.Interface, c *caches) *mirror {
	return &mirror{k, client, c.of(k.of)}
}

func (m *mirror) New() runtime.Object     { return m.empty() }
func (m *mirror) NewList() runtime.Object { return m.list() }
func (m *mirror) Destroy()                {}
func (m *mirror) NamespaceScoped() bool   { return !m.clusterWide }
func (m *mirror) GetSingularName() string { return strings.ToLower(m.name) }

// GroupVersionKind has discovery tell group and version of each resource, as the host's does.
func (m *mirror) GroupVersionKind(schema.GroupVersion) schema.GroupVersionKind {
	return groupVersion.WithKind(m.name)
}

func (m *mirror) backing(ctx context.Context) dynamic.ResourceInterface {
	if m.clusterWide {
		return m.client.Resource(m.of)
	}
	return m.client.Resource(m.of).Namespace(request.NamespaceValue(ctx))
}

func (m *mirror) missing(name string) error {
	return errors.NewNotFound(groupVersion.WithResource(m.resource).GroupResource(), name)
}

func (m *mirror) made(from *unstructured.Unstructured) object {
	to := m.empty()
	to.GetObjectKind().SetGroupVersionKind(groupVersion.WithKind(m.name))
	to.SetName(from.GetName())
	to.SetNamespace(from.GetNamespace())
	to.SetUID(from.GetUID())
	to.SetResourceVersion(from.GetResourceVersion())
	to.SetCreationTimestamp(from.GetCreationTimestamp())
	to.SetAnnotations(from.GetAnnotations())
	shown := from.GetLabels()
	delete(shown, m.mark)
	to.SetLabels(shown)
	m.fill(to, from)
	return to
}

func (m *mirror) isShown(ctx context.Context, one *unstructured.Unstructured) bool {
	return (m.mark == "" || one.GetLabels()[m.mark] == "true") && (m.shown == nil || m.shown(ctx, one.GetName()))
}

func (m *mirror) Get(ctx context.Context, name string, _ *v1.GetOptions) (runtime.Object, error) {
	key := name
	if !m.clusterWide {
		key = request.NamespaceValue(ctx) + "/" + name
	}
	found, err := m.cached.Get(key)
	if err != nil || !m.isShown(ctx, found.(*unstructured.Unstructured)) {
		return nil, m.missing(name)
	}
	return m.made(found.(*unstructured.Unstructured)), nil
}

func (m *mirror) List(ctx context.Context, asked *internalversion.ListOptions) (runtime.Object, error) {
	found, err := m.cached.ByNamespace(request.NamespaceValue(ctx)).List(labels.Everything())
	if m.clusterWide {
		found, err = m.cached.List(labels.Everything())
	}
	if err != nil {
		return nil, err
	}
	var shown []runtime.Object
	newest := 0
	for _, one := range found {
		from := one.(*unstructured.Unstructured)
		if m.isShown(ctx, from) && selected(asked, from) {
			version, _ := strconv.Atoi(from.GetResourceVersion())
			newest = max(newest, version)
			shown = append(shown, m.made(from))
		}
	}
	sort.Slice(shown, func(i, j int) bool { return place(shown[i]) < place(shown[j]) })
	made := m.list()
	if newest > 0 {
		made.(v1.ListInterface).SetResourceVersion(strconv.Itoa(newest))
	}
	return made, meta.SetList(made, shown)
}

func place(one runtime.Object) string {
	found := one.(object)
	return found.GetNamespace() + "/" + found.GetName()
}

func selected(asked *internalversion.ListOptions, one *unstructured.Unstructured) bool {
	at := fields.Set{"metadata.name": one.GetName(), "metadata.namespace": one.GetNamespace()}
	return (asked.LabelSelector == nil || asked.LabelSelector.Matches(labels.Set(one.GetLabels()))) &&
		(asked.FieldSelector == nil || asked.FieldSelector.Matches(at))
}

func (m *mirror) Watch(ctx context.Context, asked *internalversion.ListOptions) (watch.Interface, error) {
	how := v1.ListOptions{
		ResourceVersion:      asked.ResourceVersion,
		ResourceVersionMatch: asked.ResourceVersionMatch,
		SendInitialEvents:    asked.SendInitialEvents,
		AllowWatchBookmarks:  asked.AllowWatchBookmarks,
		LabelSelector:        m.selector(asked),
	}
	if asked.FieldSelector != nil {
		how.FieldSelector = asked.FieldSelector.String()
	}
	told, err := m.backing(ctx).Watch(ctx, how)
	if err != nil {
		return nil, err
	}
	return watch.Filter(told, func(event watch.Event) (watch.Event, bool) {
		from, is := event.Object.(*unstructured.Unstructured)
		if event.Type == watch.Error || !is {
			return event, true
		}
		if event.Type == watch.Bookmark {
			mark := m.empty()
			mark.SetResourceVersion(from.GetResourceVersion())
			mark.SetAnnotations(from.GetAnnotations())
			return watch.Event{Type: event.Type, Object: mark}, true
		}
		// Its selector has let it through: what is deleted may no longer bear the mark.
		return watch.Event{Type: event.Type, Object: m.made(from)}, m.shown == nil || m.shown(ctx, from.GetName())
	}), nil
}

func (m *mirror) selector(asked *internalversion.ListOptions) string {
	wanted := labels.Everything()
	if asked.LabelSelector != nil {
		wanted = asked.LabelSelector
	}
	switch {
	case m.mark == "":
		return wanted.String()
	case wanted.Empty():
		return m.mark + "=true"
	}
	return wanted.String() + "," + m.mark + "=true"
}

// tabled tells of objects in rows: a name, what cells says, and an age where that is a column.
type tabled struct {
	columns []v1.TableColumnDefinition
	cells   func(runtime.Object) []any
}

// ConvertToTable makes a row of an object, or of each in a list.
func (t tabled) ConvertToTable(_ context.Context, of, _ runtime.Object) (*v1.Table, error) {
	table := &v1.Table{ColumnDefinitions: t.columns}
	add := func(one runtime.Object) error {
		table.Rows = append(table.Rows, v1.TableRow{Cells: t.cells(one), Object: runtime.RawExtension{Object: one}})
		return nil
	}
	if many, is := of.(v1.ListInterface); is && meta.IsListType(of) {
		table.ResourceVersion = many.GetResourceVersion()
		return table, meta.EachListItem(of, add)
	}
	one, is := of.(object)
	if !is {
		return nil, fmt.Errorf("%T is no object", of)
	}
	table.ResourceVersion = one.GetResourceVersion()
	return table, add(of)
}

func columns(names ...string) []v1.TableColumnDefinition {
	made := make([]v1.TableColumnDefinition, len(names))
	for i, name := range names {
		made[i] = v1.TableColumnDefinition{Name: name, Type: "string"}
	}
	return made
}

func age(one v1.Object) string {
	return duration.HumanDuration(time.Since(one.GetCreationTimestamp().Time))
}

// caches follow the backing resources; what was just written is in them a moment later, as at the host.
type caches struct {
	ctx     context.Context
	factory dynamicinformer.DynamicSharedInformerFactory
}

func newCaches(ctx context.Context, client dynamic.Interface) *caches {
	return &caches{ctx, dynamicinformer.NewDynamicSharedInformerFactory(client, 0)}
}

func (c *caches) of(resource schema.GroupVersionResource) cache.GenericLister {
	c.factory.ForResource(resource)
	return c.factory.ForResource(resource).Lister()
}

func (c *caches) synced(ctx context.Context) error {
	c.factory.Start(ctx.Done())
	for resource, is := range c.factory.WaitForCacheSync(ctx.Done()) {
		if !is {
			return fmt.Errorf("%s not read", resource)
		}
	}
	return nil
}
