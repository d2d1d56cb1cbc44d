{{/* The groups of alerts, with links to where the runbooks are read. */}}
{{- define "nitro.alerts" -}}
{{- .Files.Get "files/nitro.rules.yaml" | replace "runbook_url: docs/operations.md#" (printf "runbook_url: %s#" .Values.metrics.prometheusRule.runbooks) | trim -}}
{{- end -}}

{{/*
What the two monitors say, as Prometheus' own configuration. It finds pods by the API, for which its service account needs
get, list and watch on pods.
*/}}
{{- define "nitro.scrapeConfigs" -}}
scrape_configs:
  - job_name: nitro-operator
    scrape_interval: {{ .Values.metrics.serviceMonitor.interval }}
    # The operator's series name the job's namespace, not the operator's.
    honor_labels: true
    kubernetes_sd_configs:
      - role: pod
        namespaces: {names: [{{ .Release.Namespace | quote }}]}
        selectors:
          - role: pod
            label: {{ include "nitro.selector" . | fromYaml | include "nitro.labelSelector" }}
    relabel_configs: {{- include "nitro.relabel" . | nindent 6 }}
  - job_name: nitro-learners
    scrape_interval: {{ .Values.metrics.podMonitor.interval }}
    # A tenant chooses what runs there: its series are of its own namespace, whatever they say, and never the operator's.
    honor_labels: false
    honor_timestamps: false
    # A redirection would show the tenant what only Prometheus can reach.
    follow_redirects: false
    # A learner has a few hundred series. Whatever a tenant's image serves must not fill Prometheus.
    sample_limit: 10000
    label_limit: 30
    body_size_limit: 10MB
    metric_relabel_configs:
      - {source_labels: [__name__], regex: {{ include "nitro.operatorsSeries" . | quote }}, action: drop}
      - {regex: exported_namespace, action: labeldrop}
    kubernetes_sd_configs:
      - role: pod
        {{- with .Values.watchNamespaces }}
        namespaces: {names: {{ toJson . }}}
        {{- end }}
        selectors:
          - role: pod
            label: {{ include "nitro.learnerSelector" . | fromYaml | include "nitro.labelSelector" }}
    relabel_configs: {{- include "nitro.relabel" . | nindent 6 }}
{{- end -}}

{{/* The port named metrics of pods that are not over; a pod's series must not go on in the next pod's. */}}
{{- define "nitro.relabel" -}}
- {source_labels: [__meta_kubernetes_pod_container_port_name], regex: metrics, action: keep}
- {source_labels: [__meta_kubernetes_pod_phase], regex: (Failed|Succeeded), action: drop}
- {source_labels: [__meta_kubernetes_namespace], target_label: namespace}
- {source_labels: [__meta_kubernetes_pod_name], target_label: pod}
{{- end -}}

{{/* The names of the series that only the operator has. */}}
{{- define "nitro.operatorsSeries" -}}
nitro_(operator_.+|jobs|job_(info|progress_ratio|spec_.+|status_.+)|actor_pods_started_total)
{{- end -}}

{{/* The labels of a job's learner pod. */}}
{{- define "nitro.learnerSelector" -}}
app.kubernetes.io/managed-by: nitro-operator
app.kubernetes.io/component: learner
{{- end -}}

{{/* Labels as the API's query string has them: a=b,c=d */}}
{{- define "nitro.labelSelector" -}}
{{- $pairs := list -}}
{{- range $key, $value := . }}{{ $pairs = append $pairs (printf "%s=%s" $key $value) }}{{ end -}}
{{- join "," $pairs -}}
{{- end -}}
