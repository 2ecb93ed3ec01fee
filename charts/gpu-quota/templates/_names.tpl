{{- /*
gpu-quota.names: the names of GPUs, as a JSON object with a member for each. Takes the root context.

They are those of value `gpu.resourceNames`, and those that the product lists in Option `gpuquotakey` at the moment of
rendering, unless value `gpu.lookup` is false. The group is asked for first: Helm's `lookup` of a kind that is not served
fails the whole release, and an API that is down is not among the capabilities.

A name without a slash is none of a GPU: who may write a Tenant may write `gpu.resourceNames` too, and `memory` there
would lose its limit.
*/ -}}
{{- define "gpu-quota.names" -}}
{{-   $gpu := .Values.gpu | default dict -}}
{{-   $listed := $gpu.resourceNames | default list -}}
{{-   if not (kindIs "slice" $listed) -}}
{{-     fail (printf "gpu.resourceNames: a list of resource names is needed, not a %s" (kindOf $listed)) -}}
{{-   end -}}
{{-   if and (ne $gpu.lookup false) (.Capabilities.APIVersions.Has "catalog.gpu.cozystack.io/v1alpha1/Option") -}}
{{-     $option := lookup "catalog.gpu.cozystack.io/v1alpha1" "Option" .Release.Namespace "gpuquotakey" -}}
{{-     range dig "spec" "items" list $option -}}
{{-       $listed = append $listed .value -}}
{{-     end -}}
{{-   end -}}
{{-   $names := dict -}}
{{-   range $listed -}}
{{-     if contains "/" (toString .) -}}
{{-       $_ := set $names (toString .) true -}}
{{-     end -}}
{{-   end -}}
{{-   toJson $names -}}
{{- end -}}
