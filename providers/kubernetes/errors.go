package kubernetes

import (
	"encoding/json"
	"errors"
	"net/http"
	"strings"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"

	"github.com/gputrain/gputrain/internal/rest"
	"github.com/gputrain/gputrain/providers/driver"
	"github.com/gputrain/gputrain/providers/internal/cloud"
)

const (
	roleHint    = "ask for the rights in role.yaml of package providers/kubernetes, or run kubectl auth can-i --list"
	loginHint   = "log in to the cluster again, and see that kubectl get pods works"
	policyHint  = "set Unprivileged, or change Image or the Config's fields that the message names"
	quotaHint   = "end other work in the namespace, or ask for a larger quota"
	limitsHint  = "set Spec.VCPUs, Spec.MemoryGiB and Spec.DiskGiB: the quota wants amounts from every pod"
	pluginHint  = "install the program that the kubeconfig names, or log in with it"
	busyHint    = "other programs keep the cluster's API busy: try again in a minute"
	requestHint = "the message names the field that the cluster refuses"
)

// faultOf reads the API's own description of a failure.
func faultOf(code int, body []byte) *rest.Fault {
	if code < http.StatusBadRequest {
		return nil
	}
	var s status
	if json.Unmarshal(body, &s) != nil || s.Kind != "Status" {
		return nil
	}
	return &rest.Fault{Code: s.Reason, Message: s.Message, RetryAfter: time.Duration(s.Details.RetryAfterSeconds) * time.Second}
}

// classify returns the kind of a failure, and a hint about it.
func classify(op string, err error) (hint string, kind error) {
	if strings.Contains(err.Error(), "getting credentials: ") { // of an exec plugin, before anything is sent
		return pluginHint, driver.ErrAuth
	}
	if s, ok := errors.AsType[*apierrors.StatusError](err); ok { // of a connection that was not upgraded
		return ofStatus(op, int(s.Status().Code), string(s.Status().Reason), s.Status().Message)
	}
	e, ok := cloud.Answered(err)
	if !ok {
		return "", nil
	}
	if e.Status == http.StatusNotFound && e.Code == "" {
		return "the answer is not the API's: see that the server's address is right", driver.ErrUnavailable
	}
	return ofStatus(op, e.Status, e.Code, e.Message)
}

// ofStatus is the table of the API's failures.
func ofStatus(op string, code int, reason, message string) (hint string, kind error) {
	switch code {
	case http.StatusUnauthorized:
		return loginHint, driver.ErrAuth
	case http.StatusForbidden:
		return refused(message)
	case http.StatusNotFound:
		if strings.HasPrefix(message, "namespaces ") {
			return "make the namespace, or set Namespace", driver.ErrInvalid
		}
		return "", driver.ErrNotFound
	case http.StatusBadRequest, http.StatusUnprocessableEntity:
		if strings.Contains(message, "does not have a host assigned") {
			return "", driver.ErrUnavailable
		}
		return requestHint, driver.ErrInvalid
	case http.StatusConflict:
		return "", driver.ErrUnavailable
	case http.StatusTooManyRequests:
		return busyHint, driver.ErrRateLimited
	case http.StatusInternalServerError:
		if strings.Contains(message, "admission webhook") || strings.Contains(message, "failed calling webhook") {
			return "an admission webhook of the cluster does not answer", driver.ErrUnavailable
		}
		if strings.Contains(message, "pods \"") && strings.Contains(message, "not found") {
			return "", driver.ErrNotFound
		}
		return "", driver.ErrUnavailable
	}
	if code >= http.StatusInternalServerError {
		return "", driver.ErrUnavailable
	}
	return "", nil
}

// refused returns the kind of a refusal: by the quota, by a policy about pods, or of the right
// itself. Events about a Job that can make no pod have the same words.
func refused(message string) (hint string, kind error) {
	has := func(parts ...string) bool {
		for _, p := range parts {
			if strings.Contains(message, p) {
				return true
			}
		}
		return false
	}
	switch {
	case has("exceeded quota"):
		return quotaHint, driver.ErrQuota
	case has("failed quota"):
		return limitsHint, driver.ErrInvalid
	case has("violates PodSecurity"):
		return policyHint, driver.ErrInvalid
	case has("admission webhook", "no PriorityClass", "serviceaccount", "usage per Container", "usage per Pod", "RuntimeClass", "is forbidden: pod"):
		return policyHint, driver.ErrInvalid
	case has("because it is being terminated"):
		return "the namespace is being deleted", driver.ErrInvalid
	}
	return roleHint, driver.ErrAuth
}

// saidLast reports whether the API itself has answered the last attempt at a call with this. A call
// to delete that is repeated, because its first answer was lost, finds nothing.
func saidLast(err error, code int, reason string) bool {
	e, ok := errors.AsType[*rest.Error](err)
	if !ok {
		return false
	}
	last, ok := cloud.Answered(e.Last())
	return ok && last.Status == code && (reason == "" || last.Code == reason)
}

// isMissing reports whether the API itself says that a thing does not exist.
func isMissing(err error) bool { return saidLast(err, http.StatusNotFound, "NotFound") }

// isRefused reports whether a right is missing.
func isRefused(err error) bool { return saidLast(err, http.StatusForbidden, "") }

// isTaken reports whether a thing of that name exists.
func isTaken(err error) bool { return saidLast(err, http.StatusConflict, "AlreadyExists") }

// isStale reports whether a thing is another one than was meant.
func isStale(err error) bool { return saidLast(err, http.StatusConflict, "Conflict") }
