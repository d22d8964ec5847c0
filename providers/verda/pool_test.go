package verda

import (
	"context"
	"net"
	"testing"

	"github.com/gputrain/gputrain"
	"github.com/gputrain/gputrain/accelerators"
	"github.com/gputrain/gputrain/internal/test/fakecloud"
	"github.com/gputrain/gputrain/providers/driver"
	"github.com/gputrain/gputrain/providers/internal/cloudtest"
)

// A dialed provider's machines are reached by fakecloud.Dial, as Verda knows no port but 22.
type dialed struct{ Config }

func (p dialed) Open(ctx context.Context) (driver.Driver, error) {
	d, err := p.Config.Open(ctx)
	if err != nil {
		return nil, err
	}
	return dialedDriver{d.(*verdaDriver)}, nil
}

type dialedDriver struct{ *verdaDriver }

func (dialedDriver) Dial(ctx context.Context, in driver.Instance) (net.Conn, error) {
	return fakecloud.Dial(ctx, in.SSH.Addr)
}

var h100 = gputrain.Spec{Accelerator: accelerators.H100()}

func TestPool(t *testing.T) {
	t.Parallel()
	f := startFake(t)
	cloudtest.Broadcast(t, dialed{f.config()}, h100, nil)
	if left := f.everything(); len(left) > 0 {
		t.Errorf("left: %v", left)
	}
}

// A pool whose calls fail in many ways still opens and closes, makes nothing twice, and leaves
// no volume.
func TestPoolUnderFaults(t *testing.T) {
	t.Parallel()
	f := startFake(t)
	f.leaves = "detached"
	for _, fault := range []fakecloud.Fault{
		{Op: opTypes, Answer: failure(500, "server_error", "try again")},
		{Op: opToken, Answer: failure(500, "server_error", "try again")},
		{Op: opAddKey, After: true, Cut: true},
		{Op: opCreate, After: true, Cut: true},
		{Op: opCreate, Answer: failure(503, "service_unavailable", "No capacity available")},
		{Op: opList, Lag: fakecloud.Lag{Calls: 2}, Times: 2},
		{Op: opGet, Answer: failure(401, "unauthorized_request", "The token has expired")},
		{Op: opAct, Answer: fakecloud.Failure(429, row{"code": "rate_limit_exceeded", "message": "slow down"}, "")},
		{Op: opAct, After: true, Cut: true},
		{Op: opDelVolume, After: true, Cut: true},
		{Op: opDelKey, Answer: failure(502, "", "")},
	} {
		f.Inject(fault)
	}
	cloudtest.Broadcast(t, dialed{f.config()}, h100, func(*gputrain.Compute) {
		machines := 0
		for _, r := range f.everything() {
			if r.Kind == "machine" {
				machines++
			}
		}
		if machines != 2 {
			t.Errorf("%v", f.everything())
		}
	})
	if left := f.everything(); len(left) > 0 {
		t.Errorf("left: %v", left)
	}
}
