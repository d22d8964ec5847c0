package inventory

import (
	"context"
	"errors"
	"fmt"
	"math"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/gputrain/gputrain/internal/ledger"
	"github.com/gputrain/gputrain/internal/owner"
	"github.com/gputrain/gputrain/providers/driver"
)

// A resource that only its provider lists is over only if its program is certainly dead.
func TestVerdictOn(t *testing.T) {
	at := time.Date(2026, 1, 2, 3, 0, 0, 0, time.UTC)
	ago := func(d time.Duration) time.Time { return at.Add(-d) }
	const old, year = 24 * time.Hour, 365 * 24 * time.Hour
	self := owner.Self().String()
	up := driver.InstanceRunning
	for _, tt := range []struct {
		name  string
		r     driver.Resource
		marks bool
		want  verdict
	}{
		{"its program lives", driver.Resource{Kind: machineKind, Owner: self, Created: ago(old), Lease: time.Minute, Expires: ago(old), LeaseUntil: ago(old)}, true, lives},
		{"its TTL is over", driver.Resource{Kind: machineKind, Expires: ago(clockSkew + time.Second)}, false, over},
		{"its TTL may not be over by its own clock", driver.Resource{Kind: machineKind, Expires: ago(clockSkew)}, false, unsure},
		{"its lease is over", driver.Resource{Kind: machineKind, LeaseUntil: ago(clockSkew + time.Second)}, true, over},
		{"its lease is not over", driver.Resource{Kind: machineKind, Created: ago(old), Lease: time.Minute, LeaseUntil: ago(clockSkew)}, true, lives},
		{"a machine runs, and nothing marks leases", driver.Resource{Kind: machineKind, State: up, Created: ago(old), Lease: time.Minute}, false, unsure},
		{"a machine runs, and was never marked", driver.Resource{Kind: machineKind, State: up, Created: ago(old), Lease: time.Minute}, true, over},
		{"nothing runs", driver.Resource{Kind: "network", Created: ago(old), Lease: time.Minute}, false, over},
		{"a machine that has stopped", driver.Resource{Kind: machineKind, State: driver.InstanceStopped, Created: ago(old), Lease: time.Minute}, false, over},
		{"it may be on its way up", driver.Resource{Kind: "network", Created: ago(driver.DefaultProvisionTimeout + clockSkew + time.Minute), Lease: time.Minute}, false, lives},
		{"its age is not known", driver.Resource{Kind: "network", Lease: time.Minute}, false, unsure},
		{"its lease is not known", driver.Resource{Kind: "network", Created: ago(old)}, false, unsure},

		{"a TTL of 1970", driver.Resource{Kind: machineKind, State: up, Expires: time.Unix(0, 0)}, false, unsure},
		{"a TTL until 2096, and a lease that is over", driver.Resource{Kind: machineKind, State: up, Created: ago(old), Lease: time.Minute, Expires: at.Add(70 * year), LeaseUntil: ago(time.Hour)}, true, over},
		{"a lease until 2096", driver.Resource{Kind: machineKind, State: up, Created: ago(old), Lease: time.Minute, LeaseUntil: at.Add(70 * year)}, true, endless},
		{"a lease until 2096, and a TTL that is over", driver.Resource{Kind: machineKind, State: up, Created: ago(old), Lease: time.Minute, Expires: ago(time.Hour), LeaseUntil: at.Add(70 * year)}, true, over},
		{"a lease until 2096 of an unknown length", driver.Resource{Kind: machineKind, State: up, LeaseUntil: at.Add(70 * year)}, true, endless},
		{"a lease of 70 years until 2096", driver.Resource{Kind: machineKind, State: up, Created: ago(old), Lease: 70 * year, LeaseUntil: at.Add(70 * year)}, true, endless},
		{"the longest mark of its program, by a clock that is ahead", driver.Resource{Kind: machineKind, State: up, Created: ago(old), Lease: time.Hour, LeaseUntil: at.Add(lapse(time.Hour) + clockSkew)}, true, lives},
		{"a lease until 1969", driver.Resource{Kind: machineKind, State: up, Created: ago(time.Minute), Lease: time.Hour, LeaseUntil: time.Unix(-1, 0)}, true, lives},
		{"a lease of 292 years", driver.Resource{Kind: "network", Created: ago(old), Lease: math.MaxInt64}, false, lives},
		{"a lease of 292 years, two years ago", driver.Resource{Kind: "network", Created: ago(2 * year), Lease: math.MaxInt64}, false, over},
		{"a negative lease", driver.Resource{Kind: "network", Created: ago(old), Lease: -time.Hour}, false, unsure},
	} {
		if got := verdictOn(tt.r, tt.marks, at); got != tt.want {
			t.Errorf("%s: %v, want %v", tt.name, got, tt.want)
		}
	}
}

