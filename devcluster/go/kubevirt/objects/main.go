// Prints, as JSON lists by step, what virt-operator would install in a namespace for virt-api and
// virt-controller: kubevirt-objects NAMESPACE.
package main

import (
	"encoding/json"
	"fmt"
	"os"

	extv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"kubevirt.io/kubevirt/pkg/virt-operator/resource/generate/components"
	"kubevirt.io/kubevirt/pkg/virt-operator/resource/generate/rbac"
)

func main() {
	if len(os.Args) != 2 {
		fail(fmt.Errorf("usage: kubevirt-objects NAMESPACE"))
	}
	namespace := os.Args[1]
	objects := map[string]any{
		"crds":        crds(),
		"rbac":        roles(namespace),
		"webhooks":    webhooks(namespace),
		"apiservices": components.NewVirtAPIAPIServices(namespace),
	}
	if err := json.NewEncoder(os.Stdout).Encode(objects); err != nil {
		fail(err)
	}
}

func crds() []*extv1.CustomResourceDefinition {
	made := []*extv1.CustomResourceDefinition{}
	for _, build := range []func() (*extv1.CustomResourceDefinition, error){
		components.NewKubeVirtCrd,
		components.NewVirtualMachineInstanceCrd,
		components.NewPresetCrd,
		components.NewReplicaSetCrd,
		components.NewVirtualMachineCrd,
		components.NewVirtualMachineInstanceMigrationCrd,
		components.NewVirtualMachineSnapshotCrd,
		components.NewVirtualMachineSnapshotContentCrd,
		components.NewVirtualMachineRestoreCrd,
		components.NewVirtualMachineInstancetypeCrd,
		components.NewVirtualMachineClusterInstancetypeCrd,
		components.NewVirtualMachinePoolCrd,
		components.NewMigrationPolicyCrd,
		components.NewVirtualMachinePreferenceCrd,
		components.NewVirtualMachineClusterPreferenceCrd,
		components.NewVirtualMachineExportCrd,
		components.NewVirtualMachineCloneCrd,
		components.NewVirtualMachineBackupCrd,
		components.NewVirtualMachineBackupTrackerCrd,
	} {
		crd, err := build()
		if err != nil {
			fail(err)
		}
		made = append(made, crd)
	}
	return made
}

// As virt-operator has them by default: with ExternalNetResourceInjection off the controller reads networks.
func roles(namespace string) []runtime.Object {
	made := rbac.GetAllController(namespace, true)
	made = append(made, rbac.GetAllApiServer(namespace)...)
	made = append(made, rbac.GetAllHandler(namespace)...)
	made = append(made, rbac.GetAllCluster()...)
	return append(made, components.NewKubeVirtPriorityClassCR())
}

func webhooks(namespace string) []runtime.Object {
	return []runtime.Object{
		components.NewVirtAPIValidatingWebhookConfiguration(namespace),
		components.NewVirtAPIMutatingWebhookConfiguration(namespace),
		components.NewVirtLauncherPodMutatingWebhookConfiguration(namespace),
	}
}

func fail(err error) {
	fmt.Fprintln(os.Stderr, err)
	os.Exit(1)
}
