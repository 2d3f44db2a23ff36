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

{{/* "true" where Collectors have pods of their own. */}}
{{- define "toolgauge.hasCollectors" -}}
{{- or (eq .Values.topology "gateway") (and (eq .Values.topology "kafka") .Values.kafka.collectors) -}}
{{- end }}

{{/* The pods that agents send to; none where others write into Kafka. */}}
{{- define "toolgauge.entrance" -}}
{{- if eq (include "toolgauge.hasCollectors" .) "true" -}}
collector
{{- else if ne .Values.topology "kafka" -}}
toolgauge
{{- end -}}
{{- end }}

{{/* "true" where toolgauge's pods have volumes. In Kafka lies what a pod has not finished, and any pod may read it. */}}
{{- define "toolgauge.journal" -}}
{{- and .Values.journal.enabled (ne .Values.topology "kafka") -}}
{{- end }}

{{/* "true" where pods keep their names over a restart. */}}
{{- define "toolgauge.isStateful" -}}
{{- or .Values.journal.enabled (eq .Values.topology "kafka") -}}
{{- end }}

{{/* "true" where a switch is on: true, or `auto` in a cluster with the Prometheus operator. */}}
{{- define "toolgauge.monitored" -}}
{{- if eq (toString .enabled) "auto" -}}
{{- .capabilities.APIVersions.Has "monitoring.coreos.com/v1" -}}
{{- else -}}
{{- .enabled -}}
{{- end -}}
{{- end }}
