package providertest

import (
	"context"
	"errors"
	"fmt"
	"io"
	"iter"
	"net"
	"os"
	"os/exec"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/gputrain/gputrain"
	"github.com/gputrain/gputrain/internal/bubble"
)

// A flaw breaks one promise, which one check must see.
type flaw struct {
	name  string
	check string
	says  string // in one of the failures

	named  func(provider)
	opened func(provider, error) error
	driver func(driver) gputrain.Driver
}

// One method is replaced in each of these.
type (
	launches struct {
		driver
		launch func(context.Context, gputrain.LaunchRequest) ([]gputrain.Instance, error)
	}
	describes struct {
		driver
		describe func(context.Context, ...string) ([]gputrain.Instance, error)
	}
	lists struct {
		driver
		list func(context.Context, string) ([]gputrain.Resource, error)
	}
	offers struct {
		driver
		offers func(context.Context, gputrain.Spec) iter.Seq2[gputrain.Offer, error]
	}
	terminates struct {
		driver
		terminate func(context.Context, ...string) error
	}
	prepares struct {
		driver
		prepare func(context.Context, gputrain.PoolInfo) error
	}
	releases struct {
		driver
		release func(context.Context, gputrain.PoolInfo) error
	}
	changes struct {
		driver
		asked atomic.Int32
	}
	prints struct {
		driver
		token string
	}
	closes  struct{ driver }
	dials   struct{ driver }
	resumes struct{ driver }
	marks   struct{ driver }
	ends    struct{ driver }
)

func (d launches) Launch(ctx context.Context, r gputrain.LaunchRequest) ([]gputrain.Instance, error) {
	return d.launch(ctx, r)
}
func (d describes) Describe(ctx context.Context, ids ...string) ([]gputrain.Instance, error) {
	return d.describe(ctx, ids...)
}
func (d lists) List(ctx context.Context, pool string) ([]gputrain.Resource, error) {
	return d.list(ctx, pool)
}
func (d offers) Offers(ctx context.Context, s gputrain.Spec) iter.Seq2[gputrain.Offer, error] {
	return d.offers(ctx, s)
}
func (d terminates) Terminate(ctx context.Context, ids ...string) error {
	return d.terminate(ctx, ids...)
}
func (d prepares) Prepare(ctx context.Context, p gputrain.PoolInfo) error { return d.prepare(ctx, p) }
func (d releases) Release(ctx context.Context, p gputrain.PoolInfo) error { return d.release(ctx, p) }
func (d closes) Close() error {
	go time.Sleep(time.Hour)
	return d.driver.Close()
}
func (dials) Dial(context.Context, gputrain.Instance) (net.Conn, error) {
	here, there := net.Pipe()
	go func() {
		defer there.Close()
		io.WriteString(there, "SSH-2.0-anybody\r\n")
	}()
	return here, nil
}
func (resumes) Resume(context.Context, gputrain.PoolInfo, ...string) error {
	return errors.New("one is gone")
}
func (marks) MarkLease(context.Context, gputrain.PoolInfo, time.Time, ...string) error { return nil }
func (ends) SelfDestruct(gputrain.Instance) string                                     { return "if shutdown now" }
func (d *changes) Capabilities() gputrain.Capabilities {
	caps := d.driver.Capabilities()
	caps.Mounts = d.asked.Add(1) > 1
	return caps
}

// edited is a driver whose answers to Offers or Describe are edited.
func editedOffers(edit func(gputrain.Offer) []gputrain.Offer) func(driver) gputrain.Driver {
	return func(d driver) gputrain.Driver {
		return offers{d, func(ctx context.Context, s gputrain.Spec) iter.Seq2[gputrain.Offer, error] {
			return func(yield func(gputrain.Offer, error) bool) {
				for o, err := range d.Offers(ctx, s) {
					for _, o := range edit(o) {
						if !yield(o, err) {
							return
						}
					}
				}
			}
		}}
	}
}

func editedInstances(edit func([]gputrain.Instance) []gputrain.Instance) func(driver) gputrain.Driver {
	return func(d driver) gputrain.Driver {
		return describes{d, func(ctx context.Context, ids ...string) ([]gputrain.Instance, error) {
			got, err := d.Describe(ctx, ids...)
			return edit(got), err
		}}
	}
}

func editedLaunch(edit func(ctx context.Context, d driver, r gputrain.LaunchRequest) ([]gputrain.Instance, error)) func(driver) gputrain.Driver {
	return func(d driver) gputrain.Driver {
		return launches{d, func(ctx context.Context, r gputrain.LaunchRequest) ([]gputrain.Instance, error) {
			return edit(ctx, d, r)
		}}
	}
}

