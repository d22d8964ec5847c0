package scaleway

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/gputrain/gputrain/internal/rest"
	"github.com/gputrain/gputrain/internal/retry"
	"github.com/gputrain/gputrain/providers/driver"
	"github.com/gputrain/gputrain/providers/internal/cloud"
)

// If a server that was promised to end shows no sign of it for askAgain, it is asked to end
// again, as it is billed meanwhile.
func askAgain() time.Duration { return 10 * cloud.Second }

// A failed server that reads still show counts as gone after absentLooks requests in a row that
// find no server to end.
const absentLooks = 3

// End ends a server and then its volumes, which a server only detaches. It finds them by their
// tag as well, so that it can be called again when the server is gone.
func (a *api) End(ctx context.Context, id string) error {
	zone, uuid, err := split(id)
	if err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(ctx, cloud.Limit(300))
	defer cancel()
	e := ending{api: a, zone: zone, uuid: uuid}
	gone := e.run(ctx)
	if gone != nil && !isGone(gone) {
		return gone
	}
	marked, err := a.client.volumes(ctx, zone, serverTag+uuid)
	if err != nil {
		return err
	}
	for _, v := range marked {
		if !slices.Contains(e.volumes, v.ID) {
			e.volumes = append(e.volumes, v.ID)
		}
	}
	a.keys.forget(uuid)
	a.starts.forget(uuid)
	if err := a.deleteVolumes(ctx, zone, e.volumes); err != nil || len(e.volumes) > 0 && !e.isAbsent() {
		return err
	}
	return gone
}

// An ending is the state of the end of one server.
type ending struct {
	api        *api
	zone, uuid string
	volumes    []string  // the server's
	promised   time.Time // the last promise to end; zero if there was none
	refused    error     // the refusal of the last request after such a promise, if any
	absent     int       // requests in a row that found no such server
}

// run ends the server and waits until it is gone. It repeats the request as often as needed: an
// accepted request that was not executed leaves the server running and billed.
func (e *ending) run(ctx context.Context) error {
	var s server // as last seen
	for looks := 0; ; looks++ {
		now, err := e.api.client.server(ctx, e.zone, e.uuid)
		switch {
		case err != nil && looks > 0 && isGone(err):
			return nil
		case isGone(err):
			return e.askUnseen(ctx)
		case err != nil && looks > 0 && ctx.Err() != nil:
			return e.late(ctx, s)
		case err != nil:
			return err
		}
		s = now
		if looks == 0 { // again, as an interrupted call may have left it undone
			// A started server was marked before, and costs more than its volume.
			if err := e.api.markVolumes(ctx, e.zone, s); err != nil && s.State == "stopped" {
				return err
			}
			e.volumes = s.ownVolumes()
		}
		if err := e.ask(ctx, s); err != nil && !isBusy(err) && !(isGone(err) && !e.isAbsent()) {
			return err
		}
		if !retry.Sleep(ctx, cmp.Or(time.Duration(min(looks, 2)), 1)*cloud.Second) {
			return e.late(ctx, s)
		}
	}
}

// askUnseen asks for the end of a server that the API does not show, which may be too new for that, in the ways of a server
// in any state.
func (e *ending) askUnseen(ctx context.Context) error {
	_, err := e.api.client.act(ctx, e.zone, e.uuid, terminate, rest.Idempotent)
	if _, refused := cloud.Answered(err); refused && !isBusy(err) { // it may be only for running servers
		return e.api.client.deleteServer(ctx, e.zone, e.uuid)
	}
	return err
}

// late returns the error of a server that still exists at the timeout.
func (e *ending) late(ctx context.Context, s server) error {
	err := fmt.Errorf("the server is %s and not gone yet: %w", s.State, context.Cause(ctx))
	if e.refused != nil {
		err = fmt.Errorf("%w; it was promised to end, and then: %w", err, e.refused)
	}
	return &driver.Error{Kind: driver.ErrUnavailable, Err: err}
}

// ask requests the end of a server as its state requires, unless that is under way.
func (e *ending) ask(ctx context.Context, s server) error {
	promised, err := false, error(nil)
	switch {
	case s.State == "stopped":
		err = e.api.client.deleteServer(ctx, e.zone, e.uuid)
	case s.State == "stopping", time.Since(e.promised) < askAgain():
		return nil
	default:
		promised, err = e.api.client.act(ctx, e.zone, e.uuid, terminate, rest.Idempotent)
		if _, refused := cloud.Answered(err); refused && s.State == "stopped in place" { // the refusal may be only for running servers
			promised, err = e.api.client.act(ctx, e.zone, e.uuid, powerOff, rest.Idempotent)
		}
	}
	e.refused = nil
	switch _, refused := cloud.Answered(err); {
	case promised:
		e.promised = time.Now()
	case isGone(err) && states[s.State] == driver.InstanceFailed:
		e.absent++
		return err
	case refused && !e.promised.IsZero(): // the promised end may have begun
		e.refused, err = err, nil
	}
	e.absent = 0
	return err
}

// isAbsent reports whether the API repeatedly finds no server to end that reads still show.
func (e *ending) isAbsent() bool { return e.absent >= absentLooks }
