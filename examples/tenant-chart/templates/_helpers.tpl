{{/* The tenant's namespace: the release `tenant-<name>` lies in the namespace of the tenant above. */}}
{{- define "tenant.name" -}}
{{- $name := trimPrefix "tenant-" .Release.Name -}}
{{- if or (eq $name .Release.Name) (contains "-" $name) -}}
{{- fail (printf "release %q: a tenant's release is named tenant-<name>, with no other dash" .Release.Name) -}}
{{- end -}}
{{- if not (hasPrefix "tenant-" .Release.Namespace) -}}
{{- fail (printf "namespace %q: a tenant's release lies in the namespace of the tenant above, tenant-root or one below it" .Release.Namespace) -}}
{{- end -}}
{{- ternary "tenant" .Release.Namespace (eq .Release.Namespace "tenant-root") }}-{{ $name }}
{{- end -}}
