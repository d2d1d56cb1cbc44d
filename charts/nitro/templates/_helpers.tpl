{{- define "nitro.name" -}}
{{- .Values.nameOverride | default .Chart.Name | trunc 63 | trimSuffix "-" -}}
{{- end -}}

{{/* Helm accepts release names that a Service cannot have. The API server would refuse the Service after other objects were made. */}}
{{- define "nitro.fullname" -}}
{{- $name := include "nitro.name" . -}}
{{- $full := .Values.fullnameOverride | default (ternary .Release.Name (printf "%s-%s" .Release.Name $name) (contains $name .Release.Name)) -}}
{{- $full = $full | trunc 50 | trimSuffix "-" -}}
{{- if not (regexMatch "^[a-z]([-a-z0-9]*[a-z0-9])?$" $full) -}}
{{- fail (printf "%s cannot begin the name of a Service: only a-z, 0-9 and - may be in it, a letter first; set fullnameOverride" $full) -}}
{{- end -}}
{{- $full -}}
{{- end -}}

{{- define "nitro.operator" -}}
{{- include "nitro.fullname" . }}-operator
{{- end -}}

{{- define "nitro.serviceAccount" -}}
{{- .Values.serviceAccount.name | default (include "nitro.operator" .) -}}
{{- end -}}

{{/* What a Deployment's selector may use: it cannot change in an upgrade. */}}
{{- define "nitro.selector" -}}
app.kubernetes.io/name: {{ include "nitro.name" . | quote }}
app.kubernetes.io/instance: {{ .Release.Name | quote }}
app.kubernetes.io/component: operator
{{- end -}}

{{- define "nitro.labels" -}}
{{ include "nitro.selector" . }}
app.kubernetes.io/version: {{ .Chart.AppVersion | quote }}
app.kubernetes.io/managed-by: {{ .Release.Service }}
helm.sh/chart: {{ printf "%s-%s" .Chart.Name .Chart.Version | replace "+" "_" }}
{{- end -}}

{{/* The reference of one image: include "nitro.image" (dict "images" .Values.images "image" .Values.images.actor "root" .) */}}
{{- define "nitro.image" -}}
{{- $registry := .image.registry | default .images.registry -}}
{{- $tag := .image.tag | default .images.tag | default .root.Chart.AppVersion -}}
{{- with $registry }}{{ . }}/{{ end }}{{ .image.repository }}
{{- if .image.digest }}@{{ .image.digest }}{{ else }}:{{ $tag }}{{ end }}
{{- end -}}

{{/* "auto", "none" or a number, which Helm may have as a float. */}}
{{- define "nitro.identity" -}}
{{- if kindIs "string" . }}{{ . }}{{ else }}{{ int64 . }}{{ end -}}
{{- end -}}

{{/* The pod's security context of the operator and of `helm test`. */}}
{{- define "nitro.podSecurity" -}}
{{- $user := include "nitro.identity" .Values.podSecurity.runAsUser -}}
runAsNonRoot: true
{{- if eq $user "auto" }}
runAsUser: 65532
runAsGroup: 65532
{{- else if ne $user "none" }}
runAsUser: {{ $user }}
{{- end }}
seccompProfile: {type: RuntimeDefault}
{{- if .Values.podSecurity.appArmor }}
appArmorProfile: {type: RuntimeDefault}
{{- end }}
{{- end -}}

{{/* What learners may connect to besides DNS and their actors: a list of egress rules in JSON. */}}
{{- define "nitro.learnerEgress" -}}
{{- $egress := .Values.networkPolicy.learnerEgress -}}
{{- $server := dict "ports" list -}}
{{- range .Values.networkPolicy.apiServerPorts -}}
{{- $_ := set $server "ports" (append $server.ports (dict "protocol" "TCP" "port" (int .))) -}}
{{- end -}}
{{- range $egress.apiServerCidrs -}}
{{- $_ := set $server "to" (append ($server.to | default list) (dict "ipBlock" (dict "cidr" .))) -}}
{{- end -}}
{{- prepend $egress.rules $server | toJson -}}
{{- end -}}

{{/* "true" or nothing: whether a monitor is to be made. include "nitro.monitor" (dict "mode" .. "kind" .. "root" .) */}}
{{- define "nitro.monitor" -}}
{{- if eq .mode "enabled" -}}true
{{- else if and (eq .mode "auto") (.root.Capabilities.APIVersions.Has (printf "monitoring.coreos.com/v1/%s" .kind)) -}}true
{{- end -}}
{{- end -}}
