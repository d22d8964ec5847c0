package history_test

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/gputrain/gputrain/internal/history"
	"github.com/gputrain/gputrain/providers/driver"
)

var (
	host  = driver.Offer{Provider: "acme", Host: "m17", InstanceType: "RTX 4090", Region: "Oregon, US"}
	place = driver.Offer{Provider: "acme", InstanceType: "p4d", Region: "north"}
	other = driver.Offer{Provider: "acme", InstanceType: "p4d", Region: "south"}
)

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

func page(t *testing.T, b *history.Book) history.Page {
	t.Helper()
	p, err := b.Read()
	must(t, err)
	return p
}

// A failure of a host is remembered for a week, also by other programs. A place counts after two in a row, for a day.
func TestFailures(t *testing.T) {
	dir := t.TempDir()
	synctest.Test(t, func(t *testing.T) {
		b := history.In(dir)
		must(t, b.Failed(host, errors.New("its driver\nis not well")))
		must(t, b.Failed(place, errors.New("not up within 10m")))
		time.Sleep(2 * time.Hour)
		p := page(t, history.In(dir))
		if got := p.Failure(host); got != "2h0m0s ago: its driver is not well" {
			t.Errorf("host: %q", got)
		}
		if got := p.Failure(place) + p.Failure(other); got != "" {
			t.Errorf("one failure of a place: %q", got)
		}
		moved := host
		moved.Region, moved.InstanceType, moved.ID = "", "2x RTX 4090", "another offer"
		if p.Failure(moved) == "" {
			t.Error("the host is known by its name, and not by its offer")
		}
		must(t, b.Failed(place, errors.New("again")))
		if p := page(t, b); p.Failure(place) != "0s ago: again" || p.Failure(other) != "" {
			t.Errorf("two failures of a place: %q, and of another one %q", p.Failure(place), p.Failure(other))
		}
		time.Sleep(24 * time.Hour)
		if p := page(t, b); p.Failure(place) != "" || p.Failure(host) == "" {
			t.Error("after a day the place is no longer avoided, and the host is")
		}
		must(t, b.Failed(place, errors.New("the first again")))
		if page(t, b).Failure(place) != "" {
			t.Error("failures of which one is too old are not in a row")
		}
		time.Sleep(6 * 24 * time.Hour)
		if page(t, b).Failure(host) != "" {
			t.Error("after a week the host is avoided still")
		}
	})
}

func TestBoot(t *testing.T) {
	dir := t.TempDir()
	synctest.Test(t, func(t *testing.T) {
		b := history.In(dir)
		must(t, b.Failed(host, errors.New("not up")))
		must(t, b.Booted(host, 252*time.Second+time.Millisecond))
		p := page(t, b)
		if p.Boot(host) != 252*time.Second || p.Failure(host) != "" || p.Boot(place) != 0 {
			t.Errorf("%v, %q, %v", p.Boot(host), p.Failure(host), p.Boot(place))
		}
		time.Sleep(31 * 24 * time.Hour)
		if page(t, b).Boot(host) != 0 {
			t.Error("it is remembered for too long")
		}
	})
}

func TestForget(t *testing.T) {
	b := history.In(t.TempDir())
	must(t, b.Booted(host, time.Minute))
	second := host
	second.Host = "m18"
	for _, o := range []driver.Offer{host, second} {
		must(t, b.Failed(o, errors.New("not up")))
	}
	must(t, b.Forget(host))
	if p := page(t, b); p.Failure(host) != "" || p.Failure(second) == "" || p.Boot(host) != time.Minute {
		t.Errorf("%q, %q, %v", p.Failure(host), p.Failure(second), p.Boot(host))
	}
	must(t, b.Forget())
	if p := page(t, b); p.Failure(second) != "" {
		t.Errorf("%q", p.Failure(second))
	}
}

// A file that is torn, foreign or huge does no harm: it is reported when it is read, and begun anew when it is written.
func TestDamage(t *testing.T) {
	dir := t.TempDir()
	path := filepath.Join(dir, "history.json")
	for name, text := range map[string]string{"torn": `{"acme host m17": {"Fail`, "foreign": "[]", "null": "null", "huge": strings.Repeat("x", 2<<20)} {
		must(t, os.WriteFile(path, []byte(text), 0o600))
		b := history.In(dir)
		if p, err := b.Read(); err == nil || p.Failure(host) != "" || !strings.Contains(err.Error(), path) {
			t.Errorf("%s: %v", name, err)
		}
		must(t, b.Failed(host, errors.New("not up")))
		if page(t, b).Failure(host) == "" {
			t.Errorf("%s: it is not begun anew", name)
		}
	}
	if p, err := history.In(filepath.Join(dir, "none")).Read(); err != nil || p.Failure(host) != "" {
		t.Errorf("without a file: %v", err)
	}
	none := history.In("")
	must(t, none.Failed(host, errors.New("not up")))
	if page(t, none).Failure(host) != "" {
		t.Error("a book without a folder remembers")
	}
}

// The file does not grow for ever, and no reason is long.
func TestSize(t *testing.T) {
	dir := t.TempDir()
	b := history.In(dir)
	must(t, b.Failed(host, errors.New(strings.Repeat("long ", 1000))))
	if got := page(t, b).Failure(host); len(got) > 400 {
		t.Errorf("%d bytes", len(got))
	}
	text := "{"
	for i := range 2500 {
		text += fmt.Sprintf("%q: {\"Failures\": 1, \"At\": %q},", fmt.Sprint("acme host old", i), time.Now().Add(-time.Hour).Format(time.RFC3339))
	}
	must(t, os.WriteFile(filepath.Join(dir, "history.json"), []byte(text+`"acme host m1": {"Failures": 1, "At": "`+time.Now().Format(time.RFC3339)+`"}}`), 0o600))
	must(t, b.Failed(host, errors.New("not up")))
	kept, err := os.ReadFile(filepath.Join(dir, "history.json"))
	must(t, err)
	if n := strings.Count(string(kept), "acme host"); n != 2000 || !strings.Contains(string(kept), `"acme host m1"`) {
		t.Errorf("%d entries", n)
	}
}
