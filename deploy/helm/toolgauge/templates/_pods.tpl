{{/* What all pods have. */}}
{{- define "toolgauge.pod.common" -}}
automountServiceAccountToken: false
enableServiceLinks: false
{{- with .Values.image.pullSecrets }}
imagePullSecrets: {{- toYaml . | nindent 2 }}
{{- end }}
{{- with .Values.priorityClassName }}
priorityClassName: {{ . | quote }}
{{- end }}
{{- with .Values.nodeSelector }}
nodeSelector: {{- toYaml . | nindent 2 }}
{{- end }}
{{- with .Values.tolerations }}
tolerations: {{- toYaml . | nindent 2 }}
{{- end }}
{{- with .Values.affinity }}
affinity: {{- toYaml . | nindent 2 }}
{{- end }}
{{- with .Values.topologySpreadConstraints }}
topologySpreadConstraints: {{- toYaml . | nindent 2 }}
{{- end }}
securityContext:
  runAsNonRoot: true
  runAsUser: 10001
  runAsGroup: 10001
  seccompProfile: {type: RuntimeDefault}
{{- end }}

{{- define "toolgauge.container.security" -}}
securityContext:
  allowPrivilegeEscalation: false
  readOnlyRootFilesystem: true
  capabilities: {drop: [ALL]}
{{- end }}

{{/* The template of toolgauge's pods, in a StatefulSet or a Deployment. */}}
{{- define "toolgauge.pod" -}}
metadata:
  labels:
    {{- include "toolgauge.selector" (list . "toolgauge") | nindent 4 }}
    {{- with .Values.podLabels }}{{ toYaml . | nindent 4 }}{{ end }}
  {{- $annotations := dict }}
  {{- if ne (include "toolgauge.monitored" (dict "enabled" .Values.podMonitor.enabled "capabilities" .Capabilities)) "true" }}
  {{- $annotations = dict "prometheus.io/scrape" "true" "prometheus.io/port" "9464" }}
  {{- end }}
  {{- if eq .Values.topology "sidecar" }}
  {{- $_ := set $annotations "checksum/collector" (include "toolgauge.collector.configuration" . | sha256sum) }}
  {{- end }}
  {{- with merge (deepCopy .Values.podAnnotations) $annotations }}
  annotations: {{- toYaml . | nindent 4 }}
  {{- end }}
spec:
  {{- include "toolgauge.pod.common" . | nindent 2 }}
  {{- if eq (include "toolgauge.journal" .) "true" }}
    fsGroup: 10001
    fsGroupChangePolicy: OnRootMismatch
  {{- end }}
  # Longer than the 30 s in which what is open is scored and what is queued is sent.
  terminationGracePeriodSeconds: 45
  containers:
    - name: toolgauge
      image: {{ printf "%s:%s" .Values.image.repository (.Values.image.tag | default .Chart.AppVersion) | quote }}
      imagePullPolicy: {{ .Values.image.pullPolicy }}
      args: ["serve", "--config", "/etc/toolgauge/toolgauge.yaml", "--watch-config"]
      {{- $own := list }}
      {{- if eq .Values.topology "kafka" }}
      {{- $own = list (dict "name" "POD_NAME" "valueFrom" (dict "fieldRef" (dict "fieldPath" "metadata.name"))) }}
      {{- end }}
      {{- with concat $own (include "toolgauge.kafka.env" . | fromYamlArray) .Values.env }}
      env: {{- toYaml . | nindent 8 }}
      {{- end }}
      {{- with .Values.envFrom }}
      envFrom: {{- toYaml . | nindent 8 }}
      {{- end }}
      ports:
        {{- if not (has .Values.topology (list "sidecar" "kafka")) }}
        - {name: otlp-grpc, containerPort: 4317}
        - {name: otlp-http, containerPort: 4318}
        {{- end }}
        - {name: metrics, containerPort: 9464}
        - {name: health, containerPort: 13133}
      startupProbe:
        {{- include "toolgauge.probe" . | nindent 8 }}
        periodSeconds: 1
        failureThreshold: 60
      readinessProbe:
        {{- include "toolgauge.probe" . | nindent 8 }}
        periodSeconds: 5
        timeoutSeconds: 2
      livenessProbe:
        {{- include "toolgauge.probe" . | nindent 8 }}
        periodSeconds: 10
        timeoutSeconds: 5
        failureThreshold: 6
      resources: {{- toYaml .Values.resources | nindent 8 }}
      {{- include "toolgauge.container.security" . | nindent 6 }}
      volumeMounts:
        - {name: configuration, mountPath: /etc/toolgauge, readOnly: true}
        {{- if eq (include "toolgauge.journal" .) "true" }}
        - {name: state, mountPath: /var/lib/toolgauge}
        {{- end }}
        {{- include "toolgauge.kafka.mounts" . | nindent 8 }}
        {{- with .Values.extraVolumeMounts }}{{ toYaml . | nindent 8 }}{{ end }}
    {{- if eq .Values.topology "sidecar" }}
    {{- include "toolgauge.collector.container" . | nindent 4 }}
    {{- end }}
  volumes:
    - name: configuration
      configMap: {name: {{ include "toolgauge.fullname" . }}}
    {{- if eq .Values.topology "sidecar" }}
    {{- include "toolgauge.collector.volume" . | nindent 4 }}
    {{- end }}
    {{- include "toolgauge.kafka.volumes" . | nindent 4 }}
    {{- with .Values.extraVolumes }}{{ toYaml . | nindent 4 }}{{ end }}
{{- end }}

