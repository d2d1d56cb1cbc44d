{{/*
What the operator may do, and why. No wildcards, no impersonation, no escalate or bind: the API server itself refuses
a learner Role that grants more than the operator holds. New objects need create, and server-side apply of a changed one patch.
*/}}
{{- define "nitro.rules" -}}
# The jobs: follow them, delete one whose ttlSecondsAfterFinished is over, and hold one whose Lambda function must go first
# (patch: its finalizer). A learner's Role passes on `get` and `watch`, for its own job.
- apiGroups: [nitro.dev]
  resources: [nitrotrainingjobs]
  verbs: [get, list, watch, patch, delete]
# Its half of the status. A learner's Role passes this on as well, for its own job.
- apiGroups: [nitro.dev]
  resources: [nitrotrainingjobs/status]
  verbs: [patch]
# A job's learner; deleted on suspend.
- apiGroups: [batch]
  resources: [jobs]
  verbs: [list, watch, create, patch, delete]
# A job's actors; deleted when a resumed job has another image.
- apiGroups: [serving.knative.dev]
  resources: [services]
  verbs: [list, watch, create, patch, delete]
# Revisions are Knative's: the operator sets their scale, round by round. Deleted is one that a backup has brought back
# without its owner.
- apiGroups: [serving.knative.dev]
  resources: [revisions]
  verbs: [list, watch, patch, delete]
# Learner and actor pods: count and meter them, read why one failed. Deleted is a learner's pod that a container which
# somebody else put into it (a service mesh) keeps after the learner's end, a pod of a former job that has no owner, and a
# sleeping actor whose node has no room to wake it. Patched is the annotation that has sleeping actors deleted before those
# that work.
- apiGroups: [""]
  resources: [pods]
  verbs: [list, watch, delete{{ if .Values.sleep.enabled }}, patch{{ end }}]
{{- if .Values.sleep.enabled }}
# The CPU request of running actors, so that they sleep between rounds; their owners say that they are the job's.
- apiGroups: [""]
  resources: [pods/resize]
  verbs: [patch]
- apiGroups: [apps]
  resources: [replicasets, deployments]
  verbs: [get]
# What actors use, so that one which works in its sleep counts as awake.
- apiGroups: [metrics.k8s.io]
  resources: [pods]
  verbs: [list]
{{- end }}
# The Redis Service, the learner's identity, the checkpoint claim. The garbage collector deletes them.
- apiGroups: [""]
  resources: [services, serviceaccounts, persistentvolumeclaims]
  verbs: [list, watch, create, patch]
# The job's generated Redis passwords and token, and the AWS credentials and Redis address that a Lambda job names. Not listed
# or watched: only a Secret whose name is known can be read.
- apiGroups: [""]
  resources: [secrets]
  verbs: [get, create]
# The ConfigMap that a job names by the digest in spec.code: is it there, and is it the code? Patched are its owners, so that it
# goes with the last job of this code.
- apiGroups: [""]
  resources: [configmaps]
  verbs: [get, patch]
# The learner may read its own job and patch its own status; the operator can give no more than it holds itself.
- apiGroups: [rbac.authorization.k8s.io]
  resources: [roles, rolebindings]
  verbs: [list, watch, create, patch]
# Only the job's own pods may reach its Redis and actors.
- apiGroups: [networking.k8s.io]
  resources: [networkpolicies]
  verbs: [list, watch, create, patch]
# Say on the job what happens to it, and find out why its learner's pod is not made (quota, admission).
- apiGroups: [""]
  resources: [events]
  verbs: [list, create]
{{- end -}}

{{- define "nitro.leaseRules" -}}
# Of two operators that serve the same jobs one writes: look whether another one holds a Lease for them. (Names do not
# restrict create.)
- apiGroups: [coordination.k8s.io]
  resources: [leases]
  verbs: [list, create]
# Renew its own.
- apiGroups: [coordination.k8s.io]
  resources: [leases]
  resourceNames:
    {{- range .Values.watchNamespaces }}
    - nitro-operator.{{ . }}
    {{- else }}
    - nitro-operator
    {{- end }}
  verbs: [patch]
{{- end -}}

{{/* What is not in any namespace, and so needs a ClusterRole even where the jobs' namespaces are listed. */}}
{{- define "nitro.clusterRules" -}}
# Whether Knative Serving is there, and of which release.
- apiGroups: [apiextensions.k8s.io]
  resources: [customresourcedefinitions]
  resourceNames: [services.serving.knative.dev]
  verbs: [get]
{{- if .Values.watchNamespaces }}
# Whether a listed namespace that the operator may not read is gone.
- apiGroups: [""]
  resources: [namespaces]
  verbs: [list]
{{- end }}
{{- end -}}
