package main

import (
	"context"
	"encoding/base64"

	"k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apiserver/pkg/registry/rest"
)

// secrets is the one resource that is written too: each write is one of the Secret behind it, and what
// that is refused with is said as it is. As at the host a dry run is stored.
type secrets struct{ *mirror }

// Create stores the Secret behind a new one.
func (s *secrets) Create(
	ctx context.Context, sent runtime.Object, _ rest.ValidateObjectFunc, _ *v1.CreateOptions,
) (runtime.Object, error) {
	made, err := s.backing(ctx).Create(ctx, s.stored(sent.(*TenantSecret), nil), v1.CreateOptions{})
	if err != nil {
		return nil, err
	}
	return s.made(made), nil
}

// Update stores what is sent, or what a patch makes of what is stored.
func (s *secrets) Update(
	ctx context.Context, name string, sent rest.UpdatedObjectInfo,
	_ rest.ValidateObjectFunc, _ rest.ValidateObjectUpdateFunc, _ bool, _ *v1.UpdateOptions,
) (runtime.Object, bool, error) {
	old, err := s.current(ctx, name)
	if err != nil {
		return nil, false, err
	}
	wanted, err := sent.UpdatedObject(ctx, s.made(old))
	if err != nil {
		return nil, false, err
	}
	made, err := s.backing(ctx).Update(ctx, s.stored(wanted.(*TenantSecret), old), v1.UpdateOptions{})
	if err != nil {
		return nil, false, err
	}
	return s.made(made), false, nil
}

// Delete deletes the Secret behind it.
func (s *secrets) Delete(
	ctx context.Context, name string, _ rest.ValidateObjectFunc, asked *v1.DeleteOptions,
) (runtime.Object, bool, error) {
	if _, err := s.current(ctx, name); err != nil {
		return nil, false, err
	}
	err := s.backing(ctx).Delete(ctx, name, v1.DeleteOptions{Preconditions: asked.Preconditions})
	return nil, err == nil, err
}

// current reads past the cache: a write that follows another finds it.
func (s *secrets) current(ctx context.Context, name string) (*unstructured.Unstructured, error) {
	found, err := s.backing(ctx).Get(ctx, name, v1.GetOptions{})
	if errors.IsNotFound(err) || err == nil && !s.isShown(ctx, found) {
		return nil, s.missing(name)
	}
	return found, err
}

func (s *secrets) stored(sent *TenantSecret, old *unstructured.Unstructured) *unstructured.Unstructured {
	values := map[string]any{}
	for name, value := range sent.Data {
		values[name] = base64.StdEncoding.EncodeToString(value)
	}
	for name, text := range sent.StringData {
		if _, is := values[name]; !is {
			values[name] = base64.StdEncoding.EncodeToString([]byte(text))
		}
	}
	made := &unstructured.Unstructured{Object: map[string]any{"apiVersion": "v1", "kind": "Secret", "data": values}}
	if sent.Type != "" {
		made.Object["type"] = sent.Type
	}
	made.SetName(sent.Name)
	made.SetNamespace(sent.Namespace)
	made.SetAnnotations(sent.Annotations)
	marked := map[string]string{s.mark: "true"}
	for name, value := range sent.Labels {
		marked[name] = value
	}
	made.SetLabels(marked)
	if old != nil {
		made.SetResourceVersion(old.GetResourceVersion())
	}
	return made
}
