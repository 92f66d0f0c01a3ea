{{- define "linkforge.name" -}}
{{- default .Chart.Name .Values.nameOverride | trunc 47 | trimSuffix "-" }}
{{- end }}

{{/* 47 characters leave room for suffixes, such as the hash of a revision in a label. */}}
{{- define "linkforge.fullname" -}}
{{- $name := include "linkforge.name" . }}
{{- if .Values.fullnameOverride }}
{{- $name = .Values.fullnameOverride }}
{{- else if not (contains $name .Release.Name) }}
{{- $name = printf "%s-%s" .Release.Name $name }}
{{- else }}
{{- $name = .Release.Name }}
{{- end }}
{{- $name | trunc 47 | trimSuffix "-" }}
{{- end }}

{{- define "linkforge.selector" -}}
app.kubernetes.io/name: {{ include "linkforge.name" . }}
app.kubernetes.io/instance: {{ .Release.Name }}
{{- end }}

{{- define "linkforge.labels" -}}
{{ include "linkforge.selector" . }}
app.kubernetes.io/version: {{ .Chart.AppVersion | quote }}
app.kubernetes.io/managed-by: {{ .Release.Service }}
helm.sh/chart: {{ printf "%s-%s" .Chart.Name .Chart.Version | replace "+" "_" }}
{{- end }}

{{- define "linkforge.serviceAccount" -}}
{{- if .Values.serviceAccount.create }}
{{- default (include "linkforge.fullname" .) .Values.serviceAccount.name }}
{{- else }}
{{- default "default" .Values.serviceAccount.name }}
{{- end }}
{{- end }}

{{/* Hosts of an Ingress or an HTTPRoute as a JSON list. */}}
{{- define "linkforge.hosts" -}}
{{- default (list (urlParse .root.Values.publicUrl).hostname) .hosts | toJson }}
{{- end }}

{{/* What the pods of the server, the migration and the test have in common. */}}
{{- define "linkforge.pod" -}}
automountServiceAccountToken: false
enableServiceLinks: false # otherwise, the Services set variables that the server refuses
{{- with .Values.imagePullSecrets }}
imagePullSecrets:
  {{- toYaml . | nindent 2 }}
{{- end }}
securityContext:
  runAsNonRoot: true
  runAsUser: 65532
  runAsGroup: 65532
  fsGroup: 65532
  fsGroupChangePolicy: OnRootMismatch
  seccompProfile: {type: RuntimeDefault}
{{- with .Values.nodeSelector }}
nodeSelector:
  {{- toYaml . | nindent 2 }}
{{- end }}
{{- with .Values.tolerations }}
tolerations:
  {{- toYaml . | nindent 2 }}
{{- end }}
{{- end }}

{{/* What their containers have in common. */}}
{{- define "linkforge.container" -}}
{{- $image := .Values.image -}}
image: {{ $image.repository }}{{ if $image.digest }}@{{ $image.digest }}{{ else }}:{{ default .Chart.AppVersion $image.tag }}{{ end }}
imagePullPolicy: {{ $image.pullPolicy }}
securityContext: {{- include "linkforge.confined" . | nindent 2 }}
{{- if .Values.existingSecret }}
envFrom:
  - secretRef: {name: {{ .Values.existingSecret }}}
{{- end }}
env:
  {{- include "linkforge.env" . | nindent 2 }}
{{- end }}

{{- define "linkforge.confined" -}}
allowPrivilegeEscalation: false
readOnlyRootFilesystem: true
capabilities: {drop: [ALL]}
{{- end }}

{{/* The settings that are no secrets. Integers from files are floating-point numbers here. */}}
{{- define "linkforge.env" -}}
{{- $name := include "linkforge.fullname" . }}
{{- $host := printf "%s.%s" $name .Release.Namespace }}
{{- if eq .Values.database.kind "builtin" -}}
- name: BUILTIN_PASSWORD
  valueFrom:
    secretKeyRef: {name: {{ .Values.existingSecret }}, key: BUILTIN_PASSWORD}
- name: LINKFORGE_DATABASE_URL
  value: postgres://linkforge:$(BUILTIN_PASSWORD)@{{ $name }}-postgresql/linkforge?sslmode=disable
- name: LINKFORGE_REDIS_URL
  value: redis://:$(BUILTIN_PASSWORD)@{{ $name }}-redis:6379/0
{{ else if eq .Values.database.kind "sqlite" -}}
- name: LINKFORGE_DATABASE_URL
  value: sqlite
{{ else -}}
- name: LINKFORGE_MIGRATE # by the hook before an installation or upgrade
  value: "off"
{{ end -}}
- name: LINKFORGE_ENV
  value: production
- name: LINKFORGE_PUBLIC_URL
  value: {{ .Values.publicUrl | quote }}
