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
{{- else if eq .Values.topology "kafka" }}
receivers:
  kafka:
    {{- include "toolgauge.kafka.client" . | nindent 4 }}
    topics: {{- toYaml .Values.kafka.topics | nindent 6 }}
    group_id: {{ .Values.kafka.groupId | quote }}
    # Else what is written into a partition before it is first read, as in one that is added, would be passed over.
    initial_offset: earliest
    # A pod that comes back within the timeout goes on with its partitions, and no other one is disturbed.
    group_instance_id: "${env:POD_NAME}"
    session_timeout: 60s
exporters:
  otlp: {endpoint: {{ .Values.destination.endpoint | quote }}}
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
{{- if eq (include "toolgauge.journal" .) "true" }}
state: {directory: /var/lib/toolgauge/state}
{{- end }}
{{- end }}

{{/* How the brokers are reached: toolgauge and the Collector have the same keys. */}}
{{- define "toolgauge.kafka.client" -}}
{{- $kafka := .Values.kafka -}}
brokers: {{- toYaml $kafka.brokers | nindent 2 }}
{{- if $kafka.tls.enabled }}
tls:
  insecure: false
  {{- if $kafka.tls.caSecret }}
  ca_file: /etc/kafka-ca/ca.crt
  {{- end }}
  {{- if $kafka.tls.clientSecret }}
  cert_file: /etc/kafka-client/tls.crt
  key_file: /etc/kafka-client/tls.key
  {{- end }}
{{- end }}
{{- if $kafka.sasl.mechanism }}
auth:
  sasl:
    mechanism: {{ $kafka.sasl.mechanism }}
    username: "${env:KAFKA_USERNAME}"
    password: "${env:KAFKA_PASSWORD}"
{{- end }}
{{- end }}

{{/* The Collector's configuration in `sidecar`, `gateway` and `kafka`, under `collector.config`. */}}
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

{{/* One message a trace: its key decides on the partition, the same one for spans and log records. */}}
{{- define "toolgauge.collector.kafka" -}}
receivers:
  otlp/agents:
    protocols:
      grpc: {endpoint: "0.0.0.0:4317"}
      http: {endpoint: "0.0.0.0:4318"}
{{ include "toolgauge.collector.common" . }}
  kafka:
    {{- include "toolgauge.kafka.client" . | nindent 4 }}
    {{- range $signal, $topic := .Values.kafka.topics }}
    {{ $signal }}: {topic: {{ $topic | quote }}, encoding: otlp_proto}
    {{- end }}
    partition_traces_by_id: true
    partition_logs_by_trace_id: true
    retry_on_failure: {max_elapsed_time: 0s}
service:
  pipelines:
    traces/agents: {receivers: [otlp/agents], processors: [memory_limiter], exporters: [kafka]}
    logs/agents: {receivers: [otlp/agents], processors: [memory_limiter], exporters: [kafka]}
    metrics/agents: {receivers: [otlp/agents], processors: [memory_limiter], exporters: [otlp/backend]}
{{- end }}