// A machine is the pool's if tag, name, token and age agree.
func TestObjection(t *testing.T) {
	at := time.Date(2026, 1, 2, 3, 0, 0, 0, time.UTC)
	c := claim{pool: "p-k3v9x2mq", since: at.Add(-time.Hour), holders: []string{"a.00000000/1/2", "b.00000000/3/4"}, asked: map[string]time.Time{"p-k3v9x2mq-3": at.Add(-10 * time.Minute)}}
	const pool = "p-k3v9x2mq"
	for _, tt := range []struct {
		name string
		r    driver.Resource
		want string // a part of the objection
	}{
		{"a machine", driver.Resource{Pool: pool, Name: pool + "-0", Owner: "a.00000000/1/2", Created: at.Add(-time.Minute)}, ""},
		{"a replacement of a later program", driver.Resource{Pool: pool, Name: pool + "-12-r3", Owner: "b.00000000/3/4", Created: at}, ""},
		{"a cloud that tells little", driver.Resource{Pool: pool, Name: pool + "-0"}, ""},
		{"clocks that differ", driver.Resource{Pool: pool, Name: pool + "-0", Created: c.since.Add(-clockSkew)}, ""},
		{"a clock that is ahead", driver.Resource{Pool: pool, Name: pool + "-0", Created: at.Add(clockSkew)}, ""},
		{"no name", driver.Resource{Pool: pool}, `its name "" is none`},
		{"a name of its own", driver.Resource{Pool: pool, Name: "db"}, `its name "db" is none`},
		{"a name that goes on", driver.Resource{Pool: pool, Name: pool + "-0-db"}, "is none"},
		{"a name that only begins so", driver.Resource{Pool: pool, Name: pool}, "is none"},
		{"a name of another pool", driver.Resource{Pool: pool, Name: "p-00000000-0"}, "is none"},
		{"a pool whose ID begins with this one's", driver.Resource{Pool: pool, Name: pool + "-2-0"}, "is none"},
		{"another pool's tag", driver.Resource{Pool: "q", Name: pool + "-0"}, `the tag of pool "q"`},
		{"no tag", driver.Resource{Name: pool + "-0"}, `the tag of pool ""`},
		{"doubt", driver.Resource{Pool: pool, Name: pool + "-0", Doubt: "the provider calls it db"}, "the provider calls it db"},
		{"another program", driver.Resource{Pool: pool, Name: pool + "-0", Owner: "c.00000000/5/6"}, "has never had the pool"},
		{"older than the pool", driver.Resource{Pool: pool, Name: pool + "-0", Created: c.since.Add(-clockSkew - time.Second)}, "before the pool was opened"},
		{"older than its launch", driver.Resource{Pool: pool, Name: pool + "-3", Created: at.Add(-30 * time.Minute)}, "before the pool asked for"},
		{"of the future", driver.Resource{Pool: pool, Name: pool + "-0", Created: at.Add(70 * 365 * 24 * time.Hour)}, "in the future"},
	} {
		if got := c.objection(tt.r, at); (got == "") != (tt.want == "") || !strings.Contains(got, tt.want) {
			t.Errorf("%s: %q, want %q", tt.name, got, tt.want)
		}
	}
	old := driver.Resource{Pool: "p", Name: "p-0", Owner: "c.00000000/5/6", Created: at.AddDate(-1, 0, 0)}
	if got := claimOf("p", nil, nil).objection(old, at); got != "" {
		t.Errorf("without a ledger: %q", got)
	}
	r := driver.Resource{Provider: "acme", Kind: machineKind, ID: "i-1", Region: "here"}
	if got := strange(r, "p", "\x1b[2Jits name"); !strings.Contains(got.Error(), "acme: list: machine i-1 in here has the tag of pool p, and is left alone: ") || strings.Contains(got.Error(), "\x1b") || !strings.Contains(got.Error(), "by hand") {
		t.Errorf("%q", got)
	}
}

