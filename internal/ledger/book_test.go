package ledger

import (
	"encoding/json"
	"errors"
	"testing"
	"time"

	"github.com/gputrain/gputrain/internal/record"
)

// readLines returns a book that has read these lines.
func readLines(t testing.TB, lines ...string) *book {
	t.Helper()
	b := &book{}
	for _, l := range lines {
		if err := b.read(record.Record{Head: []byte(l)}, nil); err != nil {
			t.Fatal(err)
		}
	}
	return b
}

const pool = `{"is":"pool","at":"2026-01-01T00:00:00Z","pool":{"schema":1,"pool":"p-1","owner":"h/1/2"}}`

func machine(name, state string) string {
	return `{"is":"row","at":"2026-01-01T00:00:01Z","row":{"name":"` + name + `","kind":"machine","rank":0,"state":"` + state + `"}}`
}

func TestBook(t *testing.T) {
	taken := func(n string) string { return `{"is":"taken","generation":` + n + `,"owner":"h/2/3"}` }
	for name, tt := range map[string]struct {
		lines     []string
		state     State // of row "a"
		rows, gen int
		newer     bool
		damage    int
	}{
		"a life":                 {[]string{pool, machine("a", "intended"), machine("a", "created"), machine("a", "leased"), machine("a", "ending"), machine("a", "gone")}, Gone, 1, 1, false, 0},
		"adopted":                {[]string{pool, machine("a", "created")}, Created, 1, 1, false, 0},
		"found after all":        {[]string{pool, machine("a", "intended"), machine("a", "gone"), machine("a", "created")}, Created, 1, 1, false, 0},
		"gone, never heard of":   {[]string{pool, machine("a", "gone")}, Gone, 1, 1, false, 1},
		"leased, never heard of": {[]string{pool, machine("a", "leased")}, Leased, 1, 1, false, 1},
		"back":                   {[]string{pool, machine("a", "created"), machine("a", "intended")}, Created, 1, 1, false, 1},
		"leased when ending":     {[]string{pool, machine("a", "ending"), machine("a", "leased")}, Ending, 1, 1, false, 2},
		"no header":              {[]string{machine("a", "created")}, Created, 1, 1, false, 1},
		"twice a header":         {[]string{pool, machine("a", "created"), pool}, Created, 1, 1, false, 1},
		"taken":                  {[]string{pool, taken("2"), machine("a", "created"), taken("3")}, Created, 1, 3, false, 0},
		"taken, one missing":     {[]string{pool, taken("3")}, 0, 0, 3, false, 1},
		"taken, backwards":       {[]string{pool, taken("1"), taken("-5")}, 0, 0, 1, false, 2},
		"no state, no line":      {[]string{pool, machine("a", "confused"), "[", `{"is":"row"}`, `{"is":"else"}`, machine("", "created")}, 0, 0, 1, false, 5},
		"newer":                  {[]string{`{"is":"pool","pool":{"schema":2,"pool":"p-1"}}`, machine("a", "confused")}, 0, 0, 1, true, 0},
		"newer, another form":    {[]string{`{"is":7,"pool":{"schema":3,"pool":"p-1","lease":{}}}`, "?"}, 0, 0, 0, true, 0},
	} {
		t.Run(name, func(t *testing.T) {
			s := readLines(t, tt.lines...).snapshot()
			if len(s.Rows) != tt.rows || s.Generation != tt.gen || s.Newer != tt.newer || len(s.Damage) != tt.damage {
				t.Fatalf("got %+v", s)
			}
			if tt.rows > 0 && s.Rows[0].State != tt.state {
				t.Errorf("got %v, want %v", s.Rows[0].State, tt.state)
			}
			if tt.newer && s.Pool != "p-1" {
				t.Errorf("the header is %+v", s.Header)
			}
		})
	}
}

// Whatever a ledger contains, a row that was once readable stays.
func FuzzBook(f *testing.F) {
	f.Add(pool, machine("a", "created"), machine("a", "gone"))
	f.Add(pool, `{"is":"taken","generation":9}`, machine("b", "leased"))
	f.Fuzz(func(t *testing.T, one, two, three string) {
		b := &book{}
		names := 0
		for _, l := range []string{one, two, three} {
			if err := b.read(record.Record{Head: []byte(l)}, nil); err != nil {
				t.Fatal(err)
			}
			if len(b.rows) < names || len(b.index) != len(b.rows) {
				t.Fatalf("%d rows, %d names, had %d", len(b.rows), len(b.index), names)
			}
			names = len(b.rows)
		}
		if err := b.read(record.Record{}, errors.New("disk")); err == nil {
			t.Fatal("an error of reading was not returned")
		}
	})
}

func TestRowComesBack(t *testing.T) {
	usd := 1.5
	at := time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)
	want := Row{Name: "a", Kind: "machine", Token: "k"}.enter(Intended, at).merged(Row{ID: "i", HourlyUSD: &usd}).enter(Created, at)
	r, err := entry{Is: isRow, At: at, Row: &want}.record()
	if err != nil {
		t.Fatal(err)
	}
	b := readLines(t, pool, string(r.Head))
	got, ok := b.row("a")
	g, _ := json.Marshal(got)
	w, _ := json.Marshal(want)
	if !ok || string(g) != string(w) || got.ID != "i" || got.Token != "k" || *got.HourlyUSD != usd {
		t.Errorf("got %s, want %s", g, w)
	}
}
