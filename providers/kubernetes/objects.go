package kubernetes

import "time"

// The objects of the API, with the fields that this package reads or writes. Names and meanings
// are those of Kubernetes' API reference (v1.34).

// A meta is an object's metadata.
type meta struct {
	Name              string            `json:"name,omitempty"`
	Namespace         string            `json:"namespace,omitempty"`
	UID               string            `json:"uid,omitempty"`
	Labels            map[string]string `json:"labels,omitempty"`
	Annotations       map[string]string `json:"annotations,omitempty"`
	OwnerReferences   []owner           `json:"ownerReferences,omitempty"`
	CreationTimestamp time.Time         `json:"creationTimestamp,omitzero"`
	DeletionTimestamp time.Time         `json:"deletionTimestamp,omitzero"`
}

type owner struct {
	APIVersion string `json:"apiVersion"`
	Kind       string `json:"kind"`
	Name       string `json:"name"`
	UID        string `json:"uid"`
}

// A list is one page of a list of objects.
type list[T any] struct {
	Kind     string   `json:"kind"`
	Metadata listMeta `json:"metadata"`
	Items    []T      `json:"items"`
}

type listMeta struct {
	Continue string `json:"continue,omitempty"`
}

type job struct {
	APIVersion string    `json:"apiVersion,omitempty"`
	Kind       string    `json:"kind,omitempty"`
	Metadata   meta      `json:"metadata"`
	Spec       jobSpec   `json:"spec"`
	Status     jobStatus `json:"status,omitzero"`
}

type jobSpec struct {
	Parallelism             int         `json:"parallelism"`
	Completions             int         `json:"completions"`
	BackoffLimit            int         `json:"backoffLimit"`
	PodReplacementPolicy    string      `json:"podReplacementPolicy,omitempty"`
	PodFailurePolicy        *podFailure `json:"podFailurePolicy,omitempty"`
	ActiveDeadlineSeconds   int64       `json:"activeDeadlineSeconds,omitempty"`
	TTLSecondsAfterFinished int         `json:"ttlSecondsAfterFinished"`
	Suspend                 bool        `json:"suspend,omitempty"`
	Template                podTemplate `json:"template"`
}

// A podFailure decides what a pod's failure means for its Job.
type podFailure struct {
	Rules []failureRule `json:"rules"`
}

type failureRule struct {
	Action          string         `json:"action"`
	OnPodConditions []podCondition `json:"onPodConditions"`
}

type podCondition struct {
	Type   string `json:"type"`
	Status string `json:"status"`
}

type podTemplate struct {
	Metadata meta    `json:"metadata"`
	Spec     podSpec `json:"spec"`
}

type jobStatus struct {
	Active     int         `json:"active,omitempty"`
	Succeeded  int         `json:"succeeded,omitempty"`
	Failed     int         `json:"failed,omitempty"`
	StartTime  time.Time   `json:"startTime,omitzero"`
	Conditions []condition `json:"conditions,omitempty"`
}

type condition struct {
	Type               string    `json:"type"`
	Status             string    `json:"status"`
	Reason             string    `json:"reason,omitempty"`
	Message            string    `json:"message,omitempty"`
	LastTransitionTime time.Time `json:"lastTransitionTime,omitzero"`
}

// A secret holds what a node starts with. Data are base64 in JSON.
type secret struct {
	APIVersion string            `json:"apiVersion"`
	Kind       string            `json:"kind"`
	Metadata   meta              `json:"metadata"`
	Type       string            `json:"type"`
	Data       map[string][]byte `json:"data"` //secretvet:ignore nothing formats it
}

type node struct {
	Metadata meta       `json:"metadata"`
	Spec     nodeSpec   `json:"spec"`
	Status   nodeStatus `json:"status"`
}

type nodeSpec struct {
	Unschedulable bool    `json:"unschedulable,omitempty"`
	Taints        []taint `json:"taints,omitempty"`
}

type nodeStatus struct {
	Allocatable map[string]string `json:"allocatable"`
	Conditions  []condition       `json:"conditions"`
}

type taint struct {
	Key    string `json:"key"`
	Value  string `json:"value,omitempty"`
	Effect string `json:"effect"`
}

type event struct {
	InvolvedObject involved  `json:"involvedObject"`
	Reason         string    `json:"reason"`
	Message        string    `json:"message"`
	LastTimestamp  time.Time `json:"lastTimestamp,omitzero"`
	EventTime      time.Time `json:"eventTime,omitzero"`
}

type involved struct {
	Kind string `json:"kind"`
	Name string `json:"name"`
}

// A status is the API's answer to a failed call.
type status struct {
	Kind    string        `json:"kind"`
	Status  string        `json:"status"`
	Message string        `json:"message"`
	Reason  string        `json:"reason"`
	Code    int           `json:"code"`
	Details statusDetails `json:"details,omitzero"`
}

type statusDetails struct {
	RetryAfterSeconds int `json:"retryAfterSeconds,omitempty"`
}

// find returns the condition of a type, or the zero condition.
func find(all []condition, kind string) condition {
	for _, c := range all {
		if c.Type == kind {
			return c
		}
	}
	return condition{}
}