// Every name that a pool gives passes.
func TestNamesOfAPoolAreItsOwn(t *testing.T) {
	s := newMachines()
	for rank := range 12 {
		for range 3 {
			name := s.name("p-k3v9x2mq", rank)
			if why := claimOf("p-k3v9x2mq", nil, nil).objection(driver.Resource{Pool: "p-k3v9x2mq", Name: name}, time.Now()); why != "" {
				t.Errorf("%s: %s", name, why)
			}
		}
	}
}

// A town is a cloud that lists whatever a test puts there, for all pools.
type town struct {
	cloud
	held  []driver.Resource
	marks []driver.Resource // by MarkLease: ID, Pool and LeaseUntil
	ended []string          // in order
}

func (c *town) List(_ context.Context, pool string) (listed []driver.Resource, err error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, r := range c.held {
		if pool == "" || r.Pool == pool {
			listed = append(listed, r)
		}
	}
	return listed, nil
}

func (c *town) Describe(_ context.Context, ids ...string) (found []driver.Instance, err error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, id := range ids {
		in := driver.Instance{ID: id, State: driver.InstanceTerminated}
		if i := slices.IndexFunc(c.held, func(r driver.Resource) bool { return r.ID == id }); i >= 0 {
			in.Name, in.State = c.held[i].Name, c.held[i].State
		}
		found = append(found, in)
	}
	return found, nil
}

func (c *town) Terminate(_ context.Context, ids ...string) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.held = slices.DeleteFunc(c.held, func(r driver.Resource) bool { return slices.Contains(ids, r.ID) })
	c.ended = append(c.ended, ids...)
	return nil
}

func (c *town) Release(_ context.Context, pool driver.PoolInfo) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.held = slices.DeleteFunc(c.held, func(r driver.Resource) bool {
		gone := r.Kind != machineKind && r.Pool == pool.ID
		if gone {
			c.ended = append(c.ended, r.ID)
		}
		return gone
	})
	return nil
}

// A marking town is one whose programs mark their leases.
type markingTown struct{ *town }

func (c markingTown) MarkLease(_ context.Context, pool driver.PoolInfo, until time.Time, ids ...string) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	for i := range c.held {
		if slices.Contains(ids, c.held[i].ID) && c.held[i].Pool == pool.ID {
			c.held[i].LeaseUntil = until
			c.town.marks = append(c.town.marks, c.held[i])
		}
	}
	return nil
}

