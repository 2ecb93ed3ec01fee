{{- /*
gpu-quota.hard: what `spec.hard` of a tenant's ResourceQuota holds, as YAML. Takes the declared quotas and
the root context:

    hard:
      {{- include "gpu-quota.hard" (list .Values.resourceQuotas $) | nindent 6 }}

A budget (`gpu.cozystack.io/*`) gives no key: no pod asks for one. A GPU's name gives `requests.<name>` alone: Kubernetes
counts an extended resource under no other key. All else is what the host's own chart renders
(`cozy-lib.resources.flatten`).
*/ -}}
{{- define "gpu-quota.hard" -}}
{{-   if not (kindIs "slice" .) -}}
{{-     fail (printf "gpu-quota.hard takes (list QUOTAS $), not a %s" (kindOf .)) -}}
{{-   end -}}
{{-   $quotas := index . 0 | default dict -}}
{{-   $root := index . 1 -}}
{{-   range list "limits" "requests" -}}
{{-     if hasKey $quotas . -}}
{{-       fail (printf "resourceQuotas[%s]: quotas are one flat map of keys like cpu or memory; move what is in it up" .) -}}
{{-     end -}}
{{-   end -}}
{{-   $gpus := include "gpu-quota.names" $root | fromJson -}}
{{-   $unprefixed := list "pods" "services" "services.loadbalancers" "services.nodeports" "services.clusterip"
        "configmaps" "secrets" "persistentvolumeclaims" "replicationcontrollers" "resourcequotas" -}}
{{-   $hard := dict -}}
{{-   range $key, $value := $quotas -}}
{{-     $request := $value -}}
{{-     if hasPrefix "gpu.cozystack.io/" $key -}}
{{-       continue -}}
{{-     else if hasKey $gpus $key -}}
{{-       $_ := set $hard (printf "requests.%s" $key) (include "gpu-quota.units" $value) -}}
{{-       continue -}}
{{-     else if has $key $unprefixed -}}
{{-       $_ := set $hard $key $value -}}
{{-       continue -}}
{{-     else if eq $key "storage" -}}
{{-       $_ := set $hard "requests.storage" $value -}}
{{-       continue -}}
{{-     else if has $key (list "cpu" "memory" "ephemeral-storage") -}}
{{-       $request = include "gpu-quota.request" (list $key $value $root) -}}
{{-       $value = toString $value -}}
{{-     end -}}
{{-     $_ := set $hard (printf "limits.%s" $key) $value -}}
{{-     $_ := set $hard (printf "requests.%s" $key) $request -}}
{{-   end -}}
{{-   toYaml $hard -}}
{{- end -}}
