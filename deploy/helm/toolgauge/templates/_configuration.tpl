{{/* toolgauge's configuration: what the topology needs, under `config`. */}}
{{- define "toolgauge.configuration" -}}
{{- $generated := include "toolgauge.generated" . | fromYaml -}}
{{- toYaml (mustMergeOverwrite $generated (deepCopy .Values.config)) -}}
{{- end }}

{{- define "toolgauge.generated" -}}
{{- if eq .Values.topology "sidecar" }}
receivers:
  otlp:
    protocols:
      grpc: {endpoint: "localhost:24317"}
      http: {endpoint: "localhost:24318"}
exporters:
  otlp: {endpoint: "localhost:14317"}
{{- else }}
# Open to the pod's network; the NetworkPolicy has who reaches them.
receivers:
  otlp:
    protocols:
      grpc: {endpoint: "0.0.0.0:4317", insecure: true}
      http: {endpoint: "0.0.0.0:4318", insecure: true}
exporters:
  otlp: {endpoint: {{ .Values.destination.endpoint | quote }}}
{{- end }}
  prometheus: {endpoint: "0.0.0.0:9464", insecure: true}
admin: {endpoint: "0.0.0.0:13133", insecure: true}
criteria_files: [/etc/toolgauge/criteria.yaml]
{{- if .Values.journal.enabled }}
state: {directory: /var/lib/toolgauge/state}
{{- end }}
{{- end }}

{{/* The Collector's configuration in `sidecar` and `gateway`, under `collector.config`. */}}
{{- define "toolgauge.collector.configuration" -}}
{{- $generated := include (printf "toolgauge.collector.%s" .Values.topology) . | fromYaml -}}
{{- toYaml (mustMergeOverwrite $generated (deepCopy .Values.collector.config)) -}}
{{- end }}

{{- define "toolgauge.collector.common" -}}
processors:
  memory_limiter: {check_interval: 1s, limit_percentage: 80, spike_limit_percentage: 25}
exporters:
  otlp/backend:
    endpoint: {{ .Values.destination.endpoint | quote }}
    tls: {insecure: {{ not (hasPrefix "https://" .Values.destination.endpoint) }}}
{{- end }}

{{/* What comes back has a receiver of its own: with one receiver for both, every span would go round for ever. */}}
{{- define "toolgauge.collector.sidecar" -}}
receivers:
  otlp/agents:
    protocols:
      grpc: {endpoint: "0.0.0.0:4317"}
      http: {endpoint: "0.0.0.0:4318"}
  otlp/scored:
    protocols:
      grpc: {endpoint: "localhost:14317"}
{{ include "toolgauge.collector.common" . }}
  otlp/toolgauge:
    endpoint: "localhost:24317"
    tls: {insecure: true}
    retry_on_failure: {max_elapsed_time: 0s}
service:
  pipelines:
    traces/agents: {receivers: [otlp/agents], processors: [memory_limiter], exporters: [otlp/toolgauge]}
    logs/agents: {receivers: [otlp/agents], processors: [memory_limiter], exporters: [otlp/toolgauge]}
    metrics/agents: {receivers: [otlp/agents], processors: [memory_limiter], exporters: [otlp/backend]}
    traces/scored: {receivers: [otlp/scored], exporters: [otlp/backend]}
    logs/scored: {receivers: [otlp/scored], exporters: [otlp/backend]}
    metrics/scored: {receivers: [otlp/scored], exporters: [otlp/backend]}
{{- end }}

{{/* Pods of a StatefulSet keep their names: while one restarts, what is for it waits, and no trace moves. */}}
{{- define "toolgauge.collector.gateway" -}}
{{- $name := include "toolgauge.fullname" . -}}
receivers:
  otlp/agents:
    protocols:
      grpc: {endpoint: "0.0.0.0:4317"}
      http: {endpoint: "0.0.0.0:4318"}
{{ include "toolgauge.collector.common" . }}
  loadbalancing:
    {{- if eq .Values.collector.routing "conversation" }}
    routing_key: attributes
    routing_attributes: [{{ .Values.collector.conversationAttribute | quote }}]
    {{- else }}
    routing_key: {{ ternary "service" "traceID" (eq .Values.collector.routing "service") }}
    {{- end }}
    protocol:
      otlp:
        tls: {insecure: true}
        {{- if .Values.journal.enabled }}
        retry_on_failure: {max_elapsed_time: 0s}
        {{- end }}
    resolver:
      {{- if .Values.journal.enabled }}
      static:
        hostnames:
          {{- range until (int .Values.replicas) }}
          - "{{ $name }}-{{ . }}.{{ $name }}-instances.{{ $.Release.Namespace }}.svc:4317"
          {{- end }}
      {{- else }}
      dns: {hostname: "{{ $name }}-instances.{{ .Release.Namespace }}.svc", port: "4317"}
      {{- end }}
service:
  pipelines:
    traces/agents: {receivers: [otlp/agents], processors: [memory_limiter], exporters: [loadbalancing]}
    logs/agents: {receivers: [otlp/agents], processors: [memory_limiter], exporters: [loadbalancing]}
    metrics/agents: {receivers: [otlp/agents], processors: [memory_limiter], exporters: [otlp/backend]}
{{- end }}
