{{/* The one name: of the release's objects, of the ServiceAccount that policies trust, of the ClusterRole that owns managed policies. */}}
{{- define "cozystack-gpu.name" -}}cozystack-gpu{{- end -}}

{{- define "cozystack-gpu.labels" -}}
app.kubernetes.io/name: cozystack-gpu
app.kubernetes.io/instance: {{ .Release.Name }}
app.kubernetes.io/version: {{ .Chart.AppVersion | quote }}
app.kubernetes.io/managed-by: {{ .Release.Service }}
{{- end -}}

{{- define "cozystack-gpu.selector" -}}
app.kubernetes.io/name: cozystack-gpu
app.kubernetes.io/instance: {{ .Release.Name }}
{{- end -}}

{{- define "cozystack-gpu.image" -}}
{{- with .Values.image -}}
{{ .repository }}{{ if .digest }}@{{ .digest }}{{ else }}:{{ .tag | default $.Chart.AppVersion }}{{ end }}
{{- end -}}
{{- end -}}

{{/* Non-empty when cert-manager makes the serving certificate. */}}
{{- define "cozystack-gpu.certManager" -}}
{{- if and .Values.certManager.enabled (not .Values.caBundle) -}}true{{- end -}}
{{- end -}}

{{- define "cozystack-gpu.podSecurity" -}}
runAsNonRoot: true
runAsUser: 65532
runAsGroup: 65532
seccompProfile:
  type: RuntimeDefault
{{- end -}}

{{- define "cozystack-gpu.containerSecurity" -}}
allowPrivilegeEscalation: false
readOnlyRootFilesystem: true
capabilities:
  drop: [ALL]
{{- end -}}

{{/* YAML reads a bare `off` as false. */}}
{{- define "cozystack-gpu.policiesMode" -}}
{{- if kindIs "bool" .Values.policies.mode }}off{{ else }}{{ .Values.policies.mode }}{{ end -}}
{{- end -}}

{{/* Where kube-apiserver asks a webhook: (list . "name") is answered under /admission/name. */}}
{{- define "cozystack-gpu.webhookClient" -}}
{{- $root := first . -}}
{{- with $root.Values.caBundle -}}
caBundle: {{ . }}
{{ end -}}
service:
  name: {{ include "cozystack-gpu.name" $root }}
  namespace: {{ $root.Release.Namespace }}
  path: /admission/{{ last . }}
  port: {{ $root.Values.service.port }}
{{- end -}}

{{/* Match condition of every webhook: no request in a namespace of the system, the host or ours. */}}
{{- define "cozystack-gpu.tenantRequests" -}}
- name: not-in-a-namespace-of-the-system
  expression: >-
    !(request.namespace in ['kube-system', {{ .Release.Namespace | squote }}])
    && !request.namespace.startsWith('cozy-')
{{- end -}}

{{/*
Match conditions of the quota gate: in a tenant's namespace, and a quota that may be a GPU's is added or
changed. path: where the quotas are; old: when there are no old ones that count.
*/}}
{{- define "cozystack-gpu.quotasChange" -}}
- name: in-a-namespace-of-a-tenant
  expression: request.namespace.startsWith('tenant-')
- name: a-quota-with-a-slash-changes
  expression: >-
    [object.{{ .path }}.orValue({})].exists(after,
    [{{ .old }} ? dyn({}) : oldObject.{{ .path }}.orValue({})].exists(before,
    type(after) != map ? after != before
    : after.exists(key, key.contains('/') && !key.startsWith('count/')
    && (type(before) != map || !(key in before) || before[key] != after[key]))))
{{- end -}}
