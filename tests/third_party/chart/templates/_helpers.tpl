{{- define "shelf.labels" -}}
app.kubernetes.io/name: {{ .Chart.Name }}
app.kubernetes.io/instance: {{ .Release.Name }}
app.kubernetes.io/managed-by: {{ .Release.Service }}
{{- end }}
{{- define "shelf.selector" -}}
app.kubernetes.io/name: {{ .Chart.Name }}
app.kubernetes.io/instance: {{ .Release.Name }}
{{- end }}
{{/* What a namespace at the level `restricted` asks of every pod. */}}
{{- define "shelf.podSecurityContext" -}}
runAsNonRoot: true
runAsUser: 65534
fsGroup: 65534
seccompProfile: {type: RuntimeDefault}
{{- end }}
{{- define "shelf.securityContext" -}}
allowPrivilegeEscalation: false
capabilities: {drop: [ALL]}
{{- end }}
