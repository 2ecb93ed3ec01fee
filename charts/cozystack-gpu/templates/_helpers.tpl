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
