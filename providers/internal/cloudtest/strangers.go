package cloudtest

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"net/http"
	"regexp"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/gputrain/gputrain"
	"github.com/gputrain/gputrain/internal/ledger"
	"github.com/gputrain/gputrain/providers/driver"
)

// Strangers checks that a machine is judged by its own tags: what a neighbour in the account has with the pool's tag has no effect on
// it, and a machine with that tag is the pool's only if its name, its program and its age agree. Reap has no ledger of the pool, as on
// another computer, or one. The neighbour and the stranger write what a driver writes, and the answers that Reap gets are changed, if
// there is a Client.
func (c Cloud[F, C]) Strangers(t *testing.T) {
	far := time.Date(2096, 1, 2, 3, 4, 5, 0, time.UTC)
	owner := Info("p1").Owner
	for _, tt := range []struct {
		name string
		// What a neighbour has made with the pool's tag before, unless zero, and the end of the machine's own TTL, as it was written.
		neighbours, ttl time.Time
		view            lens
		book            *ledger.Header // of a ledger here
		remains         bool
		// stranger is whether a machine that is listed with the pool's tag is a stranger's, so that the error names it.
		stranger func(driver.Resource) bool
	}{
		{name: "a neighbour's TTL that is over", neighbours: time.Now().Add(-time.Hour), remains: true},
		{name: "a neighbour's TTL until 2096", neighbours: far, ttl: time.Now().Add(time.Hour), view: lens{older: 10 * day}},
		{name: "a TTL that is over", ttl: time.Now().Add(time.Hour), view: lens{older: 10 * day}},
		{name: "another name in all its tags", ttl: time.Now().Add(time.Hour), view: lens{older: 10 * day, from: "p1-0", to: "p1.db"}, remains: true, stranger: always},
		{name: "another name", ttl: time.Now().Add(time.Hour), view: lens{older: 10 * day, from: "gputrain-p1-0", to: "gputrain.db"}, remains: true, stranger: always},
		{name: "a ledger, and a machine that it does not know", book: &ledger.Header{Owner: owner, Created: time.Now()}},
		{name: "a ledger of a younger pool", book: &ledger.Header{Owner: owner, Created: time.Now()}, view: lens{older: 10 * day}, remains: true,
			stranger: func(r driver.Resource) bool { return !r.Created.IsZero() }},
		{name: "a ledger of another program's pool", book: &ledger.Header{Owner: "host.12ab34cd/9/9", Created: time.Now()}, remains: true,
			stranger: func(r driver.Resource) bool { return r.Owner != "" }},
	} {
		if c.Client == nil && (tt.view.older > 0 || tt.view.from != "") {
			continue // the provider's own tests change what its fake has
		}
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			f := c.still(t)
			before := c.kinds(f)["machine"]
			d := Open(t, c.Config(f))
			pool := Info("p1")
			if !tt.neighbours.IsZero() {
				pool.Expires, pool.Lease = tt.neighbours, 1000*day
				if err := d.Prepare(t.Context(), pool); err != nil {
					t.Fatal(err)
				}
			}
			pool.Expires, pool.Lease = tt.ttl, Info("p1").Lease
			if err := d.Prepare(t.Context(), pool); err != nil {
				t.Fatal(err)
			}
			spec := c.Spec.Query()
			req := Request(t, spec, Offers(t, d, spec)[0], 0)
			req.Pool = pool
			got, err := d.Launch(t.Context(), req)
			id := One(t, got, err).ID

			view := tt.view
			view.now, view.next = time.Now(), &http.Transport{DisableKeepAlives: true}
			cfg := c.Config(f)
			if c.Client != nil {
				c.Client(&cfg, &http.Client{Transport: &view})
			}
			listed := machineOf(t, Open(t, cfg), "p1")
			if tt.stranger != nil && (listed.ID == "" || !tt.stranger(listed)) || view.from != "" && listed.ID != "" && !view.replaced(listed) {
				return // the cloud does not tell
			}
			state := t.TempDir()
			if tt.book != nil {
				begin(t, state, c.Name, d.Capabilities().Account, *tt.book)
			}
			var p driver.Provider = cfg
			if tt.book != nil || tt.stranger != nil { // what is shared cannot end before the stranger's machine
				p = alone{cfg}
			}
			ended, err := gputrain.StateDir(state).Reap(t.Context(), p)
			if n := c.kinds(f)["machine"] - before; (n == 1) != tt.remains {
				t.Errorf("there are %d of 1 machine; Reap: %+v, %v", n, ended, err)
			}
			if says := fmt.Sprint(err); (err != nil) != (tt.stranger != nil) || err != nil && !strings.Contains(says, "machine "+listed.ID) && !strings.Contains(says, "machine "+id) || err != nil && !strings.Contains(says, "left alone") {
				t.Errorf("Reap's error: %v", err)
			}
		})
	}
}