{{- define "toolgauge.probe" -}}
httpGet:
  path: /
  port: health
  scheme: {{ .Values.probes.scheme }}
  {{- with .Values.probes.httpHeaders }}
  httpHeaders: {{- toYaml . | nindent 4 }}
  {{- end }}
{{- end }}

{{/* The Collector, beside toolgauge or in pods of its own. */}}
{{- define "toolgauge.collector.container" -}}
- name: collector
  image: {{ printf "%s:%s" .Values.collector.image.repository .Values.collector.image.tag | quote }}
  imagePullPolicy: {{ .Values.collector.image.pullPolicy }}
  args: ["--config=/etc/collector/collector.yaml"]
  {{- with concat (include "toolgauge.kafka.env" . | fromYamlArray) .Values.collector.env }}
  env: {{- toYaml . | nindent 4 }}
  {{- end }}
  ports:
    - {name: otlp-grpc, containerPort: 4317}
    - {name: otlp-http, containerPort: 4318}
  readinessProbe:
    tcpSocket: {port: otlp-grpc}
    periodSeconds: 5
  livenessProbe:
    tcpSocket: {port: otlp-grpc}
    periodSeconds: 10
    failureThreshold: 6
  resources: {{- toYaml .Values.collector.resources | nindent 4 }}
  {{- include "toolgauge.container.security" . | nindent 2 }}
  volumeMounts:
    - {name: collector, mountPath: /etc/collector, readOnly: true}
    {{- include "toolgauge.kafka.mounts" . | nindent 4 }}
{{- end }}

{{- define "toolgauge.collector.volume" -}}
- name: collector
  configMap: {name: {{ include "toolgauge.fullname" . }}-collector}
{{- end }}

{{/* What a pod needs for Kafka: the password and certificates. Empty in other topologies. */}}
{{- define "toolgauge.kafka.env" -}}
{{- if eq .Values.topology "kafka" }}
{{- with .Values.kafka.sasl }}
{{- if .mechanism }}
- name: KAFKA_USERNAME
  value: {{ required "kafka.sasl.username: needed with `kafka.sasl.mechanism`" .username | quote }}
- name: KAFKA_PASSWORD
  valueFrom: {secretKeyRef: {name: {{ required "kafka.sasl.secret: needed with `kafka.sasl.mechanism`" .secret | quote }}, key: {{ .key | quote }}}}
{{- end }}
{{- end }}
{{- end }}
{{- end }}

{{- define "toolgauge.kafka.mounts" -}}
{{- if and (eq .Values.topology "kafka") .Values.kafka.tls.enabled }}
{{- if .Values.kafka.tls.caSecret }}
- {name: kafka-ca, mountPath: /etc/kafka-ca, readOnly: true}
{{- end }}
{{- if .Values.kafka.tls.clientSecret }}
- {name: kafka-client, mountPath: /etc/kafka-client, readOnly: true}
{{- end }}
{{- end }}
{{- end }}

{{- define "toolgauge.kafka.volumes" -}}
{{- if and (eq .Values.topology "kafka") .Values.kafka.tls.enabled }}
{{- with .Values.kafka.tls.caSecret }}
- name: kafka-ca
  secret: {secretName: {{ . | quote }}}
{{- end }}
{{- with .Values.kafka.tls.clientSecret }}
- name: kafka-client
  secret: {secretName: {{ . | quote }}}
{{- end }}
{{- end }}
{{- end }}