// Each machine is judged by its own tags, and by nothing else that has them. Reap has no ledger of the pool.
func TestMachinesAreJudgedByTheirOwnTags(t *testing.T) {
	const day = 24 * time.Hour
	vm := func(id string, change func(*driver.Resource)) driver.Resource {
		r := driver.Resource{Provider: "acme", Kind: machineKind, ID: id, Name: "p-1-0", Pool: "p-1", State: driver.InstanceRunning, Lease: lease, Created: time.Now().Add(-day)}
		if change != nil {
			change(&r)
		}
		return r
	}
	thing := func(kind string, change func(*driver.Resource)) driver.Resource {
		return vm(kind, func(r *driver.Resource) {
			r.Kind, r.Name, r.State = kind, "gputrain-p-1", driver.InstanceUnknown
			change(r)
		})
	}
	lapsed := func(r *driver.Resource) { r.Expires = time.Now().Add(-time.Hour) }
	living := func(r *driver.Resource) { r.LeaseUntil = time.Now().Add(lease) }
	dead := func(r *driver.Resource) { r.LeaseUntil = time.Now().Add(-time.Hour) }
	endless := func(r *driver.Resource) {
		r.LeaseUntil, r.Expires = time.Now().AddDate(70, 0, 0), time.Now().AddDate(70, 0, 0)
	}
	both := func(changes ...func(*driver.Resource)) func(*driver.Resource) {
		return func(r *driver.Resource) {
			for _, change := range changes {
				change(r)
			}
		}
	}
	for _, tt := range []struct {
		name  string
		marks bool
		held  func() []driver.Resource // in a bubble
		ended string                   // in order
		says  string                   // in the error; empty: there is none
	}{
		{"a neighbour's key whose TTL is over", true, func() []driver.Resource { return []driver.Resource{thing("key", lapsed), vm("a", living)} }, "", ""},
		{"the same, at a cloud without marks", false, func() []driver.Resource { return []driver.Resource{thing("key", lapsed), vm("a", nil)} }, "", ""},
		{"a neighbour's volume whose lease is over", true, func() []driver.Resource { return []driver.Resource{thing("volume", dead), vm("a", living)} }, "", ""},
		{"a neighbour's key with a lease until 2096", true, func() []driver.Resource { return []driver.Resource{thing("key", endless), vm("a", dead)} }, "a key", ""},
		{"a neighbour's network with a TTL until 2096", false, func() []driver.Resource { return []driver.Resource{thing("network", endless), vm("a", lapsed)} }, "a network", ""},
		{"a neighbour's new network", true, func() []driver.Resource {
			return []driver.Resource{thing("network", func(r *driver.Resource) { r.Created, r.Lease = time.Now(), 1000*day }), vm("a", dead)}
		}, "a network", ""},
		{"a living machine beside a dead one", true, func() []driver.Resource {
			return []driver.Resource{vm("a", dead), vm("b", living), thing("key", lapsed)}
		}, "a", ""},
		{"a dead machine beside one with a lease until 2096 and a TTL that is over", true, func() []driver.Resource { return []driver.Resource{vm("a", dead), vm("b", both(endless, lapsed))} }, "a b", ""},
		{"a stranger's machine with the tag", true, func() []driver.Resource {
			return []driver.Resource{vm("a", dead), vm("b", both(dead, func(r *driver.Resource) { r.Name = "db" })), thing("key", lapsed)}
		}, "a key", `machine b has the tag of pool p-1, and is left alone: its name "db"`},
		{"only a stranger's", true, func() []driver.Resource {
			return []driver.Resource{vm("b", both(dead, func(r *driver.Resource) { r.Name = "" }))}
		}, "", `machine b has the tag of pool p-1, and is left alone: its name ""`},
		{"one of which the driver doubts", true, func() []driver.Resource {
			return []driver.Resource{vm("b", both(dead, func(r *driver.Resource) { r.Doubt = "it is called db" }))}
		}, "", "left alone: it is called db"},
		{"a stranger's living machine keeps no dead one", true, func() []driver.Resource {
			return []driver.Resource{vm("b", both(living, func(r *driver.Resource) { r.Name = "db" })), vm("a", dead)}
		}, "a", "machine b"},
		{"a machine of the future", true, func() []driver.Resource {
			return []driver.Resource{vm("b", both(lapsed, func(r *driver.Resource) { r.Created = time.Now().AddDate(70, 0, 0) }))}
		}, "", "in the future"},
		{"keys without machines", true, func() []driver.Resource { return []driver.Resource{thing("key", lapsed), thing("net", lapsed)} }, "key net", ""},
		{"a neighbour's key whose TTL is over, before the pool has a machine", true, func() []driver.Resource {
			return []driver.Resource{thing("key", lapsed), thing("net", func(r *driver.Resource) { r.Created = time.Now() })}
		}, "", ""},
	} {
		t.Run(tt.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				c := &town{held: tt.held()}
				had := len(c.held)
				var d driver.Driver = c
				if tt.marks {
					d = markingTown{c}
				}
				ended, err := NewReaper(folder(t), []Account{{Provider: "acme", Driver: d}}, nil).Run(t.Context())
				if got := strings.Join(c.ended, " "); got != tt.ended {
					t.Errorf("ended %q, want %q", got, tt.ended)
				}
				if (err == nil) != (tt.says == "") || err != nil && !strings.Contains(err.Error(), tt.says) {
					t.Errorf("error %v, want %q", err, tt.says)
				}
				if len(ended) != had-len(c.held) {
					t.Errorf("Reap says that it has ended %v; left: %v", ended, c.held)
				}
			})
		})
	}
}