const day = 24 * time.Hour

func always(driver.Resource) bool { return true }

// machineOf returns the machine that is listed for a pool, or a zero one.
func machineOf(t *testing.T, d driver.Driver, pool string) (found driver.Resource) {
	t.Helper()
	all, err := d.List(t.Context(), "")
	if err != nil {
		t.Fatal(err)
	}
	for _, r := range all {
		if r.Kind == "machine" && r.Pool == pool {
			found = r
		}
	}
	return found
}

// begin makes the ledger of a dead program.
func begin(t *testing.T, state, provider, account string, h ledger.Header) {
	t.Helper()
	dir, err := ledger.OpenDir(state)
	if err != nil {
		t.Fatal(err)
	}
	h.Schema, h.Pool, h.Provider, h.Account, h.Lease = ledger.Schema, "p1", provider, account, time.Minute
	l, err := dir.Create(h, []byte("key"))
	if err != nil {
		t.Fatal(err)
	}
	if err := l.Close(false); err != nil {
		t.Fatal(err)
	}
}

// An alone provider has nothing but machines.
type alone struct{ driver.Provider }

type aloneDriver struct{ driver.Driver }

func (p alone) Open(ctx context.Context) (driver.Driver, error) {
	d, err := p.Provider.Open(ctx)
	return aloneDriver{d}, err
}

func (aloneDriver) Release(context.Context, driver.PoolInfo) error { return nil }

func (d aloneDriver) List(ctx context.Context, pool string) (machines []driver.Resource, err error) {
	all, err := d.Driver.List(ctx, pool)
	for _, r := range all {
		if r.Kind == "machine" {
			machines = append(machines, r)
		}
	}
	return machines, err
}

// A lens is a transport through which everything in a cloud is older than it is, and a text is another.
type lens struct {
	next     http.RoundTripper
	now      time.Time
	older    time.Duration
	from, to string
}

func (l *lens) RoundTrip(r *http.Request) (*http.Response, error) {
	a, err := l.next.RoundTrip(r)
	if err != nil {
		return a, err
	}
	body, err := io.ReadAll(a.Body)
	a.Body.Close()
	if err != nil {
		return nil, err
	}
	body = l.change(body)
	a.Body, a.ContentLength = io.NopCloser(bytes.NewReader(body)), int64(len(body))
	a.Header.Set("Content-Length", strconv.Itoa(len(body)))
	return a, nil
}

// The forms in which clouds write times: as text, in seconds, and as pooltag.LongName does.
var (
	asText    = regexp.MustCompile(`\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d`)
	asSeconds = regexp.MustCompile(`\b1\d{9}\b`)
	inName    = regexp.MustCompile(`-c[0-9a-z]{6}\b`)
)

func (l *lens) change(body []byte) []byte {
	if l.older > 0 {
		body = asText.ReplaceAllFunc(body, func(b []byte) []byte {
			at, err := time.Parse("2006-01-02T15:04:05", string(b))
			if err != nil || !l.isNow(at) {
				return b
			}
			return at.Add(-l.older).AppendFormat(nil, "2006-01-02T15:04:05")
		})
		body = asSeconds.ReplaceAllFunc(body, func(b []byte) []byte {
			n, err := strconv.ParseInt(string(b), 10, 64)
			if err != nil || !l.isNow(time.Unix(n, 0)) {
				return b
			}
			return strconv.AppendInt(nil, n-int64(l.older.Seconds()), 10)
		})
		body = inName.ReplaceAllFunc(body, func(b []byte) []byte {
			n, err := strconv.ParseInt(string(b[2:]), 36, 64)
			if err != nil || !l.isNow(time.Unix(n, 0)) {
				return b
			}
			return strconv.AppendInt([]byte("-c"), n-int64(l.older.Seconds()), 36)
		})
	}
	if l.from != "" {
		body = bytes.ReplaceAll(body, []byte(l.from), []byte(l.to))
	}
	return body
}

// isNow reports whether a time is about now.
func (l *lens) isNow(at time.Time) bool { return at.Sub(l.now).Abs() < day }

// replaced reports whether a listed machine shows the other text.
func (l *lens) replaced(r driver.Resource) bool {
	return strings.Contains(r.Name+r.Doubt, l.to)
}
