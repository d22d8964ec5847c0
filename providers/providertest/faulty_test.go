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

	"github.com/gputrain/gputrain/internal/test/bubble"
	"github.com/gputrain/gputrain/providers/driver"
)

// A flaw breaks one promise. The check must fail because of it.
type flaw struct {
	name  string
	check string
	says  string // text in one of the check's failures

	named  func(provider)
	opened func(provider, error) error
	driver func(providertestDriver) driver.Driver
}

// Each of these replaces one method.
type (
	launches struct {
		providertestDriver
		launch func(context.Context, driver.Launch) ([]driver.Instance, error)
	}
	describes struct {
		providertestDriver
		describe func(context.Context, ...string) ([]driver.Instance, error)
	}
	lists struct {
		providertestDriver
		list func(context.Context, string) ([]driver.Resource, error)
	}
	offers struct {
		providertestDriver
		offers func(context.Context, driver.Query) iter.Seq2[driver.Offer, error]
	}
	terminates struct {
		providertestDriver
		terminate func(context.Context, ...string) error
	}
	prepares struct {
		providertestDriver
		prepare func(context.Context, driver.PoolInfo) error
	}
	releases struct {
		providertestDriver
		release func(context.Context, driver.PoolInfo) error
	}
	changes struct {
		providertestDriver
		asked atomic.Int32
	}
	prints struct {
		providertestDriver
		token string
	}
	closes  struct{ providertestDriver }
	dials   struct{ providertestDriver }
	resumes struct{ providertestDriver }
	marks   struct{ providertestDriver }
	ends    struct{ providertestDriver }
)

func (d launches) Launch(ctx context.Context, r driver.Launch) ([]driver.Instance, error) {
	return d.launch(ctx, r)
}
func (d describes) Describe(ctx context.Context, ids ...string) ([]driver.Instance, error) {
	return d.describe(ctx, ids...)
}
func (d lists) List(ctx context.Context, pool string) ([]driver.Resource, error) {
	return d.list(ctx, pool)
}
func (d offers) Offers(ctx context.Context, s driver.Query) iter.Seq2[driver.Offer, error] {
	return d.offers(ctx, s)
}
func (d terminates) Terminate(ctx context.Context, ids ...string) error {
	return d.terminate(ctx, ids...)
}
func (d prepares) Prepare(ctx context.Context, p driver.PoolInfo) error { return d.prepare(ctx, p) }
func (d releases) Release(ctx context.Context, p driver.PoolInfo) error { return d.release(ctx, p) }
func (d closes) Close() error {
	go time.Sleep(time.Hour)
	return d.providertestDriver.Close()
}
func (dials) Dial(context.Context, driver.Instance) (net.Conn, error) {
	here, there := net.Pipe()
	go func() {
		defer there.Close()
		io.WriteString(there, "SSH-2.0-another\r\n")
	}()
	return here, nil
}
func (resumes) Resume(context.Context, driver.PoolInfo, ...string) error {
	return errors.New("one is gone")
}
func (marks) MarkLease(context.Context, driver.PoolInfo, time.Time, ...string) error { return nil }
func (ends) Scripts(driver.Instance) driver.Scripts {
	return driver.Scripts{SelfDestruct: "if shutdown now"}
}
func (d *changes) Capabilities() driver.Capabilities {
	caps := d.providertestDriver.Capabilities()
	caps.Mounts = d.asked.Add(1) > 1
	return caps
}

// launchedAs makes drivers whose machines have an edited offer, in states in which no time is billed.
func launchedAs(edit func(driver.Offer) driver.Offer) func(providertestDriver) driver.Driver {
	return func(d providertestDriver) driver.Driver {
		free := editedInstances(func(got []driver.Instance) []driver.Instance {
			for i := range got {
				got[i].Unbilled = true
			}
			return got
		})(d)
		return launches{providertestDriver{free.(describes), d.cloud}, func(ctx context.Context, r driver.Launch) ([]driver.Instance, error) {
			got, err := d.Launch(ctx, r)
			for i := range got {
				got[i].Offer = edit(got[i].Offer)
			}
			return got, err
		}}
	}
}