// A lease that no program notes is bounded: if nobody notes another, the machine is ended by a later Reap.
func TestEndlessLeaseIsBounded(t *testing.T) {
	for _, alive := range []bool{false, true} {
		synctest.Test(t, func(t *testing.T) {
			c := &town{held: []driver.Resource{{
				Provider: "acme", Kind: machineKind, ID: "a", Name: "p-1-0", Pool: "p-1", State: driver.InstanceRunning, Lease: lease, Created: time.Now(), LeaseUntil: time.Now().AddDate(70, 0, 0),
			}}}
			d, dir := markingTown{c}, folder(t)
			reap := func() error {
				_, err := NewReaper(dir, []Account{{Provider: "acme", Driver: d}}, nil).Run(t.Context())
				return err
			}
			if err := reap(); err == nil || !strings.Contains(err.Error(), "longer than any that gputrain notes") || len(c.ended) != 0 || len(c.marks) != 1 {
				t.Fatalf("%v; ended %v, marked %v", err, c.ended, c.marks)
			}
			for range 30 {
				time.Sleep(5 * time.Minute)
				if alive {
					d.MarkLease(t.Context(), driver.PoolInfo{ID: "p-1"}, time.Now().Add(lapse(lease)), "a")
				}
			}
			if err := reap(); err != nil || (len(c.ended) == 0) != alive {
				t.Errorf("its program lives: %v; %v, ended %v", alive, err, c.ended)
			}
		})
	}
	c := &town{held: []driver.Resource{{Kind: machineKind, ID: "a", Name: "p-1-0", Pool: "p-1", State: driver.InstanceRunning, LeaseUntil: time.Now().AddDate(70, 0, 0)}}}
	if _, err := NewReaper(folder(t), []Account{{Provider: "acme", Driver: c}}, nil).Run(t.Context()); err == nil || !strings.Contains(err.Error(), "by hand") || len(c.ended) != 0 {
		t.Errorf("a driver that cannot note it: %v, ended %v", err, c.ended)
	}
}

