{{/* The chart's own values, whether this is the chart or a dependency of the one that includes the template. */}}
{{- define "goodput-proxy.values" -}}
{{- index .Values "goodput-proxy" | default .Values | toYaml -}}
{{- end }}

{{- define "goodput-proxy.name" -}}
{{- .Release.Name | trunc 40 | trimSuffix "-" -}}
{{- end }}

{{- define "goodput-proxy.configName" -}}
{{ include "goodput-proxy.name" . }}-config
{{- end }}

{{- define "goodput-proxy.labels" -}}
app.kubernetes.io/name: goodput-proxy
{{- end }}

{{/* The label that PodMonitor and NetworkPolicy select by: on your pod template. */}}
{{- define "goodput-proxy.podLabels" -}}
goodput-proxy/scrape: "true"
{{- end }}

{{/* On your pod template: a change of the configuration rolls the pods. */}}
{{- define "goodput-proxy.podAnnotations" -}}
goodput-proxy/config-checksum: {{ include "goodput-proxy.config" . | sha256sum }}
{{- end }}

{{- define "goodput-proxy.config" -}}
{{- $v := include "goodput-proxy.values" . | fromYaml -}}
{{- $drain := dict "delay" (printf "%ds" (int $v.drain.delaySeconds)) "timeout" (printf "%ds" (int $v.drain.timeoutSeconds)) -}}
{{- mustMergeOverwrite (deepCopy $v.config) (dict "drain" $drain) | toYaml -}}
{{- end }}
