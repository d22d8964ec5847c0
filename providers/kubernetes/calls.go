package kubernetes

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"strings"
	"time"

	"github.com/gputrain/gputrain/internal/rest"
)

const (
	// pageSize is the length of one page of a list.
	pageSize = "500"
	// A list that changes while it is read is begun again, at most listTries times.
	listTries = 5
	// maxPages bounds a list.
	maxPages = 1000
)

func (k *cluster) jobs() string {
	return "/apis/batch/v1/namespaces/" + url.PathEscape(k.namespace) + "/jobs"
}
func (k *cluster) core(kind string) string {
	return "/api/v1/namespaces/" + url.PathEscape(k.namespace) + "/" + kind
}

// getList reads a list, page by page, and the server's time. If a page has expired, the list is
// begun again: it is never cut short.
func getList[T any](ctx context.Context, k *cluster, path, kind string, query url.Values) (all []T, now time.Time, err error) {
	for range listTries {
		all, now, err = readPages[T](ctx, k, path, kind, query)
		if e, ok := errors.AsType[*rest.Error](err); !ok || e.Status != http.StatusGone {
			return all, now, err
		}
	}
	return nil, now, err
}

func readPages[T any](ctx context.Context, k *cluster, path, kind string, query url.Values) (all []T, now time.Time, err error) {
	values := url.Values{"limit": {pageSize}}
	for key, v := range query {
		values[key] = v
	}
	for range maxPages {
		var page list[T]
		var header http.Header
		if err := k.rest.Do(ctx, http.MethodGet, path, nil, &page, rest.Query(values), rest.AnswerHeader(&header)); err != nil {
			return nil, now, err
		}
		if page.Kind != kind {
			return nil, now, odd("the list of %s is a %q", path, page.Kind)
		}
		all, now = append(all, page.Items...), serverTime(header)
		if page.Metadata.Continue == "" {
			return all, now, nil
		}
		values.Set("continue", page.Metadata.Continue)
	}
	return nil, now, odd("the list of %s has no end", path)
}

// serverTime returns the server's time, with which timestamps of objects are compared.
func serverTime(h http.Header) time.Time {
	if at, err := http.ParseTime(h.Get("Date")); err == nil {
		return at
	}
	return time.Now()
}

// selector selects the objects of a pool, or of all pools.
func selector(poolID string) url.Values {
	label := keyPool
	if poolID != "" {
		label += "=" + poolID
	}
	return url.Values{"labelSelector": {label}}
}

func (k *cluster) listJobs(ctx context.Context, poolID string) ([]job, time.Time, error) {
	return getList[job](ctx, k, k.jobs(), "JobList", selector(poolID))
}

func (k *cluster) listPods(ctx context.Context, poolID string) ([]pod, error) {
	pods, _, err := getList[pod](ctx, k, k.core("pods"), "PodList", selector(poolID))
	return pods, err
}

// podsOf lists the pods of one node (none, or one, or one that ends beside another), and the
// server's time.
func (k *cluster) podsOf(ctx context.Context, name string) ([]pod, time.Time, error) {
	return getList[pod](ctx, k, k.core("pods"), "PodList", url.Values{"labelSelector": {keyNode + "=" + name}})
}

func (k *cluster) getJob(ctx context.Context, name string) (j job, now time.Time, err error) {
	var header http.Header
	err = k.rest.Do(ctx, http.MethodGet, k.jobs()+"/"+url.PathEscape(name), nil, &j, rest.AnswerHeader(&header))
	if err == nil && j.Metadata.Name != name {
		err = odd("the Job %s is answered as %q", name, j.Metadata.Name)
	}
	return j, serverTime(header), err
}

// strict has the server refuse a field that it does not know, such as a mistake in Config.Affinity.
var strict = rest.Query(url.Values{"fieldValidation": {"Strict"}})

// makeJob is safe to repeat: the name is unique, so a second call conflicts with the first.
func (k *cluster) makeJob(ctx context.Context, j job) (made job, err error) {
	err = k.rest.Do(ctx, http.MethodPost, k.jobs(), j, &made, strict, rest.Idempotent)
	if err == nil && (made.Metadata.Name != j.Metadata.Name || made.Metadata.UID == "") {
		err = odd("the new Job %s is answered as %q", j.Metadata.Name, made.Metadata.Name)
	}
	return made, err
}

