package cloud_test

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/gputrain/gputrain/internal/rest"
	"github.com/gputrain/gputrain/providers/driver"
	"github.com/gputrain/gputrain/providers/internal/cloud"
)

// answered returns the error of a call that is answered with a status.
func answered(t *testing.T, method string, status int) error {
	t.Helper()
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("X-Request-Id", "req-1")
		w.WriteHeader(status)
	}))
	defer server.Close()
	client, err := rest.New(rest.Config{BaseURL: server.URL, Attempts: 1, FirstWait: time.Millisecond})
	if err != nil {
		t.Fatal(err)
	}
	defer client.Close()
	var out map[string]any
	if err = client.Do(t.Context(), method, "/x", nil, &out); err == nil {
		t.Fatalf("%s is answered well with %d", method, status)
	}
	return err
}

func TestStatusKind(t *testing.T) {
	for _, tt := range []struct {
		method   string
		status   int
		kind     error
		answered bool
	}{
		{"GET", 400, driver.ErrInvalid, true}, {"POST", 422, driver.ErrInvalid, true}, {"POST", 405, driver.ErrInvalid, true},
		{"GET", 401, driver.ErrAuth, true}, {"POST", 403, driver.ErrAuth, true},
		{"POST", 402, driver.ErrBalance, true},
		{"GET", 404, driver.ErrNotFound, true}, {"DELETE", 410, driver.ErrNotFound, true},
		{"POST", 409, driver.ErrUnavailable, true}, {"POST", 429, driver.ErrRateLimited, true},
		{"GET", 500, driver.ErrUnavailable, true}, {"POST", 500, driver.ErrUnavailable, false}, {"DELETE", 503, driver.ErrUnavailable, false},
		{"POST", 200, driver.ErrUnavailable, false}, {"POST", 418, nil, true},
		{"GET", 307, driver.ErrUnavailable, true}, {"POST", 302, driver.ErrUnavailable, false},
	} {
		err := fmt.Errorf("a machine: %w", answered(t, tt.method, tt.status))
		if got := cloud.StatusKind(err); got != tt.kind {
			t.Errorf("%s answered with %d: %v, want %v", tt.method, tt.status, got, tt.kind)
		}
		if e, ok := cloud.Answered(err); ok != tt.answered || e == nil || e.Status != tt.status {
			t.Errorf("%s answered with %d: Answered = %+v, %v", tt.method, tt.status, e, ok)
		}
	}
	for _, tt := range []struct{ err, kind error }{
		{errors.New("odd"), nil},
		{fmt.Errorf("%w: a spec", driver.ErrInvalid), driver.ErrInvalid},
		{fmt.Errorf("page 2: %w", rest.ErrAnswer), driver.ErrUnavailable},
		{context.Canceled, driver.ErrUnavailable}, {fmt.Errorf("x: %w", context.DeadlineExceeded), driver.ErrUnavailable},
	} {
		if got := cloud.StatusKind(tt.err); got != tt.kind {
			t.Errorf("%v: %v, want %v", tt.err, got, tt.kind)
		}
		if e, ok := cloud.Answered(tt.err); ok {
			t.Errorf("%v is answered: %+v", tt.err, e)
		}
	}
}

// A good status with an unreadable body is no refusal: it may be a gateway's page.
func TestOddAnswerIsNoRefusal(t *testing.T) {
	for name, body := range map[string]string{"a page": "<html>", "empty": "", "cut": `{"id":`, "another shape": "[7]"} {
		api := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { w.Write([]byte(body)) }))
		defer api.Close()
		c, err := rest.New(rest.Config{BaseURL: api.URL, Attempts: 1})
		if err != nil {
			t.Fatal(err)
		}
		defer c.Close()
		var out struct{ ID string }
		for _, call := range []error{
			c.Do(t.Context(), "GET", "/", nil, &out), c.Do(t.Context(), "POST", "/", nil, &out, rest.Safe), c.Do(t.Context(), "POST", "/", nil, &out),
		} {
			if _, refused := cloud.Answered(call); refused || cloud.StatusKind(call) != driver.ErrUnavailable {
				t.Errorf("%s: refused %v, %v: %v", name, refused, cloud.StatusKind(call), call)
			}
		}
	}
}

func TestFail(t *testing.T) {
	words := func(op string, err error) (string, error) {
		switch {
		case strings.Contains(err.Error(), "sold out"):
			return "take another for " + op, driver.ErrNoCapacity
		case strings.Contains(err.Error(), "401"):
			return "look at the key", nil
		}
		return "", nil
	}
	if err := cloud.Fail("acme", "launch", nil, words); err != nil {
		t.Error(err)
	}
	hinted := &driver.Error{Kind: driver.ErrNoOffers, Hint: "relax", Err: errors.New("none")}
	for name, tt := range map[string]struct {
		err  error
		kind error
		hint string
		text string
		id   string
	}{
		"the cloud's words":             {errors.New("sold out"), driver.ErrNoCapacity, "take another for launch", "sold out", ""},
		"the status, and a hint":        {answered(t, "GET", 401), driver.ErrAuth, "look at the key", "401", "req-1"},
		"neither":                       {errors.New("odd"), nil, "", "odd", ""},
		"a kind that is known":          {hinted, driver.ErrNoOffers, "relax", "none", ""},
		"a kind that is known, wrapped": {fmt.Errorf("p1-0: %w", hinted), driver.ErrNoOffers, "relax", "p1-0", ""},
	} {
		e, ok := errors.AsType[*driver.Error](cloud.Fail("acme", "launch", tt.err, words))
		if !ok || e.Provider != "acme" || e.Op != "launch" || e.Kind != tt.kind || e.Hint != tt.hint || e.RequestID != tt.id || !strings.Contains(e.Error(), tt.text) {
			t.Errorf("%s: %+v", name, e)
		}
	}
	formed := cloud.Fail("acme", "offers", hinted, words)
	if again := cloud.Fail("acme", "launch", formed, words); again != formed {
		t.Errorf("what has its form gets another: %v", again)
	}
}

// Form asks the provider for kind and hint only if the error has none, and shows a hint once.
func TestForm(t *testing.T) {
	told := func(error) driver.Error {
		return driver.Error{Kind: driver.ErrQuota, Hint: "ask for more", RequestID: "req-7"}
	}
	known := &driver.Error{Kind: driver.ErrNoOffers, Hint: "relax", Err: errors.New("none")}
	formed := &driver.Error{Provider: "acme", Op: "offers", Err: errors.New("formed")}
	for _, tt := range []struct {
		err  error
		want string
	}{
		{errors.New("too many"), "acme: launch: " + driver.ErrQuota.Error() + ": too many (request req-7); ask for more"},
		{known, "acme: launch: " + driver.ErrNoOffers.Error() + ": none; relax"},
		{fmt.Errorf("p1-0: %w", known), "acme: launch: p1-0: " + driver.ErrNoOffers.Error() + ": none; relax"},
		{fmt.Errorf("p1-0: %w", formed), "p1-0: acme: offers: formed"},
	} {
		if err := cloud.Form("acme", "launch", tt.err, told); err.Error() != tt.want || !errors.Is(err, tt.err) && tt.err != error(known) {
			t.Errorf("%v; want %s", err, tt.want)
		}
	}
	if err := cloud.Form("acme", "launch", nil, told); err != nil {
		t.Error(err)
	}
}