// What has a pool's tag and is not the pool's is left alone by everything that goes by a ledger: the audit of a living pool, its end,
// an Attach that looks for the machines of an unanswered launch, and Reap.
func TestStrangersAreLeftAlone(t *testing.T) {
	vm := func(id, name string, change func(*driver.Resource)) driver.Resource {
		r := driver.Resource{Provider: "acme", Kind: machineKind, ID: id, Name: name, Pool: "p-1", State: driver.InstanceRunning, Created: time.Now(), Owner: "me.00000000/1/2", Lease: lease}
		if change != nil {
			change(&r)
		}
		return r
	}
	strangers := map[string]func() driver.Resource{
		"name": func() driver.Resource { return vm("s", "db", nil) },
		"age": func() driver.Resource {
			return vm("s", "p-1-0", func(r *driver.Resource) { r.Created = time.Now().AddDate(0, -1, 0) })
		},
		"token": func() driver.Resource {
			return vm("s", "p-1-0", func(r *driver.Resource) { r.Owner = "you.00000000/1/2" })
		},
		"doubt": func() driver.Resource {
			return vm("s", "p-1-0", func(r *driver.Resource) { r.Doubt = "it is called db" })
		},
		"lapsed": func() driver.Resource {
			return vm("s", "db", func(r *driver.Resource) { r.Expires = time.Now().Add(-time.Hour) })
		},
	}
	for kind, stranger := range strangers {
		for _, by := range []string{"audit", "end", "attach", "reap"} {
			t.Run(fmt.Sprintf("%s, %s", kind, by), func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) {
					c, dir, told := &town{}, folder(t), &heard{}
					info := pool()
					info.Owner = "me.00000000/1/2"
					account := Account{Provider: "acme", Driver: c}
					inv := New(account, info, told)
					if err := inv.Begin(dir, []byte("key")); err != nil {
						t.Fatal(err)
					}
					c.held = []driver.Resource{stranger(), vm("twin", "p-1-0", nil)}
					switch by {
					case "audit":
						if err := inv.endSurplus(t.Context()); err != nil {
							t.Error(err)
						}
						inv.Close(false)
					case "end":
						if err := inv.Close(inv.End(t.Context(), time.Minute, func() {}) == nil); err != nil {
							t.Error(err)
						}
					default:
						if err := inv.launcher.intend(request(inv, 0)); err != nil {
							t.Fatal(err)
						}
						inv.Close(false)
					}
					switch by {
					case "attach":
						l, _, err := dir.Take("p-1", "me-too.00000000/3/4", ledger.TakeOptions{})
						if err != nil {
							t.Fatal(err)
						}
						again := New(account, info, told)
						again.Resume(l)
						got, err := again.launcher.listed(t.Context(), []string{"p-1-0"})
						if err != nil || len(got) != 1 || got[0].ID != "twin" {
							t.Errorf("Attach takes up %v, %v", got, err)
						}
						again.Close(false)
					case "reap":
						ended, err := NewReaper(dir, []Account{account}, nil).Run(t.Context())
						if len(ended) != 1 || ended[0].ID != "twin" || err == nil || !strings.Contains(err.Error(), "machine s has the tag of pool p-1, and is left alone") {
							t.Errorf("Reap ends %v, %v", ended, err)
						}
						if _, ok := errors.AsType[*LeakError](err); ok {
							t.Errorf("it counts as a leak: %v", err)
						}
						if ids, err := dir.Pools(); err != nil || len(ids) != 0 {
							t.Errorf("the ledgers %v remain, %v", ids, err)
						}
					}
					if slices.Contains(c.ended, "s") || by != "attach" && !slices.Contains(c.ended, "twin") {
						t.Errorf("ended: %v", c.ended)
					}
					if by != "reap" && !slices.Equal(told.trouble, []string{"stranger"}) {
						t.Errorf("told: %v", told.trouble)
					}
				})
			})
		}
	}
}

// A machine that the ledger knows by its ID is the pool's, whatever has become of its tags.
func TestKnownMachineIsEndedWhateverItsTags(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c, dir := &town{}, folder(t)
		inv := New(Account{Provider: "acme", Driver: c}, pool(), &heard{})
		if err := inv.Begin(dir, []byte("key")); err != nil {
			t.Fatal(err)
		}
		inv.launcher.adopt([]driver.Instance{{ID: "a", Name: "p-1-0"}})
		c.held = []driver.Resource{{Kind: machineKind, ID: "a", Name: "renamed", Pool: "p-1", Doubt: "it is called renamed", State: driver.InstanceRunning}}
		if err := inv.End(t.Context(), time.Minute, func() {}); err != nil || !slices.Equal(c.ended, []string{"a"}) {
			t.Errorf("%v; ended %v", err, c.ended)
		}
		inv.Close(true)
	})
}