func (k *cluster) makeSecret(ctx context.Context, s secret) error {
	for _, value := range s.Data {
		k.rest.Hide(string(value))
	}
	var made struct{ Metadata meta }
	return k.rest.Do(ctx, http.MethodPost, k.core("secrets"), s, &made, strict, rest.Idempotent)
}

// annotate changes annotations of a Job.
func (k *cluster) annotate(ctx context.Context, name string, annotations map[string]string) error {
	return k.change(ctx, name, jobPatch{Metadata: &annotationsPatch{annotations}})
}

// A jobPatch is what changes of a Job.
type jobPatch struct {
	Metadata *annotationsPatch `json:"metadata,omitempty"`
	Spec     *deadlinePatch    `json:"spec,omitempty"`
}

type annotationsPatch struct {
	Annotations map[string]string `json:"annotations"`
}

type deadlinePatch struct {
	ActiveDeadlineSeconds int64 `json:"activeDeadlineSeconds"`
}

// change is safe to repeat.
func (k *cluster) change(ctx context.Context, name string, patch jobPatch) error {
	var now job
	return k.rest.Do(ctx, http.MethodPatch, k.jobs()+"/"+url.PathEscape(name), patch, &now,
		rest.Header("Content-Type", "application/merge-patch+json"), rest.Idempotent)
}

type deleteOptions struct {
	Kind               string         `json:"kind"`
	APIVersion         string         `json:"apiVersion"`
	PropagationPolicy  string         `json:"propagationPolicy"`
	GracePeriodSeconds *int64         `json:"gracePeriodSeconds,omitempty"`
	Preconditions      *preconditions `json:"preconditions,omitempty"`
}

type preconditions struct {
	UID string `json:"uid"`
}

// deleteJob removes a Job with everything that it owns. The API's default for Jobs would orphan
// its pods and Secrets.
func (k *cluster) deleteJob(ctx context.Context, name string) error {
	return k.remove(ctx, k.jobs()+"/"+url.PathEscape(name), deleteOptions{})
}

// deletePod removes a pod, within a number of seconds. Zero forgets it although it may still run.
func (k *cluster) deletePod(ctx context.Context, p pod, seconds int64) error {
	return k.remove(ctx, k.core("pods")+"/"+url.PathEscape(p.Metadata.Name),
		deleteOptions{GracePeriodSeconds: &seconds, Preconditions: &preconditions{p.Metadata.UID}})
}

func (k *cluster) remove(ctx context.Context, path string, how deleteOptions) error {
	how.Kind, how.APIVersion, how.PropagationPolicy = "DeleteOptions", "v1", "Background"
	var answer struct{ Kind string }
	return k.rest.Do(ctx, http.MethodDelete, path, how, &answer)
}

// events lists the events about an object, of a reason if one is named. The API keeps them for an hour.
func (k *cluster) events(ctx context.Context, object, reason string) ([]event, error) {
	fields := []string{"involvedObject.name=" + object}
	if reason != "" {
		fields = append(fields, "reason="+reason)
	}
	all, _, err := getList[event](ctx, k, k.core("events"), "EventList", url.Values{"fieldSelector": {strings.Join(fields, ",")}})
	return all, err
}

// listNodes lists the nodes of the cluster, or one of them.
func (k *cluster) listNodes(ctx context.Context, name string) ([]node, time.Time, error) {
	var query url.Values
	if name != "" {
		query = url.Values{"fieldSelector": {"metadata.name=" + name}}
	}
	return getList[node](ctx, k, "/api/v1/nodes", "NodeList", query)
}

// runningPods lists the pods of all namespaces that are not over.
func (k *cluster) runningPods(ctx context.Context) ([]pod, error) {
	pods, _, err := getList[pod](ctx, k, "/api/v1/pods", "PodList",
		url.Values{"fieldSelector": {"status.phase!=Succeeded,status.phase!=Failed"}})
	return pods, err
}

// odd returns the error of an answer that is not Kubernetes'.
func odd(format string, args ...any) error {
	return fmt.Errorf("%w: "+format, append([]any{rest.ErrAnswer}, args...)...)
}

// at returns when an event last happened.
func (e event) at() time.Time {
	if e.LastTimestamp.IsZero() {
		return e.EventTime
	}
	return e.LastTimestamp
}
