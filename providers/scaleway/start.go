package scaleway

import (
	"context"
	"errors"
	"fmt"
	"sync"

	"github.com/gputrain/gputrain"
	"github.com/gputrain/gputrain/internal/launches"
	"github.com/gputrain/gputrain/providers/internal/cloud"
)

const (
	// startTries is how often a start is asked for that is answered with a success.
	startTries = 3
	// startLooks is how many looks at a server, one each second, must show it stopped though its
	// start was promised, until that is asked for again.
	startLooks = 5
)

// boot starts a server, and returns once it is seen to start. A start that is refused, or answered
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
				return nil // Describe will tell what has become of it
			case a.starts.note(s):
				return &gputrain.Error{Kind: gputrain.ErrNoCapacity, Err: errors.New(fellBack(s)), Hint: hints[gputrain.ErrNoCapacity]}
			case s.State != "stopped": // also if this start was refused, or its answer was lost
				return nil
			case failed != nil:
				return failed
			case !launches.Pause(ctx, cloud.Second):
				return context.Cause(ctx)
			}
		}
	}
	return &gputrain.Error{Kind: gputrain.ErrUnavailable, Err: fmt.Errorf("its start was answered %d times, and the server is still stopped", startTries)}
}

// starts are the servers that were seen to start, by their UUIDs. One of them that is stopped has
// failed to start. Others that are stopped may not have begun.
type starts struct {
	mu   sync.Mutex
	seen map[string]bool
}

// note takes in what a server is in, and reports whether it has fallen back from its start.
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

// fellBack says what became of a start.
func fellBack(s server) string {
	why := "it was starting, and is stopped again: its start has failed, as for want of room"
	if s.StateDetail != "" {
		why += ": " + s.StateDetail
	}
	return why
}
