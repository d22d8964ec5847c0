package scaleway

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/gputrain/gputrain/internal/launches"
	"github.com/gputrain/gputrain/providers/internal/cloud"
)

// End ends a server and then its volumes, which a server only lets go of. They are found
// by their tag as well, so that it can be asked to again when the server is gone.
func (a *api) End(ctx context.Context, id string) error {
	zone, uuid, err := split(id)
	if err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(ctx, 300*cloud.Second)
	defer cancel()
	ids, err := a.endServer(ctx, zone, uuid)
	gone := err
	if err != nil && !isGone(err) {
		return err
	}
	marked, err := a.client.volumes(ctx, zone, serverTag+uuid)
	if err != nil {
		return err
	}
	for _, v := range marked {
		if !slices.Contains(ids, v.ID) {
			ids = append(ids, v.ID)
		}
	}
	a.keys.forget(uuid)
	if err := a.deleteVolumes(ctx, zone, ids); err != nil || len(ids) > 0 {
		return err
	}
	return gone
}

// endServer ends a server, waits until it is gone, and returns what volumes it had.
func (a *api) endServer(ctx context.Context, zone, uuid string) (volumes []string, err error) {
	for looks, asked := 0, false; ; looks++ {
		s, err := a.client.server(ctx, zone, uuid)
		if err != nil {
			if looks > 0 && isGone(err) {
				err = nil
			}
			return volumes, err
		}
		if looks == 0 { // again, as what broke off may not have
			// What was started was marked before, and goes on costing more than its volume.
			if err := a.markVolumes(ctx, zone, s); err != nil && s.State == "stopped" {
				return nil, err
			}
			volumes = s.ownVolumes()
		}
		switch {
		case s.State == "stopped":
			err = a.client.deleteServer(ctx, zone, uuid)
		case !asked && s.State != "stopping":
			err = a.client.terminate(ctx, zone, uuid)
			if _, refused := cloud.Answered(err); refused && s.State == "stopped in place" { // it may be for what runs alone
				err = a.client.powerOff(ctx, zone, uuid)
			}
			asked = err == nil
		}
		if err != nil && !isBusy(err) && !isGone(err) {
			return volumes, err
		}
		if !launches.Pause(ctx, cmp.Or(time.Duration(min(looks, 2)), 1)*cloud.Second) {
			return volumes, fmt.Errorf("the server is %s and not gone yet: %w", s.State, context.Cause(ctx))
		}
	}
}
