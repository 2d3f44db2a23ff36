{{- define "toolgauge.fullname" -}}
{{- .Values.fullnameOverride | default (ternary .Release.Name (printf "%s-%s" .Release.Name .Chart.Name) (contains .Chart.Name .Release.Name)) | trunc 52 | trimSuffix "-" -}}
{{- end }}

{{/* What selects the pods of a part: (list $ "toolgauge") or (list $ "collector"). */}}
{{- define "toolgauge.selector" -}}
app.kubernetes.io/name: toolgauge
app.kubernetes.io/instance: {{ (index . 0).Release.Name }}
app.kubernetes.io/component: {{ index . 1 }}
{{- end }}

{{- define "toolgauge.labels" -}}
{{ include "toolgauge.selector" . }}
app.kubernetes.io/version: {{ (index . 0).Chart.AppVersion | quote }}
app.kubernetes.io/managed-by: {{ (index . 0).Release.Service }}
helm.sh/chart: {{ printf "%s-%s" (index . 0).Chart.Name ((index . 0).Chart.Version | replace "+" "_") }}
{{- end }}

{{/* The pods that agents send to. */}}
{{- define "toolgauge.entrance" -}}
{{- ternary "collector" "toolgauge" (eq .Values.topology "gateway") -}}
{{- end }}

{{/* "true" where a switch is on: true, or `auto` in a cluster with the Prometheus operator. */}}
{{- define "toolgauge.monitored" -}}
{{- if eq (toString .enabled) "auto" -}}
{{- .capabilities.APIVersions.Has "monitoring.coreos.com/v1" -}}
{{- else -}}
{{- .enabled -}}
{{- end -}}
{{- end }}
