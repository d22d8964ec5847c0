package guardian

import (
	"bytes"
	"context"
	"errors"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/fxamacker/cbor/v2"

	"github.com/gputrain/gputrain/internal/ledger"
	"github.com/gputrain/gputrain/providers/driver"
)

const lease = 9 * time.Minute

// A dark provider cannot be opened. It says when that is tried.
type dark struct{ opened func() }

func (dark) Name() string { return "dark" }

func (d dark) Open(context.Context) (driver.Driver, error) {
	d.opened()
	return nil, errors.New("it does not answer")
}

// begin makes the ledger of a program, which releases it or holds it.
func begin(t *testing.T, dir *ledger.Dir) *ledger.Ledger {
	t.Helper()
	l, err := dir.Create(ledger.Header{Pool: "p-1", Provider: "dark", Lease: lease}, []byte("key"))
	if err != nil {
		t.Fatal(err)
	}
	return l
}

// A pool is tried when it has lapsed, then less and less often, until it is gone.
func TestWatch(t *testing.T) {
	dir, err := ledger.OpenDir(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	synctest.Test(t, func(t *testing.T) {
		if err := begin(t, dir).Close(false); err != nil {
			t.Fatal(err)
		}
		died := time.Now()
		var tries []time.Duration
		w := watch{pool: "p-1", generation: 1, dir: dir, providers: []driver.Provider{dark{func() { tries = append(tries, time.Since(died)) }}}}
		over := make(chan bool)
		go func() {
			w.run(t.Context())
			close(over)
		}()
		time.Sleep(3 * time.Hour)
		synctest.Wait()
		lapsed := lease + lease/3
		want := []time.Duration{lapsed, lapsed + 5*time.Second, lapsed + 15*time.Second, lapsed + 35*time.Second}
		if len(tries) < 8 || !slices.Equal(tries[:4], want) {
			t.Errorf("tried after %v; want %v and so on", tries, want)
		}
		if last := tries[len(tries)-1] - tries[len(tries)-2]; last != lastRetry {
			t.Errorf("the last pause is %v", last)
		}
		l, _, err := dir.Take("p-1", "another", ledger.TakeOptions{})
		if err != nil {
			t.Fatal(err)
		}
		if err := l.Close(true); err != nil {
			t.Fatal(err)
		}
		<-over
		if since := time.Since(died); since > 4*time.Hour {
			t.Errorf("it notices after %v that the pool is gone", since)
		}
	})
}

// A guardian leaves the pool of another program alone, and that of a program that lives or has just died.
func TestWatchLeavesPoolsAlone(t *testing.T) {
	dir, err := ledger.OpenDir(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	w := watch{pool: "p-1", generation: 1, dir: dir, providers: []driver.Provider{dark{func() { t.Error("it ends the pool") }}}}
	if _, over := w.round(t.Context()); !over {
		t.Error("it waits for a pool that is gone")
	}
	l := begin(t, dir)
	if pause, over := w.round(t.Context()); over || pause == 0 {
		t.Errorf("while its program lives: %v, %v", pause, over)
	}
	if err := l.Close(false); err != nil {
		t.Fatal(err)
	}
	if pause, over := w.round(t.Context()); over || pause != look {
		t.Errorf("within the lease: %v, %v", pause, over)
	}
	l, _, err = dir.Take("p-1", "another", ledger.TakeOptions{})
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close(true)
	if _, over := w.round(t.Context()); !over {
		t.Error("it waits for the pool of another program")
	}
}

func TestRun(t *testing.T) {
	job := Job{StateDir: t.TempDir(), Pool: "p-1", Generation: 1}
	strange := job
	strange.Providers = []Config{{Type: "no.Config"}}
	encode := func(all ...any) string {
		var b bytes.Buffer
		for _, v := range all {
			if err := cbor.NewEncoder(&b).Encode(v); err != nil {
				t.Fatal(err)
			}
		}
		return b.String()
	}
	for name, tt := range map[string]struct {
		in, out, stderr string
		exit            int
	}{
		"no job":              {"", "", "unset it to run this program", exitUsage},
		"another's stdin":     {"hello\n", "", "unset it to run this program", exitUsage},
		"an unknown type":     {encode(strange), saying + "this program has no type no.Config", "", 1},
		"a closed pool":       {encode(job, farewell{Closed: true}), saying + ready, "", 0},
		"a pool that is gone": {encode(job), saying + ready, "", 0},
	} {
		var out, stderr bytes.Buffer
		exit := run(t.Context(), strings.NewReader(tt.in), &out, &stderr, nil)
		if exit != tt.exit || !strings.Contains(out.String(), tt.out) || (tt.out == "") != (out.Len() == 0) || !strings.Contains(stderr.String(), tt.stderr) {
			t.Errorf("%s: exit status %d, %q, %q", name, exit, out.String(), stderr.String())
		}
	}
}

func TestAwaitReady(t *testing.T) {
	for printed, says := range map[string]string{
		"hello\n" + saying + ready + "\n": "", saying + "no\n": "no", "usage: ...\n": "has ended", "": "has ended",
	} {
		if err := awaitReady(strings.NewReader(printed)); (err == nil) != (says == "") || err != nil && !strings.Contains(err.Error(), says) {
			t.Errorf("%q: %v", printed, err)
		}
	}
}
