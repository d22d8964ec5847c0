package scaleway

import (
	"context"
	"errors"
	"fmt"
	"sync"

	"github.com/gputrain/gputrain/internal/retry"
	"github.com/gputrain/gputrain/providers/driver"
	"github.com/gputrain/gputrain/providers/internal/cloud"
)

const (
	// startTries bounds the start requests that are answered with success.
	startTries = 3
	// A promised start is requested again after startLooks looks, one each second, that show
	// the server stopped.
	startLooks = 5
)

// boot starts a server, and returns once it is starting. A start that is refused, or accepted
// and not begun, is an error at once: the server would stay stopped, and its volume is billed.
func (a *api) boot(ctx context.Context, zone, uuid string) error {
	for range startTries {
		promised, failed := a.client.act(ctx, zone, uuid, powerOn)
		looks := 1
		if promised {
			looks = startLooks
		}
		for range looks {
			s, err := a.client.server(ctx, zone, uuid)
			switch {
			case err != nil && failed != nil:
				return failed
			case err != nil:
				return nil // Describe reports the outcome
			case a.starts.note(s):
				return &driver.Error{Kind: driver.ErrNoCapacity, Err: errors.New(fellBack(s)), Hint: hints[driver.ErrNoCapacity]}
			case s.State != "stopped": // even if this start was refused, or its answer was lost
				return nil
			case failed != nil:
				return failed
			case !retry.Sleep(ctx, cloud.Second):
				return context.Cause(ctx)
			}
		}
	}
	return &driver.Error{Kind: driver.ErrUnavailable, Err: fmt.Errorf("its start was accepted %d times, but the server is still stopped", startTries)}
}

// starts are the servers that were seen to start, by UUID. If one of them is stopped, its start
// has failed. Other stopped servers may not have begun to start.
type starts struct {
	mu   sync.Mutex
	seen map[string]bool
}

// note records a server's state, and reports whether the server has fallen back from its start.
func (st *starts) note(s server) (fell bool) {
	st.mu.Lock()
	defer st.mu.Unlock()
	switch s.State {
	case "starting":
		if st.seen == nil {
			st.seen = map[string]bool{}
		}
		st.seen[s.ID] = true
	case "running": // it may be stopped later for other reasons
		delete(st.seen, s.ID)
	}
	return s.State == "stopped" && st.seen[s.ID]
}

func (st *starts) forget(uuid string) {
	st.mu.Lock()
	defer st.mu.Unlock()
	delete(st.seen, uuid)
}

// fellBack describes a failed start.
func fellBack(s server) string {
	why := "it was starting, and is stopped again: its start has failed, for example for lack of room"
	if s.StateDetail != "" {
		why += ": " + s.StateDetail
	}
	return why
}
