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

func TestKinds(t *testing.T) {
	t.Parallel()
	detailed := &googleapi.Error{Code: 403, Message: "Compute Engine API has not been used", Details: []any{map[string]any{"@type": "type.googleapis.com/google.rpc.ErrorInfo", "reason": "SERVICE_DISABLED"}}}
	for name, test := range map[string]struct {
		err  error
		kind error
		hint string
	}{
		"disabled":       {detailed, driver.ErrAuth, "gcloud services enable"},
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
