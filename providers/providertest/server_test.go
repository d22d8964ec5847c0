package providertest

import (
	"context"
	"errors"
	"io"
	"net/http"
	"testing"
	"time"

	"github.com/gputrain/gputrain/internal/test/fakecloud"
)

// Each kind of fault has its effect on a client, and no effect once it is removed.
func TestOnServer(t *testing.T) {
	const path = "/api/v1/instances"
	api := fakecloud.Start(t, fakecloud.Config{Contracts: []fakecloud.Contract{fakecloud.Unchecked("GET " + path)}})
	handled := 0 // the server's lock guards it
	done := func() (n int) {
		api.Do(func() { n = handled })
		return n
	}
	api.Handle("GET "+path, func(*fakecloud.Call) fakecloud.Answer {
		handled++
		return fakecloud.Reply(200, map[string]any{"data": []any{}})
	})
	fault, calls := OnServer(api, map[Op][]string{OpList: {"GET " + path}})
	client := http.Client{Transport: &http.Transport{DisableKeepAlives: true}}
	get := func(ctx context.Context) (status, size int, after string, err error) {
		r, err := http.NewRequestWithContext(ctx, "GET", api.URL+path, nil)
		if err != nil {
			t.Fatal(err)
		}
		resp, err := client.Do(r)
		if err != nil {
			return 0, 0, "", err
		}
		defer resp.Body.Close()
		body, err := io.ReadAll(resp.Body)
		return resp.StatusCode, len(body), resp.Header.Get("Retry-After"), err
	}
	well := func(what string) {
		t.Helper()
		if status, size, _, err := get(t.Context()); status != 200 || size != len(`{"data":[]}`) || err != nil {
			t.Errorf("%s: %d, %d bytes, %v", what, status, size, err)
		}
	}

	for _, tt := range []struct {
		f          Fault
		status     int
		least      int // bytes
		retryAfter string
	}{
		{Fault{Kind: Failed}, 500, 1, ""},
		{Fault{Kind: Unavailable}, 503, 1, ""},
		{Fault{Kind: RateLimited}, 429, 1, ""},
		{Fault{Kind: RateLimited, RetryAfter: 3 * time.Second}, 429, 1, "3"},
		{Fault{Kind: Cut}, 0, 0, ""},
		{Fault{Kind: Cut, After: true}, 0, 0, ""},
		{Fault{Kind: Garbage}, 200, 1, ""},
		{Fault{Kind: HTML, After: true}, 200, 1, ""},
		{Fault{Kind: Astray}, 404, 1, ""},
		{Fault{Kind: Empty}, 200, 0, ""},
		{Fault{Kind: Huge}, 200, 64 << 20, ""},
	} {
		before := done()
		remove := fault(OpList, tt.f)
		status, size, after, err := get(t.Context())
		if status != tt.status || size < tt.least || after != tt.retryAfter || (err != nil) != (tt.f.Kind == Cut) {
			t.Errorf("%v: status %d, %d bytes, Retry-After %q, %v", tt.f, status, size, after, err)
		}
		if did := done() > before; did != tt.f.After {
			t.Errorf("%v: it was done: %v", tt.f, did)
		}
		well("the next call")
		remove()
		remove()
	}

	remove := fault(AnyOp, Fault{Kind: Hang, Times: -1})
	ctx, cancel := context.WithCancel(t.Context())
	before := calls(OpList)
	held := make(chan error, 1)
	go func() {
		_, _, _, err := get(ctx)
		held <- err
	}()
	for calls(OpList) == before {
		time.Sleep(time.Millisecond)
	}
	cancel()
	if err := <-held; !errors.Is(err, context.Canceled) {
		t.Errorf("a call that hangs: %v", err)
	}
	remove()
	well("after a call that hung")
	if calls(OpList) != calls(AnyOp) || calls(OpLaunch) != 0 || fault(OpLaunch, Fault{}) != nil {
		t.Errorf("%d calls of list, %d of all, %d of launch", calls(OpList), calls(AnyOp), calls(OpLaunch))
	}
}
