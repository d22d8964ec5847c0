package observe

import (
	"bytes"
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"
	"unicode"
	"unicode/utf8"

	"github.com/gputrain/gputrain"
	"github.com/gputrain/gputrain/internal/printable"
	"github.com/gputrain/gputrain/internal/test/texts"
)

// states are those by which a Run takes events, beside what a file may have.
var states = []string{"opening", "ready", "closed", "launching", "lost", "started", "done", "failed", "cancelled", "silent", "queued", "running", "failing", "restarting", "sample", "fault", "trying", "refused", "sending", "notice", "spared"}

// raw writes an entry as a stranger would: its texts are not made printable.
func raw(t *testing.T, e Entry) string {
	t.Helper()
	var b bytes.Buffer
	enc := json.NewEncoder(&b)
	f := e.form()
	if f.Event != nil && f.Event.Err != nil {
		f.Event.Err.Tail, f.Event.Err.Stack = f.Event.Err.Text, f.Event.Err.Text
	}
	if err := enc.Encode(f); err != nil {
		t.Fatal(err)
	}
	return b.String()
}

// shown checks that the texts of a value can be shown, and are bounded.
func shown(t *testing.T, v any) (n int) {
	t.Helper()
	texts.Each(v, func(path, text string) {
		n++
		control := func(r rune) bool {
			return unicode.IsControl(r) && r != '\n' && r != '\t' || unicode.Is(unicode.Bidi_Control, r)
		}
		if !utf8.ValidString(text) || strings.ContainsFunc(text, control) || len(text) > printable.LongestMessage+2*printable.LongestName {
			t.Errorf("%s has %d bytes: %.60q", path, len(text), text)
		}
		isMessage := strings.HasSuffix(path, "Err") || strings.HasSuffix(path, ".Tail") || strings.HasSuffix(path, ".Stack") || strings.HasSuffix(path, ".Waiting") || strings.Contains(path, ".Spec")
		if !isMessage && (strings.Contains(text, "\n") || len(text) > 2*printable.LongestName && !strings.HasSuffix(path, ".Text")) {
			t.Errorf("%s is a name of %d bytes: %.60q", path, len(text), text)
		}
	})
	return n
}

// Whatever a file has, in whatever text of an event or a line, what is read from it can be shown and is bounded: fields that are added
// are looked at too.
func TestEveryTextOfAFileIsPrintable(t *testing.T) {
	for _, text := range []string{"\x1b]0;pwned\a\x1b[2J\u009b2Kno\r[node 0] all is \u202ewell\x00\ntwo lines", strings.Repeat("long \u202e", 8<<10/8)} {
		var file strings.Builder
		var seq int64
		add := func(e Entry) {
			seq++
			e.Seq = seq
			file.WriteString(raw(t, e))
		}
		var filled gputrain.Event
		texts.Fill(t, &filled, text, "Err")
		var line gputrain.Line
		texts.Fill(t, &line, text)
		for kind := gputrain.EventPool; kind <= gputrain.EventTrouble; kind++ {
			for _, state := range append(states, text) {
				if len(text) > 1000 && state != text && state != "started" && state != "failed" && state != "sample" {
					continue
				}
				ev, l := filled, line
				ev.Kind, ev.State, ev.Time = kind, state, time.Unix(seq, 0)
				if state != "sample" && state != "opening" {
					ev.Err = &pastError{errorForm{Text: text}}
				}
				if kind != gputrain.EventPool {
					ev.Spec = nil
				}
				add(Entry{Event: &ev})
				l.Time = ev.Time
				add(Entry{Line: &l})
				l.Task, l.Text = "", text
				add(Entry{Line: &l})
			}
		}
		endless := strings.Repeat(text, 1<<20/len(text))
		add(Entry{Event: &gputrain.Event{Kind: gputrain.EventTask, State: "failed", Pool: text, Task: "endless", Err: &pastError{errorForm{Text: endless}}}})
		add(Entry{Line: &gputrain.Line{Pool: text, Task: "endless", Text: endless}})
		path := filepath.Join(t.TempDir(), "events")
		if err := os.WriteFile(path, []byte(file.String()), 0o600); err != nil {
			t.Fatal(err)
		}
		run, err := Read(path)
		if err != nil {
			t.Fatal(err)
		}
		if n := shown(t, run); n < 1000 {
			t.Errorf("only %d texts were looked at: %d nodes, %d tasks, %d failures", n, len(run.Nodes), len(run.Tasks), len(run.Failures))
		}
		if len(run.Pools) == 0 || len(run.Nodes) == 0 || len(run.Tasks) == 0 || len(run.Phases) == 0 || len(run.Transfers) == 0 || len(run.Failures) == 0 || len(run.Offers) == 0 || len(run.Groups) == 0 {
			t.Errorf("the Run lacks some kind of part: %+v", run.Counts)
		}
		err = entries(path, func(e Entry) bool {
			shown(t, e)
			return true
		})
		if err != nil {
			t.Fatal(err)
		}
	}
}

// FuzzRead reads a file that anyone may have sent.
func FuzzRead(f *testing.F) {
	f.Add([]byte(texts.Events))
	f.Add([]byte("{}\n{\"event\":{\"kind\":\"x\"}}\n"))
	f.Fuzz(func(t *testing.T, file []byte) {
		path := filepath.Join(t.TempDir(), "events")
		if err := os.WriteFile(path, file, 0o600); err != nil {
			t.Fatal(err)
		}
		run, err := Read(path)
		if err != nil {
			texts.Each(err.Error(), func(_, text string) {
				if len(text) > 64<<10 {
					t.Errorf("the error has %d bytes", len(text))
				}
			})
			return
		}
		shown(t, run)
		for _, task := range run.Tasks {
			task.ETA(run.At)
			task.IsStalled(run.At)
		}
	})
}
