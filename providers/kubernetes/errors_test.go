package kubernetes

import (
	"testing"
	"time"
)

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