// hasty gives an ambiguous answer no time to settle.
func hasty(ctx context.Context, d driver, r gputrain.LaunchRequest) ([]gputrain.Instance, error) {
	ctx, cancel := context.WithTimeout(ctx, time.Millisecond)
	defer cancel()
	return d.Launch(ctx, r)
}

// A driver without a flaw passes every check.
func TestASoundDriver(t *testing.T) {
	RunInBubble(t, func(t *testing.T) Harness { return harness(t, flaw{}) })
}

// So does one whose pools can have one machine.
func TestOneMachine(t *testing.T) {
	one := func(ctx context.Context, d driver, r gputrain.LaunchRequest) ([]gputrain.Instance, error) {
		live := func(m gputrain.Resource) bool { return m.Kind == "machine" && m.Pool == r.Pool.ID }
		if len(r.Nodes) > 1 || slices.ContainsFunc(d.cloud.Live(), live) {
			return nil, &gputrain.Error{Provider: "sim", Op: "launch", Kind: gputrain.ErrInvalid, Err: errors.New("a pool has one machine")}
		}
		return d.Launch(ctx, r)
	}
	RunInBubble(t, func(t *testing.T) Harness {
		h := harness(t, flaw{driver: editedLaunch(one)})
		h.Machines = 1
		return h
	})
}

// Of an offer that is one machine, as on a market, a sound driver is not asked for two.
func TestOffersOfOneMachine(t *testing.T) {
	market := func(d driver) gputrain.Driver {
		several := editedOffers(func(o gputrain.Offer) (each []gputrain.Offer) {
			for i := range 4 {
				one := o
				one.ID, one.Available = fmt.Sprintf("%s#%d", o.ID, i), 1
				each = append(each, one)
			}
			return each
		})(d).(offers)
		return launches{driver{several, d.cloud}, func(ctx context.Context, r gputrain.LaunchRequest) ([]gputrain.Instance, error) {
			if n := len(r.Nodes); n > r.Offer.Available {
				t.Errorf("%d machines were asked for of an offer of %d", n, r.Offer.Available)
			}
			r.Offer.ID, _, _ = strings.Cut(r.Offer.ID, "#")
			return d.Launch(ctx, r)
		}}
	}
	RunInBubble(t, func(t *testing.T) Harness { return harness(t, flaw{driver: market}) })
}

// Every flaw is seen by its check, which says what is wrong.
func TestFlaws(t *testing.T) {
	for _, f := range flaws {
		t.Run(f.name, func(t *testing.T) {
			elsewhere := newStranger(t)
			bubble.Test(t, func(t *testing.T) {
				h := harness(t, f)
				h.stranger = elsewhere
				failures := watch(t, named(t, f.check), h)
				time.Sleep(2 * time.Hour) // the goroutine that a flaw leaves ends
				if !slices.ContainsFunc(failures, func(s string) bool { return strings.Contains(s, f.says) }) {
					t.Errorf("%q says %q; want a failure with %q", f.check, failures, f.says)
				}
			})
		})
	}
}

// A check that is left out is shown as skipped, with its reason.
func TestWithoutSkips(t *testing.T) {
	out, err := exec.Command(os.Args[0], "-test.v", "-test.run", "^TestASoundDriver$/^launch_of_what_there_is_no_room_for$").CombinedOutput()
	if err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	for _, want := range []string{"--- SKIP: TestASoundDriver/launch_of_what_there_is_no_room_for", "providers/sim runs it"} {
		if !strings.Contains(string(out), want) {
			t.Errorf("there is no %q in\n%s", want, out)
		}
	}
}

// What is left out has to be left out on purpose.
func TestWithout(t *testing.T) {
	for name, tt := range map[string]struct {
		change func(*Harness)
		says   string
	}{
		"nothing but the driver":    {func(h *Harness) { h.Account = nil; h.Without["Account"] = "there is none" }, "set Harness.Live"},
		"a hook is missing":         {func(h *Harness) { h.Foreign = nil }, "needs Harness.Foreign"},
		"no such check":             {func(h *Harness) { h.Without["offers are cheap"] = "they are not" }, "no such check"},
		"no reason":                 {func(h *Harness) { h.Without["Room"] = "" }, "no reason"},
		"left out, and it is there": {func(h *Harness) { h.Without["Room"] = "it is full" }, "the harness has it"},
	} {
		t.Run(name, func(t *testing.T) {
			bubble.Test(t, func(t *testing.T) {
				h := harness(t, flaw{})
				tt.change(&h)
				if failures := watch(t, named(t, "list shows only ours"), h); !strings.Contains(strings.Join(failures, "\n"), tt.says) {
					t.Errorf("it says %q; want %q", failures, tt.says)
				}
			})
		})
	}
}
