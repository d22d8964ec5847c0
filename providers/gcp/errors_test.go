package gcp

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/url"
	"slices"
	"strings"
	"testing"

	"google.golang.org/api/googleapi"

	"github.com/gputrain/gputrain/providers/driver"
)

func refusal(status int, reason, message string) error {
	return fmt.Errorf("instances.insert: %w", &googleapi.Error{Code: status, Message: message, Errors: []googleapi.ErrorItem{{Reason: reason, Message: message}}})
}

func TestKinds(t *testing.T) {
	t.Parallel()
	detailed := &googleapi.Error{Code: 403, Message: "Compute Engine API has not been used", Details: []any{map[string]any{"@type": "type.googleapis.com/google.rpc.ErrorInfo", "reason": "SERVICE_DISABLED"}}}
	for name, test := range map[string]struct {
		err  error
		kind error
		hint string
	}{
		"wrong token":    {refusal(401, "authError", "Invalid Credentials"), driver.ErrAuth, "permissions"},
		"forbidden":      {refusal(403, "forbidden", "Required 'compute.instances.create' permission"), driver.ErrAuth, "permissions"},
		"not enabled":    {refusal(403, "accessNotConfigured", "Access Not Configured."), driver.ErrAuth, "gcloud services enable"},
		"disabled":       {detailed, driver.ErrAuth, "gcloud services enable"},
		"rate":           {refusal(403, "rateLimitExceeded", "Rate Limit Exceeded"), driver.ErrRateLimited, "try again"},
		"user's rate":    {refusal(403, "userRateLimitExceeded", "User Rate Limit Exceeded"), driver.ErrRateLimited, ""},
		"429":            {refusal(429, "", "Too many"), driver.ErrRateLimited, ""},
		"quota":          {refusal(403, "quotaExceeded", "Quota 'NVIDIA_L4_GPUS' exceeded. Limit: 1.0 in region us-central1."), driver.ErrQuota, "iam-admin/quotas"},
		"new project":    {refusal(403, "quotaExceeded", "Quota 'GPUS_ALL_REGIONS' exceeded. Limit: 0.0 globally."), driver.ErrQuota, "a new project"},
		"not ready":      {refusal(400, "resourceNotReady", "The resource is not ready"), driver.ErrUnavailable, ""},
		"invalid":        {refusal(400, "invalid", "Invalid value for field"), driver.ErrInvalid, ""},
		"no such type":   {refusal(404, "notFound", "The resource 'projects/p/zones/z/machineTypes/g2' was not found"), driver.ErrNoCapacity, ""},
		"no such GPU":    {refusal(400, "invalid", "Invalid value for field 'acceleratorType': 'projects/p/zones/z/acceleratorTypes/t4'. The referenced resource does not exist."), driver.ErrNoCapacity, ""},
		"no such image":  {refusal(404, "notFound", "The resource 'projects/p/global/images/i' was not found"), driver.ErrNotFound, ""},
		"org policy":     {refusal(412, "conditionNotMet", "Constraint constraints/compute.vmExternalIpAccess violated"), driver.ErrUnsupported, "organisation"},
		"conflict":       {refusal(409, "alreadyExists", "exists"), driver.ErrUnavailable, ""},
		"server":         {refusal(503, "backendError", "Backend Error"), driver.ErrUnavailable, ""},
		"network":        {&url.Error{Op: "Get", URL: "https://x/y?filter=z", Err: &net.OpError{Op: "dial", Err: errors.New("refused")}}, driver.ErrUnavailable, ""},
		"odd answer":     {fmt.Errorf("%w: no list", errAnswer), driver.ErrUnavailable, ""},
		"key refused":    {&tokenError{text: "invalid_grant", refused: true}, driver.ErrAuth, "credentials"},
		"no token now":   {&tokenError{text: "503"}, driver.ErrUnavailable, ""},
		"operation":      {&operationError{"operation-1", &googleapi.Error{Code: 400, Errors: []googleapi.ErrorItem{{Reason: "ODD", Message: "no"}}}}, driver.ErrInvalid, ""},
		"operation, 500": {&operationError{"operation-1", &googleapi.Error{Code: 500, Errors: []googleapi.ErrorItem{{Reason: "INTERNAL_ERROR", Message: "no"}}}}, driver.ErrUnavailable, ""},
	} {
		err := fail("launch", test.err)
		var e *driver.Error
		if !errors.As(err, &e) || e.Kind != test.kind || !strings.Contains(e.Hint, test.hint) {
			t.Errorf("%s: %v (%q); want %v with a hint of %q", name, err, e.Hint, test.kind, test.hint)
		}
	}
	if fail("launch", nil) != nil {
		t.Error("nil is an error")
	}
}

// No error shows a token that a server echoes, or the query of a call.
func TestClean(t *testing.T) {
	t.Parallel()
	redact := strings.NewReplacer("s3cret", "[redacted]").Replace
	echo := &googleapi.Error{Code: 400, Message: "bad s3cret", Body: `{"token":"s3cret"}` + strings.Repeat("x", 1<<20), Errors: []googleapi.ErrorItem{{Reason: "invalid", Message: "s3cret"}},
		Details: []any{map[string]any{"reason": "ODD", "token": "s3cret"}}}
	for name, err := range map[string]error{
		"answer":  clean(echo, redact),
		"token":   clean(&url.Error{Op: "Get", URL: "https://x", Err: &tokenError{text: "the server says s3cret"}}, redact),
		"network": clean(&url.Error{Op: "Get", URL: "https://x/y?key=s3cret", Err: errors.New("refused")}, redact),
		"decode":  clean(errors.New("unexpected token s3cret"), redact),
	} {
		if text := fmt.Sprintf("%+v", err); strings.Contains(text, "s3cret") || len(text) > 1<<13 {
			t.Errorf("%s: %.200s", name, text)
		}
		if e, ok := err.(*googleapi.Error); ok && strings.Contains(fmt.Sprintf("%+v", *e), "s3cret") {
			t.Errorf("%s: %.200s", name, e.Body)
		}
	}
	if said := words(clean(echo, redact)); !slices.Contains(strings.Split(said, "\n"), "odd") {
		t.Errorf("the reason is lost: %q", said)
	}
	if err := clean(&url.Error{Op: "Get", URL: "https://x", Err: context.Canceled}, redact); !errors.Is(err, context.Canceled) {
		t.Error(err)
	}
}
