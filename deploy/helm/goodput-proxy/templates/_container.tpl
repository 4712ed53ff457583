{{/*
The sidecar for your own chart. With this chart as a dependency, in your pod template:

  metadata:
    labels: {{- include "goodput-proxy.podLabels" . | nindent 8 }}
    annotations: {{- include "goodput-proxy.podAnnotations" . | nindent 8 }}
  spec:
    terminationGracePeriodSeconds: {{ include "goodput-proxy.terminationGracePeriodSeconds" . }}
    initContainers: [your own, then]
      {{- include "goodput-proxy.native" . | nindent 6 }}        # from Kubernetes 1.29; before, "goodput-proxy.classic" in containers
    containers:
      - name: your-model-server
        lifecycle: {{- include "goodput-proxy.drainHook" . | nindent 10 }}
    volumes:
      {{- include "goodput-proxy.volumes" . | nindent 6 }}
*/}}

{{- define "goodput-proxy.native" -}}
- {{ include "goodput-proxy.container" . | nindent 2 | trim }}
  restartPolicy: Always
{{- end }}

{{- define "goodput-proxy.classic" -}}
- {{ include "goodput-proxy.container" . | nindent 2 | trim }}
  lifecycle: {{- include "goodput-proxy.drainHook" . | nindent 4 }}
{{- end }}

{{/* For the model server's container: it is told to stop only when nothing is in flight. A number, since a name would be looked up
among that container's own ports. */}}
{{- define "goodput-proxy.drainHook" -}}
{{- $v := include "goodput-proxy.values" . | fromYaml -}}
preStop:
  httpGet:
    path: /drain
    port: {{ int $v.ports.admin }}
    {{- if eq $v.adminScheme "HTTPS" }}
    scheme: HTTPS
    {{- end }}
    {{- with $v.drain.hookHeaders }}
    httpHeaders: {{- toYaml . | nindent 6 }}
    {{- end }}
{{- end }}

{{- define "goodput-proxy.terminationGracePeriodSeconds" -}}
{{- $d := (include "goodput-proxy.values" . | fromYaml).drain -}}
{{- add (int $d.delaySeconds) (int $d.timeoutSeconds) (int $d.serverShutdownSeconds) 20 -}}
{{- end }}

{{- define "goodput-proxy.volumes" -}}
- name: goodput-proxy-config
  configMap:
    name: {{ include "goodput-proxy.configName" . }}
{{- with (include "goodput-proxy.values" . | fromYaml).extraVolumes }}
{{ toYaml . }}
{{- end }}
{{- end }}

{{- define "goodput-proxy.container" -}}
{{- $v := include "goodput-proxy.values" . | fromYaml -}}
name: goodput-proxy
image: {{ printf "%s:%s" $v.image.repository $v.image.tag | quote }}
imagePullPolicy: {{ $v.image.pullPolicy }}
args:
  - run
  - --config=/etc/goodput-proxy/config.yaml
  - --listen=0.0.0.0:{{ int $v.ports.listen }}
  - --upstream={{ $v.upstream }}
  - --admin=0.0.0.0:{{ int $v.ports.admin }}
  - --log-format=json
ports:
  - name: goodput
    containerPort: {{ int $v.ports.listen }}
  - name: goodput-admin
    containerPort: {{ int $v.ports.admin }}
# All three ask the proxy about itself, never the model server: in native mode the server starts only after the first has passed.
startupProbe:
  httpGet:
    path: /livez
    port: goodput-admin
    {{- if eq $v.adminScheme "HTTPS" }}
    scheme: HTTPS
    {{- end }}
  periodSeconds: 1
  failureThreshold: 30
livenessProbe:
  httpGet:
    path: /livez
    port: goodput-admin
    {{- if eq $v.adminScheme "HTTPS" }}
    scheme: HTTPS
    {{- end }}
  periodSeconds: 10
  timeoutSeconds: 5
readinessProbe:
  httpGet:
    path: /readyz
    port: goodput-admin
    {{- if eq $v.adminScheme "HTTPS" }}
    scheme: HTTPS
    {{- end }}
  periodSeconds: 2
  failureThreshold: 1
resources: {{- toYaml $v.resources | nindent 2 }}
securityContext:
  runAsNonRoot: true
  runAsUser: 65532
  runAsGroup: 65532
  readOnlyRootFilesystem: true
  allowPrivilegeEscalation: false
  capabilities:
    drop: [ALL]
  seccompProfile:
    type: RuntimeDefault
volumeMounts:
  - name: goodput-proxy-config
    mountPath: /etc/goodput-proxy
    readOnly: true
  {{- with $v.extraVolumeMounts }}
  {{- toYaml . | nindent 2 }}
  {{- end }}
{{- end }}
