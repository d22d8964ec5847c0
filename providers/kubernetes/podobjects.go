package kubernetes

import "encoding/json"

type pod struct {
	Metadata meta      `json:"metadata"`
	Spec     podSpec   `json:"spec"`
	Status   podStatus `json:"status"`
}

type podSpec struct {
	RestartPolicy                 string            `json:"restartPolicy,omitempty"`
	EnableServiceLinks            *bool             `json:"enableServiceLinks,omitempty"`
	AutomountServiceAccountToken  *bool             `json:"automountServiceAccountToken,omitempty"`
	ServiceAccountName            string            `json:"serviceAccountName,omitempty"`
	TerminationGracePeriodSeconds int64             `json:"terminationGracePeriodSeconds,omitempty"`
	Hostname                      string            `json:"hostname,omitempty"`
	NodeName                      string            `json:"nodeName,omitempty"`
	NodeSelector                  map[string]string `json:"nodeSelector,omitempty"`
	Tolerations                   []toleration      `json:"tolerations,omitempty"`
	Affinity                      json.RawMessage   `json:"affinity,omitempty"`
	PriorityClassName             string            `json:"priorityClassName,omitempty"`
	RuntimeClassName              string            `json:"runtimeClassName,omitempty"`
	SchedulerName                 string            `json:"schedulerName,omitempty"`
	ImagePullSecrets              []named           `json:"imagePullSecrets,omitempty"`
	SecurityContext               *podSecurity      `json:"securityContext,omitempty"`
	InitContainers                []container       `json:"initContainers,omitempty"`
	Containers                    []container       `json:"containers"`
	Volumes                       []volume          `json:"volumes,omitempty"`
}

type named struct {
	Name string `json:"name"`
}

type toleration struct {
	Key               string `json:"key,omitempty"`
	Operator          string `json:"operator,omitempty"`
	Value             string `json:"value,omitempty"`
	Effect            string `json:"effect,omitempty"`
	TolerationSeconds *int64 `json:"tolerationSeconds,omitempty"`
}

type podSecurity struct {
	RunAsUser      *int64   `json:"runAsUser,omitempty"`
	RunAsGroup     *int64   `json:"runAsGroup,omitempty"`
	RunAsNonRoot   bool     `json:"runAsNonRoot,omitempty"`
	FSGroup        *int64   `json:"fsGroup,omitempty"`
	SeccompProfile *seccomp `json:"seccompProfile,omitempty"`
}

type seccomp struct {
	Type string `json:"type"`
}

type container struct {
	Name            string             `json:"name"`
	Image           string             `json:"image,omitempty"`
	ImagePullPolicy string             `json:"imagePullPolicy,omitempty"`
	Command         []string           `json:"command,omitempty"`
	Resources       resources          `json:"resources"`
	SecurityContext *containerSecurity `json:"securityContext,omitempty"`
	VolumeMounts    []volumeMount      `json:"volumeMounts,omitempty"`
	RestartPolicy   string             `json:"restartPolicy,omitempty"` // of init containers: "Always" is a sidecar
}

type resources struct {
	Requests map[string]string `json:"requests,omitempty"`
	Limits   map[string]string `json:"limits,omitempty"`
}

type containerSecurity struct {
	AllowPrivilegeEscalation *bool         `json:"allowPrivilegeEscalation,omitempty"`
	Capabilities             *capabilities `json:"capabilities,omitempty"`
}

type capabilities struct {
	Drop []string `json:"drop,omitempty"`
}

type volumeMount struct {
	Name      string `json:"name"`
	MountPath string `json:"mountPath"`
	SubPath   string `json:"subPath,omitempty"`
	ReadOnly  bool   `json:"readOnly,omitempty"`
}

type volume struct {
	Name     string        `json:"name"`
	Secret   *secretVolume `json:"secret,omitempty"`
	EmptyDir *emptyDir     `json:"emptyDir,omitempty"`
	Claim    *claimVolume  `json:"persistentVolumeClaim,omitempty"`
}

type secretVolume struct {
	SecretName  string    `json:"secretName"`
	DefaultMode int       `json:"defaultMode,omitempty"`
	Items       []keyPath `json:"items,omitempty"`
}

type keyPath struct {
	Key  string `json:"key"`
	Path string `json:"path"`
}

type emptyDir struct {
	Medium    string `json:"medium,omitempty"`
	SizeLimit string `json:"sizeLimit,omitempty"`
}

type claimVolume struct {
	ClaimName string `json:"claimName"`
	ReadOnly  bool   `json:"readOnly,omitempty"`
}

type podStatus struct {
	Phase             string            `json:"phase"`
	Reason            string            `json:"reason,omitempty"`
	Message           string            `json:"message,omitempty"`
	PodIP             string            `json:"podIP,omitempty"`
	Conditions        []condition       `json:"conditions,omitempty"`
	ContainerStatuses []containerStatus `json:"containerStatuses,omitempty"`
}

type containerStatus struct {
	Name  string         `json:"name"`
	Ready bool           `json:"ready"`
	State containerState `json:"state"`
}

// A containerState has the one of these that applies. Neither means that the container runs.
type containerState struct {
	Waiting    *waiting    `json:"waiting,omitempty"`
	Terminated *terminated `json:"terminated,omitempty"`
}

type waiting struct {
	Reason  string `json:"reason,omitempty"`
	Message string `json:"message,omitempty"`
}

type terminated struct {
	ExitCode int    `json:"exitCode"`
	Reason   string `json:"reason,omitempty"`
}

// ours returns the status of the node's own container. Webhooks may add others.
func (p pod) ours() containerStatus {
	for _, c := range p.Status.ContainerStatuses {
		if c.Name == containerName {
			return c
		}
	}
	return containerStatus{}
}

// over reports whether the pod runs no more.
func (p pod) over() bool { return p.Status.Phase == "Succeeded" || p.Status.Phase == "Failed" }

// isTerminated reports whether a program or a user has deleted the pod. A pod that was preempted or
// evicted runs on for its grace period.
func (p pod) isTerminated() bool {
	return !p.Metadata.DeletionTimestamp.IsZero() && find(p.Status.Conditions, disrupted).Status != "True"
}