// editedOffers, editedInstances and editedLaunch make drivers with edited answers.
func editedOffers(edit func(driver.Offer) []driver.Offer) func(providertestDriver) driver.Driver {
	return func(d providertestDriver) driver.Driver {
		return offers{d, func(ctx context.Context, s driver.Query) iter.Seq2[driver.Offer, error] {
			return func(yield func(driver.Offer, error) bool) {
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

func editedInstances(edit func([]driver.Instance) []driver.Instance) func(providertestDriver) driver.Driver {
	return func(d providertestDriver) driver.Driver {
		return describes{d, func(ctx context.Context, ids ...string) ([]driver.Instance, error) {
			got, err := d.Describe(ctx, ids...)
			return edit(got), err
		}}
	}
}

func editedLaunch(edit func(ctx context.Context, d providertestDriver, r driver.Launch) ([]driver.Instance, error)) func(providertestDriver) driver.Driver {
	return func(d providertestDriver) driver.Driver {
		return launches{d, func(ctx context.Context, r driver.Launch) ([]driver.Instance, error) {
			return edit(ctx, d, r)
		}}
	}
}

// hasty launches within a millisecond, so that an unknown outcome is not settled.
func hasty(ctx context.Context, d providertestDriver, r driver.Launch) ([]driver.Instance, error) {
	ctx, cancel := context.WithTimeout(ctx, time.Millisecond)
	defer cancel()
	return d.Launch(ctx, r)
}

// A driver without a flaw passes every check.
func TestASoundDriver(t *testing.T) {
	RunInBubble(t, func(t *testing.T) Harness { return harness(t, flaw{}) })
}

// A driver whose pools can have only one machine passes too.
func TestOneMachine(t *testing.T) {
	one := func(ctx context.Context, d providertestDriver, r driver.Launch) ([]driver.Instance, error) {
		live := func(m driver.Resource) bool { return m.Kind == "machine" && m.Pool == r.Pool.ID }
		if len(r.Nodes) > 1 || slices.ContainsFunc(d.cloud.Live(), live) {
			return nil, &driver.Error{Provider: "sim", Op: "launch", Kind: driver.ErrInvalid, Err: errors.New("a pool has one machine")}
		}
		return d.Launch(ctx, r)
	}
	RunInBubble(t, func(t *testing.T) Harness {
		h := harness(t, flaw{driver: editedLaunch(one)})
		h.Machines = 1
		return h
	})
}

// If an offer is one machine, as on a market, the suite does not ask the driver for two.
func TestOffersOfOneMachine(t *testing.T) {
	market := func(d providertestDriver) driver.Driver {
		several := editedOffers(func(o driver.Offer) (each []driver.Offer) {
			for i := range 4 {
				one := o
				one.ID, one.Available = fmt.Sprintf("%s#%d", o.ID, i), 1
				each = append(each, one)
			}
			return each
		})(d).(offers)
		return launches{providertestDriver{several, d.cloud}, func(ctx context.Context, r driver.Launch) ([]driver.Instance, error) {
			if n := len(r.Nodes); n > r.Offer.Available {
				t.Errorf("%d machines were asked for of an offer of %d", n, r.Offer.Available)
			}
			r.Offer.ID, _, _ = strings.Cut(r.Offer.ID, "#")
			return d.Launch(ctx, r)
		}}
	}
	RunInBubble(t, func(t *testing.T) Harness { return harness(t, flaw{driver: market}) })
}

// Each flaw makes its check fail, with a message that says what is wrong.
func TestFlaws(t *testing.T) {
	for _, f := range flaws {
		t.Run(f.name, func(t *testing.T) {
			elsewhere := newStranger(t)
			bubble.Test(t, func(t *testing.T) {
				h := harness(t, f)
				h.stranger = elsewhere
				failures := watch(t, named(t, f.check), h)
				time.Sleep(2 * time.Hour) // the goroutine that a flaw leaks ends
				if !slices.ContainsFunc(failures, func(s string) bool { return strings.Contains(s, f.says) }) {
					t.Errorf("%q says %q; want a failure with %q", f.check, failures, f.says)
				}
			})
		})
	}
}

// A list for anyone must have offers, and must not be had with a key.
func TestPublicOffers(t *testing.T) {
	for name, tt := range map[string]struct {
		change func(h *Harness, list func(context.Context) (driver.Driver, error))
		says   string // empty: nothing
	}{
		"a list": {func(h *Harness, list func(context.Context) (driver.Driver, error)) {
			h.MissingKey.Provider = listed{h.MissingKey.Provider, list}
		}, ""},
		"no list": {func(h *Harness, list func(context.Context) (driver.Driver, error)) {
			h.MissingKey.Provider = listed{h.MissingKey.Provider, h.MissingKey.Provider.Open}
		}, "OpenPublic without a key"},
		"an empty list": {func(h *Harness, list func(context.Context) (driver.Driver, error)) {
			h.MissingKey.Provider = listed{h.MissingKey.Provider, func(ctx context.Context) (driver.Driver, error) {
				d, err := list(ctx)
				return editedOffers(func(driver.Offer) []driver.Offer { return nil })(d.(providertestDriver)), err
			}}
		}, "has nothing for Harness.Spec without a key"},
		"a list in spite of a key": {func(h *Harness, list func(context.Context) (driver.Driver, error)) {
			h.MissingKey.Provider, h.WrongKey = listed{h.MissingKey.Provider, list}, listed{h.WrongKey, list}
		}, "although there is a key"},
	} {
		t.Run(name, func(t *testing.T) {
			bubble.Test(t, func(t *testing.T) {
				h := harness(t, flaw{})
				tt.change(&h, h.Provider.Open)
				failures := watch(t, named(t, "open without a key for the public offers"), h)
				if said := strings.Join(failures, "\n"); (said == "") != (tt.says == "") || !strings.Contains(said, tt.says) {
					t.Errorf("%q; want %q", said, tt.says)
				}
			})
		})
	}
}

// A check in Harness.Without is skipped, with its reason.
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

// A harness that lacks a hook must give the reason in Without.
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