- name: LINKFORGE_HOSTS
  value: {{ list $name $host (printf "%s.svc" $host) (printf "%s.svc.cluster.local" $host) .Values.settings.LINKFORGE_HOSTS | compact | join "," | quote }}
- name: LINKFORGE_LISTEN
  value: ":8080"
- name: LINKFORGE_ADMIN_LISTEN
  value: ":8081"
- name: LINKFORGE_DATA_DIR
  value: /data
# The image has no shell for a preStop hook that sleeps.
- name: LINKFORGE_DRAIN_DELAY
  value: {{ int .Values.drainSeconds }}s
{{- if .Values.geoip.existingClaim }}
- name: LINKFORGE_GEOIP
  value: /geoip/{{ .Values.geoip.file }}
{{- end }}
{{- range $setting, $value := omit .Values.settings "LINKFORGE_HOSTS" }}
- name: {{ $setting }}
  value: {{ if kindIs "float64" $value }}{{ int64 $value | quote }}{{ else }}{{ $value | quote }}{{ end }}
{{- end }}
{{- with .Values.extraEnv }}
{{ toYaml . }}
{{- end }}
{{- end }}

{{/* Refuses values that do not fit together: all problems at once, each with the value and the remedy. */}}
{{- define "linkforge.validate" -}}
{{- $v := .Values }}
{{- $problems := list }}
{{- if not $v.publicUrl }}
{{- $problems = append $problems "publicUrl is required: the origin of short URLs, as in https://sho.rt" }}
{{- end }}
{{- if eq $v.database.kind "sqlite" }}
{{- if or $v.autoscaling.enabled (gt (int $v.replicas) 1) }}
{{- $problems = append $problems "database.kind sqlite is one pod: set replicas to 1 and autoscaling.enabled to false, or use another database.kind" }}
{{- end }}
{{- else if not $v.existingSecret }}
{{- $problems = append $problems "existingSecret is required: the name of a Secret with LINKFORGE_JWT_SECRET and the other keys that values.yaml lists" }}
{{- end }}
{{- range $setting := list "LINKFORGE_DATABASE_URL" "LINKFORGE_DATABASE_READ_URL" "LINKFORGE_REDIS_URL" "LINKFORGE_CLICKS_URL" "LINKFORGE_SMTP_URL" "LINKFORGE_JWT_SECRET" "LINKFORGE_CODE_SECRET" "LINKFORGE_ENCRYPTION_KEY" "LINKFORGE_ENCRYPTION_KEY_PREVIOUS" "LINKFORGE_SSO_CLIENT_SECRET" }}
{{- if hasKey $v.settings $setting }}
{{- $problems = append $problems (printf "settings.%s is a secret: make it a key of existingSecret" $setting) }}
{{- end }}
{{- end }}
{{- range $setting, $value := dict "LINKFORGE_PUBLIC_URL" "publicUrl" "LINKFORGE_DRAIN_DELAY" "drainSeconds, from which the grace period follows" "LINKFORGE_MIGRATE" "database.kind" }}
{{- if hasKey $v.settings $setting }}
{{- $problems = append $problems (printf "settings.%s: set %s instead" $setting $value) }}
{{- end }}
{{- end }}
{{- range $setting := list "LINKFORGE_ENV" "LINKFORGE_LISTEN" "LINKFORGE_ADMIN_LISTEN" "LINKFORGE_DATA_DIR" "LINKFORGE_TLS" }}
{{- if hasKey $v.settings $setting }}
{{- $problems = append $problems (printf "settings.%s: the chart sets it; remove it" $setting) }}
{{- end }}
{{- end }}
{{- if and (or $v.ingress.enabled $v.gateway.enabled) (not $v.settings.LINKFORGE_TRUSTED_PROXIES) }}
{{- $problems = append $problems "settings.LINKFORGE_TRUSTED_PROXIES is required with ingress.enabled or gateway.enabled: the addresses of the proxy's pods, as in 10.244.7.0/24" }}
{{- end }}
{{- if and $v.gateway.enabled (not $v.gateway.parentRefs) }}
{{- $problems = append $problems "gateway.parentRefs is required with gateway.enabled: the gateways, as in [{name: public}]" }}
{{- end }}
{{- if and $v.autoscaling.enabled (lt (int $v.autoscaling.maxReplicas) (int $v.autoscaling.minReplicas)) }}
{{- $problems = append $problems "autoscaling.maxReplicas must be at least autoscaling.minReplicas" }}
{{- end }}
{{- if and $v.geoip.existingClaim $v.settings.LINKFORGE_GEOIP }}
{{- $problems = append $problems "geoip.existingClaim and settings.LINKFORGE_GEOIP: set one of them" }}
{{- end }}
{{- with $problems }}
{{- printf "\n%s" (join "\n" .) | fail }}
{{- end }}
{{- end }}
