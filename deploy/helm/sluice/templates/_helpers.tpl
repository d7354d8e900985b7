{{- define "sluice.name" -}}
{{- if contains "sluice" .Release.Name }}{{ .Release.Name | trunc 40 | trimSuffix "-" }}{{ else }}{{ printf "%s-sluice" .Release.Name | trunc 40 | trimSuffix "-" }}{{ end }}
{{- end }}

{{- define "sluice.selector" -}}
app.kubernetes.io/name: sluice
app.kubernetes.io/instance: {{ .Release.Name }}
{{- end }}

{{- define "sluice.labels" -}}
{{ include "sluice.selector" . }}
app.kubernetes.io/version: {{ .Chart.AppVersion | quote }}
app.kubernetes.io/managed-by: {{ .Release.Service }}
helm.sh/chart: {{ .Chart.Name }}-{{ .Chart.Version }}
{{- end }}

{{- define "sluice.image" -}}
{{ .Values.image.repository }}:{{ .Values.image.tag | default .Chart.AppVersion }}
{{- end }}

{{- define "sluice.secretName" -}}
{{ .Values.secret.existing | default (include "sluice.name" .) }}
{{- end }}

{{- define "sluice.scalerSecretName" -}}
{{ .Values.keda.existingSecret | default (printf "%s-scaler" (include "sluice.name" .)) }}
{{- end }}

{{- define "sluice.serviceAccount" -}}
{{- if .Values.serviceAccount.create }}{{ .Values.serviceAccount.name | default (include "sluice.name" .) }}{{ else }}{{ .Values.serviceAccount.name | default "default" }}{{ end }}
{{- end }}

{{- define "sluice.publicUrl" -}}
{{- if .Values.publicUrl }}{{ .Values.publicUrl }}{{ else if .Values.ingress.enabled }}{{ ternary "https" "http" (ne .Values.ingress.tlsSecret "") }}://{{ .Values.ingress.host }}{{ end }}
{{- end }}

{{- define "sluice.usesKeda" -}}
{{- if or (eq .Values.worker.autoscaling.by "keda") .Values.podClasses }}yes{{ end }}
{{- end }}

{{/* The process exits at most two seconds after the drain; the rest is for the kubelet. */}}
{{- define "sluice.graceSeconds" -}}
{{ add (int .Values.drainSeconds) 10 }}
{{- end }}

{{- define "sluice.secretData" -}}
{{- with .Values.secret }}
DATABASE_URL: {{ .databaseUrl | quote }}
ENCRYPTION_KEY: {{ .encryptionKey | quote }}
JWT_SECRET_KEY: {{ .jwtSecretKey | quote }}
{{- with .metricsToken }}
METRICS_TOKEN: {{ . | quote }}
{{- end }}
{{- with .s3AccessKeyId }}
S3_ACCESS_KEY_ID: {{ . | quote }}
{{- end }}
{{- with .s3SecretAccessKey }}
S3_SECRET_ACCESS_KEY: {{ . | quote }}
{{- end }}
{{- end }}
{{- end }}

{{- define "sluice.podSecurity" -}}
runAsNonRoot: true
runAsUser: 10001
runAsGroup: 10001
fsGroup: 10001
fsGroupChangePolicy: OnRootMismatch
seccompProfile: {type: RuntimeDefault}
{{- end }}

{{- define "sluice.containerSecurity" -}}
readOnlyRootFilesystem: true
allowPrivilegeEscalation: false
capabilities: {drop: [ALL]}
{{- end }}

{{/* Of every pod: {root, role, values}. */}}
{{- define "sluice.podFields" -}}
{{- $root := .root -}}
serviceAccountName: {{ include "sluice.serviceAccount" $root }}
automountServiceAccountToken: false
enableServiceLinks: false
terminationGracePeriodSeconds: {{ include "sluice.graceSeconds" $root }}
securityContext: {{- include "sluice.podSecurity" $root | nindent 2 }}
{{- with $root.Values.image.pullSecrets }}
imagePullSecrets: {{- range . }}
  - name: {{ . }}
{{- end }}
{{- end }}
{{- with $root.Values.priorityClassName }}
priorityClassName: {{ . }}
{{- end }}
{{- with $root.Values.topologySpread }}
topologySpreadConstraints:
{{- range . }}
  - {{ toYaml . | nindent 4 | trim }}
    labelSelector:
      matchLabels: {{- include "sluice.selector" $root | nindent 8 }}
        app.kubernetes.io/component: {{ $.role }}
    {{- if ne $.role "run" }}
    # Of this revision alone: after an upgrade pods would otherwise be spread around those that have gone.
    matchLabelKeys: [pod-template-hash]
    {{- end }}
{{- end }}
{{- end }}
{{- with .values.nodeSelector }}
nodeSelector: {{- toYaml . | nindent 2 }}
{{- end }}
# The pods of a dead node are replaced after half a minute instead of five.
tolerations:
  - {key: node.kubernetes.io/not-ready, operator: Exists, effect: NoExecute, tolerationSeconds: 30}
  - {key: node.kubernetes.io/unreachable, operator: Exists, effect: NoExecute, tolerationSeconds: 30}
{{- with .values.tolerations }}
  {{- toYaml . | nindent 2 }}
{{- end }}
{{- if .values.affinity }}
affinity: {{- toYaml .values.affinity | nindent 2 }}
{{- else if ne .role "run" }}
# Not a topology spread constraint: those have no effect where a node lacks one of their labels, and many clusters have no zones.
affinity:
  podAntiAffinity:
    preferredDuringSchedulingIgnoredDuringExecution:
      - weight: 100
        podAffinityTerm:
          topologyKey: topology.kubernetes.io/zone
          labelSelector:
            matchLabels: {{- include "sluice.selector" $root | nindent 14 }}
              app.kubernetes.io/component: {{ .role }}
{{- end }}
volumes:
  - name: tmp
    emptyDir: {sizeLimit: {{ $root.Values.temporaryStorage }}}
  - name: data
    emptyDir: {}
{{- end }}

{{/* Of every container but that of the migrations. */}}
{{- define "sluice.containerFields" -}}
image: {{ include "sluice.image" . }}
imagePullPolicy: {{ .Values.image.pullPolicy }}
securityContext: {{- include "sluice.containerSecurity" . | nindent 2 }}
envFrom:
  - configMapRef: {name: {{ include "sluice.name" . }}}
  - secretRef: {name: {{ include "sluice.secretName" . }}}
volumeMounts:
  - {name: tmp, mountPath: /tmp}
  - {name: data, mountPath: /data}
{{- end }}

{{/* Pods are replaced when their settings change. */}}
{{- define "sluice.checksums" -}}
checksum/settings: {{ include (print $.Template.BasePath "/configmap.yaml") . | sha256sum }}
{{- if not .Values.secret.existing }}
checksum/secret: {{ include "sluice.secretData" . | sha256sum }}
{{- end }}
{{- end }}
