package scaleway

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/gputrain/gputrain"
	"github.com/gputrain/gputrain/internal/launches"
	"github.com/gputrain/gputrain/internal/rest"
	"github.com/gputrain/gputrain/providers/internal/cloud"
)

// askAgain is how long a server that was promised to end may show no sign of that until it is asked
// to end again: it is billed meanwhile.
func askAgain() time.Duration { return 10 * cloud.Second }

// absentLooks is how many requests in a row must find no server to end, while reads still show one
// that has failed, until it counts as gone.
const absentLooks = 3

// End ends a server and then its volumes, which a server only lets go of. They are found
// by their tag as well, so that it can be asked to again when the server is gone.
func (a *api) End(ctx context.Context, id string) error {
	zone, uuid, err := split(id)
	if err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(ctx, 300*cloud.Second)
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

// An ending is the end of one server, as far as it has got.
type ending struct {
	api        *api
	zone, uuid string
	volumes    []string  // that the server had
	promised   time.Time // when it was last promised to end; zero if it never was
	refused    error     // what the last request was answered after such a promise, if it was refused
	absent     int       // how many requests in a row have found no such server
}

// run ends the server and waits until it is gone. It is asked to end as often as it takes: a request
// that was answered and not done leaves it running, and billed.
func (e *ending) run(ctx context.Context) error {
	var s server // as it was last seen
	for looks := 0; ; looks++ {
		now, err := e.api.client.server(ctx, e.zone, e.uuid)
		switch {
		case err != nil && looks > 0 && isGone(err):
			return nil
		case err != nil && looks > 0 && ctx.Err() != nil:
			return e.late(ctx, s)
		case err != nil:
			return err
		}
		s = now
		if looks == 0 { // again, as what broke off may not have
			// What was started was marked before, and goes on costing more than its volume.
			if err := e.api.markVolumes(ctx, e.zone, s); err != nil && s.State == "stopped" {
				return err
			}
			e.volumes = s.ownVolumes()
		}
		if err := e.ask(ctx, s); err != nil && !isBusy(err) && !(isGone(err) && !e.isAbsent()) {
			return err
		}
		if !launches.Pause(ctx, cmp.Or(time.Duration(min(looks, 2)), 1)*cloud.Second) {
			return e.late(ctx, s)
		}
	}
}

// late is the error of a server that is there still when its time is over.
func (e *ending) late(ctx context.Context, s server) error {
	err := fmt.Errorf("the server is %s and not gone yet: %w", s.State, context.Cause(ctx))
	if e.refused != nil {
		err = fmt.Errorf("%w; it was promised to end, and then: %w", err, e.refused)
	}
	return &gputrain.Error{Kind: gputrain.ErrUnavailable, Err: err}
}

// ask asks for the end of a server in the way that its state wants, unless that is under way.
func (e *ending) ask(ctx context.Context, s server) error {
	promised, err := false, error(nil)
	switch {
	case s.State == "stopped":
		err = e.api.client.deleteServer(ctx, e.zone, e.uuid)
	case s.State == "stopping", time.Since(e.promised) < askAgain():
		return nil
	default:
		promised, err = e.api.client.act(ctx, e.zone, e.uuid, terminate, rest.Idempotent)
		if _, refused := cloud.Answered(err); refused && s.State == "stopped in place" { // it may be for what runs alone
			promised, err = e.api.client.act(ctx, e.zone, e.uuid, powerOff, rest.Idempotent)
		}
	}
	e.refused = nil
	switch _, refused := cloud.Answered(err); {
	case promised:
		e.promised = time.Now()
	case isGone(err) && states[s.State] == gputrain.InstanceFailed:
		e.absent++
		return err
	case refused && !e.promised.IsZero(): // the promised end may have begun
		e.refused, err = err, nil
	}
	e.absent = 0
	return err
}

// isAbsent reports whether the API finds no server to end, again and again, that reads still show.
func (e *ending) isAbsent() bool { return e.absent >= absentLooks }
