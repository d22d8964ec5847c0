package recovery

import (
	"context"
	"errors"
	"net"
	"strings"
	"testing"

	"github.com/gputrain/gputrain"
	"github.com/gputrain/gputrain/providers/driver"
	"github.com/gputrain/gputrain/providers/local"
)

// A finder is a provider whose machines report their private addresses by a script.
type finder struct {
	gputrain.Provider
	text string
}

func (f finder) Open(ctx context.Context) (driver.Driver, error) {
	d, err := f.Provider.Open(ctx)
	if err != nil {
		return nil, err
	}
	return &finderDriver{d, d.(driver.Dialer), d.(driver.Scripter), f.text}, nil
}

type finderDriver struct {
	driver.Driver
	driver.Dialer
	driver.Scripter
	text string
}

func (d *finderDriver) Scripts(in driver.Instance) driver.Scripts {
	s := d.Scripter.Scripts(in)
	s.FindAddress = d.text
	return s
}

func (d *finderDriver) Dial(ctx context.Context, in driver.Instance) (net.Conn, error) {
	return d.Dialer.Dial(ctx, in)
}

// The other nodes receive the address that a machine reports.
func TestAddressThatOnlyTheMachineKnows(t *testing.T) {
	for text, want := range map[string]string{
		`[ -n "$HOME" ] && echo " 10.0.0.7"`: "10.0.0.7",
		"echo fd00::7":                       "fd00::7",
		"true":                               "127.0.0.1", // the address from the driver
		"":                                   "127.0.0.1",
	} {
		t.Run(text, func(t *testing.T) {
			pool, err := gputrain.Open(t.Context(), finder{local.Config{}, text}, gputrain.Spec{}, gputrain.WithStateDir(t.TempDir()))
			if err != nil {
				t.Fatal(err)
			}
			defer pool.Close()
			results, err := pool.Broadcast(gputrain.Script("echo $GPUTRAIN_MASTER_ADDR"))
			if err != nil || len(results) != 1 || strings.TrimSpace(string(results[0].Stdout)) != want || pool.Nodes()[0].PrivateAddr != want {
				t.Errorf("%+v, %v, %+v; want %s", results, err, pool.Nodes(), want)
			}
		})
	}
	pool, err := gputrain.Open(t.Context(), finder{local.Config{}, "echo eth0"}, gputrain.Spec{}, gputrain.WithStateDir(t.TempDir()))
	if err == nil {
		pool.Close()
	}
	if e := (*gputrain.Error)(nil); !errors.As(err, &e) || !strings.Contains(err.Error(), `"eth0", which is no IP address`) {
		t.Errorf("an interface is no address: %v", err)
	}
}
