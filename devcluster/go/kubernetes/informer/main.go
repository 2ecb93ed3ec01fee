// Runs one client-go informer and prints what it is told, a JSON object a line, until its input ends:
// informer KUBECONFIG GROUP/VERSION/RESOURCE NAMESPACE full|metadata.
// Whether it asks for streaming lists is client-go's own gate: KUBE_FEATURE_WatchListClient.
package main

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"strings"
	"sync"

	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/dynamic/dynamicinformer"
	"k8s.io/client-go/metadata"
	"k8s.io/client-go/metadata/metadatainformer"
	"k8s.io/client-go/tools/cache"
	"k8s.io/client-go/tools/clientcmd"
)

var printing sync.Mutex

func main() {
	if len(os.Args) != 5 {
		fail(fmt.Errorf("usage: informer KUBECONFIG GROUP/VERSION/RESOURCE NAMESPACE full|metadata"))
	}
	parts := strings.Split(os.Args[2], "/")
	if len(parts) != 3 {
		fail(fmt.Errorf("%q is not GROUP/VERSION/RESOURCE", os.Args[2]))
	}
	resource := schema.GroupVersionResource{Group: parts[0], Version: parts[1], Resource: parts[2]}
	informer := made(os.Args[1], resource, os.Args[3], os.Args[4])
	_, err := informer.AddEventHandler(cache.ResourceEventHandlerFuncs{
		AddFunc:    func(object any) { say("added", object) },
		UpdateFunc: func(_, object any) { say("updated", object) },
		DeleteFunc: func(object any) { say("deleted", object) },
	})
	if err != nil {
		fail(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	go informer.RunWithContext(ctx)
	if !cache.WaitForCacheSync(ctx.Done(), informer.HasSynced) {
		fail(fmt.Errorf("not synced"))
	}
	line(map[string]any{"event": "synced", "count": len(informer.GetStore().List())})
	_, _ = io.Copy(io.Discard, os.Stdin)
	cancel()
}

func made(login string, resource schema.GroupVersionResource, namespace, form string) cache.SharedIndexInformer {
	config, err := clientcmd.BuildConfigFromFlags("", login)
	if err != nil {
		fail(err)
	}
	if form == "metadata" {
		client := metadata.NewForConfigOrDie(config)
		return metadatainformer.NewFilteredSharedInformerFactory(client, 0, namespace, nil).ForResource(resource).Informer()
	}
	client := dynamic.NewForConfigOrDie(config)
	return dynamicinformer.NewFilteredDynamicSharedInformerFactory(client, 0, namespace, nil).ForResource(resource).Informer()
}

func say(event string, object any) {
	if tombstone, is := object.(cache.DeletedFinalStateUnknown); is {
		object = tombstone.Obj
	}
	found, err := meta.Accessor(object)
	if err != nil {
		fail(err)
	}
	line(map[string]any{"event": event, "name": found.GetName(), "version": found.GetResourceVersion()})
}

func line(content map[string]any) {
	printing.Lock()
	defer printing.Unlock()
	_ = json.NewEncoder(os.Stdout).Encode(content)
}

func fail(err error) {
	fmt.Fprintln(os.Stderr, err)
	os.Exit(1)
}
