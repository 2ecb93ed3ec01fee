// A stand-in for the host's API server where that is not to be had: the same generic server under the
// group core.cozystack.io, so that content negotiation, Tables, watches, refusals, delegated
// authentication and authorization, discovery and OpenAPI are what any aggregated server answers.
// What it shows is made of Secrets, Namespaces and HelmReleases, as the host does; flags are the host's.
package main

import (
	"context"
	"fmt"
	"os"

	"github.com/spf13/pflag"
	"k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apiserver/pkg/endpoints/openapi"
	"k8s.io/apiserver/pkg/registry/rest"
	"k8s.io/apiserver/pkg/server"
	"k8s.io/apiserver/pkg/server/options"
	"k8s.io/apiserver/pkg/util/feature"
	"k8s.io/client-go/dynamic"
	restclient "k8s.io/client-go/rest"
	"k8s.io/component-base/compatibility"
	"k8s.io/component-base/version"
)

func main() {
	chosen := options.NewRecommendedOptions("", codecs.LegacyCodec(groupVersion))
	chosen.Etcd = nil // nothing is kept here
	flags := pflag.NewFlagSet("host-api", pflag.ExitOnError)
	chosen.AddFlags(flags)
	_ = flags.Parse(os.Args[1:]) // it exits by itself
	ctx := server.SetupSignalContext()
	if err := serve(ctx, chosen); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

func serve(ctx context.Context, chosen *options.RecommendedOptions) error {
	config := server.NewRecommendedConfig(codecs)
	config.FeatureGate = feature.DefaultMutableFeatureGate
	config.EffectiveVersion = compatibility.NewEffectiveVersionFromString(version.DefaultKubeBinaryVersion, "", "")
	described(&config.Config)
	if err := chosen.ApplyTo(config); err != nil {
		return err
	}
	client, err := dynamic.NewForConfig(unlimited(config.ClientConfig))
	if err != nil {
		return err
	}
	made, err := config.Complete().New("host-api", server.NewEmptyDelegate())
	if err != nil {
		return err
	}
	stored, err := storage(ctx, client)
	if err != nil {
		return err
	}
	group := server.NewDefaultAPIGroupInfo(groupVersion.Group, scheme, v1.ParameterCodec, codecs)
	group.VersionedResourcesStorageMap[groupVersion.Version] = stored
	if err := made.InstallAPIGroup(&group); err != nil {
		return err
	}
	return made.PrepareRun().RunWithContext(ctx)
}

func described(config *server.Config) {
	namer := openapi.NewDefinitionNamer(scheme)
	config.OpenAPIConfig = server.DefaultOpenAPIConfig(definitions, namer)
	config.OpenAPIV3Config = server.DefaultOpenAPIV3Config(definitions, namer)
	config.OpenAPIConfig.Info.Title, config.OpenAPIV3Config.Info.Title = "Host", "Host"
	config.OpenAPIConfig.Info.Version, config.OpenAPIV3Config.Info.Version = "0.1", "0.1"
}

func unlimited(config *restclient.Config) *restclient.Config {
	free := restclient.CopyConfig(config)
	free.QPS = -1
	return free
}

func storage(ctx context.Context, client dynamic.Interface) (map[string]rest.Storage, error) {
	caches := newCaches(ctx, client)
	stored := map[string]rest.Storage{
		"tenantsecrets":    &secrets{mirrorOf(secretKind, client, caches)},
		"tenantmodules":    mirrorOf(moduleKind, client, caches),
		"tenantnamespaces": mirrorOf(namespaceKind(caches), client, caches),
		"options":          &offered{optionTable, client},
	}
	return stored, caches.synced(ctx)
}
