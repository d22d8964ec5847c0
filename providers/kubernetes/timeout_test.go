package kubernetes

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/gputrain/gputrain/internal/test/fakecloud"
	"github.com/gputrain/gputrain/providers/driver"
)

// RequestTimeout bounds each try of each call: a server that never answers ends Open by itself.
func TestRequestTimeout(t *testing.T) {
	t.Parallel()
	f := startFake(t)
	never := make(chan struct{})
	t.Cleanup(func() { close(never) })
	f.Inject(fakecloud.Fault{Times: -1, Hold: never})
	cfg := f.config()
	cfg.RequestTimeout = time.Second
	ctx, cancel := context.WithTimeout(t.Context(), 2*time.Minute) // each of several tries may take 30 seconds by default
	defer cancel()
	if _, err := cfg.Open(ctx); !errors.Is(err, driver.ErrUnavailable) || ctx.Err() != nil {
		t.Errorf("%v, %v", err, ctx.Err())
	}
}
