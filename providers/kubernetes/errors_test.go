package kubernetes

import (
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/gputrain/gputrain/internal/test/fakecloud"
	"github.com/gputrain/gputrain/providers/driver"
	"github.com/gputrain/gputrain/providers/internal/cloudtest"
)

// The table of the API's failures, as answers to the making of a Job, or to a list.
func TestFailures(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		code          int
		reason, words string
		kind          error
		hint          string
	}{
		{401, "Unauthorized", "Unauthorized", driver.ErrAuth, "log in"},
		{403, "Forbidden", `jobs.batch is forbidden: User "me" cannot create resource "jobs"`, driver.ErrAuth, "role.yaml"},
		{403, "Forbidden", "jobs.batch \"x\" is forbidden: exceeded quota: jobs, requested: count/jobs.batch=1, used: 9, limited: 9", driver.ErrQuota, "larger quota"},
		{403, "Forbidden", "pods \"x\" is forbidden: failed quota: q: must specify limits.memory", driver.ErrInvalid, "Spec.MemoryGiB"},
		{403, "Forbidden", `pods "x" is forbidden: violates PodSecurity "restricted:latest"`, driver.ErrInvalid, "Unprivileged"},
		{403, "Forbidden", `admission webhook "policy" denied the request: no latest tag`, driver.ErrInvalid, "Image"},
		{403, "Forbidden", "unable to create new content in namespace lab because it is being terminated", driver.ErrInvalid, "is being deleted"},
		{404, "NotFound", `namespaces "lab" not found`, driver.ErrInvalid, "set Namespace"},
		{400, "BadRequest", "strict decoding error: unknown field \"spec.x\"", driver.ErrInvalid, "names the field"},
		{422, "Invalid", "Job.batch \"x\" is invalid: spec.template", driver.ErrInvalid, "names the field"},
		{429, "TooManyRequests", "the server has received too many requests", driver.ErrRateLimited, ""},
		{500, "InternalError", "etcdserver: request timed out", driver.ErrUnavailable, ""},
		{500, "InternalError", `failed calling webhook "policy": connection refused`, driver.ErrUnavailable, "webhook of the cluster does not answer"},
		{503, "ServiceUnavailable", "the server is currently unable to handle the request", driver.ErrUnavailable, ""},
		{504, "Timeout", "the server was unable to return a response in the time allotted", driver.ErrUnavailable, ""},
	} {
		f := startFake(t)
		d := cloudtest.Prepared(t, f.config())
		o := cloudtest.AllOffers(t, d, oneA100.Query())[0]
		answer := failure(tt.code, tt.reason, tt.words)
		fault := f.Inject(fakecloud.Fault{Op: opMakeJob, Times: -1, Answer: answer})
		_, launch := d.Launch(t.Context(), cloudtest.Request(t, oneA100.Query(), o, 0))
		fault.Remove()
		f.Inject(fakecloud.Fault{Op: opJobs, Times: -1, Answer: answer})
		_, list := d.List(t.Context(), "p1")
		for op, err := range map[string]error{"launch": launch, "list": list} {
			open := op == "launch" && tt.code >= 500 // another hint: it may have been made
			if !errors.Is(err, tt.kind) || !strings.Contains(err.Error(), tt.hint) && !open {
				t.Errorf("%s, %d %q: %v; want %v, %q", op, tt.code, tt.words, err, tt.kind, tt.hint)
			}
			cloudtest.Is(t, err, tt.kind, providerName, op, testToken)
		}
	}
}

// A body may say how long to wait.
func TestRetryAfterInTheBody(t *testing.T) {
	t.Parallel()
	got := faultOf(429, []byte(`{"kind": "Status", "reason": "TooManyRequests", "message": "wait", "details": {"retryAfterSeconds": 7}}`))
	if got == nil || got.RetryAfter != 7*time.Second || got.Message != "wait" {
		t.Errorf("%+v", got)
	}
	for _, body := range []string{"", "<html>", `{"kind": "Pod"}`, "[]"} {
		if got := faultOf(404, []byte(body)); got != nil {
			t.Errorf("%q: %+v", body, got)
		}
	}
	if got := faultOf(200, []byte(`{"kind": "Status"}`)); got != nil {
		t.Errorf("of a success: %+v", got)
	}
}
