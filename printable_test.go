package gputrain

import (
	"bytes"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"testing"
	"unicode"
	"unicode/utf8"

	"github.com/gputrain/gputrain/internal/output"
	"github.com/gputrain/gputrain/internal/printable"
	"github.com/gputrain/gputrain/internal/test/texts"
)

// commands is a text that a hostile cloud or node may send: it sets a window's title, clears the
// screen, moves up and overwrites text there, and reverses the rest.
const commands = "\x1b]0;pwned\a\x1b[2J\x1b[1A\u009b2Kno\r[node 0] all is \u202ewell\x1b[32m\xff\x00"

// acts returns the first character of a text that would control a terminal.
func acts(text string) (rune, bool) {
	for _, r := range text {
		if unicode.IsControl(r) && r != '\n' && r != '\t' || unicode.Is(unicode.Bidi_Control, r) {
			return r, true
		}
	}
	return 0, false
}

func TestErrorsCommandNoTerminal(t *testing.T) {
	said := errors.New(commands)
	for name, err := range map[string]error{
		"a cloud's":     &Error{Provider: "acme", Op: "launch", Kind: ErrQuota, RequestID: commands, Hint: commands, Err: said},
		"a task's":      &TaskError{Name: "t", Tail: commands, Err: said},
		"a panic's":     &TaskError{Name: "t", Cause: CausePanic, Stack: commands, Err: said},
		"a bootstrap's": &BootstrapError{Phase: "apt", Tail: commands, Err: said},
		"a leak's":      &LeakError{Resources: []Resource{{Provider: "acme", Kind: "machine", ID: commands, Region: commands}}, Err: said},
		"a node's":      (&reports{secrets: &output.Redactor{}}).withoutSecrets(fmt.Errorf("node 0: %w", said)),
	} {
		if r, bad := acts(err.Error()); bad || !strings.Contains(err.Error(), "well") || !errors.Is(err, said) {
			t.Errorf("%s error has %U: %q", name, r, err)
		}
	}
}

func TestEventsCommandNoTerminal(t *testing.T) {
	said := errors.New(commands)
	var seen []Event
	var log bytes.Buffer
	e := newEvents("p", []func(Event){func(ev Event) { seen = append(seen, ev) }}, slog.New(slog.NewTextHandler(&log, nil)))
	e.emit(Event{Kind: EventNode, Err: fmt.Errorf("node 0 says: %w", said)})
	e.close()
	if len(seen) != 1 || !errors.Is(seen[0].Err, said) {
		t.Fatal(seen)
	}
	if r, bad := acts(seen[0].Err.Error()); bad {
		t.Errorf("the event has %U: %q", r, seen[0].Err)
	}
	for _, part := range []string{`\x1b`, `\u009b`, `\u202e`, "\x1b"} {
		if strings.Contains(log.String(), part) {
			t.Errorf("the log has %s: %s", part, log.String())
		}
	}
}

// Every text of an event and of a line is what a node may say: none of them controls a terminal or is endless, and what the pool keeps
// is not changed. Fields that are added are looked at too.
func TestEveryTextOfAnEventIsPrintable(t *testing.T) {
	for _, text := range []string{commands, "two\nlines", strings.Repeat("long \u202e", 8<<10/8), strings.Repeat("\xff", 8<<10)} {
		var given Event
		texts.Fill(t, &given, text, "Err")
		spec, labels := given.Spec, map[string]string{text: text}
		given.At.labels, given.Err = labels, errors.New(text)
		said := output.Line{Source: output.Source{Label: text, Task: text, Name: text, Phase: text}, Text: text}
		for kind := EventPool; kind <= EventTrouble; kind++ {
			var events, sampled []Event
			var lines []Line
			var log bytes.Buffer
			e := newEvents("p", []func(Event){func(ev Event) { events = append(events, ev) }}, slog.New(slog.NewJSONHandler(&log, &slog.HandlerOptions{Level: slog.LevelDebug})), sample{1, func(ev Event) { sampled = append(sampled, ev) }})
			if given.Kind = kind; kind == EventNode {
				given.Err, said.Text = errors.New(strings.Repeat(text, 1<<20/len(text))), strings.Repeat(text, 1<<20/len(text))
			}
			e.emit(given)
			e.close()
			l := newLines("p", []func(Line){func(l Line) { lines = append(lines, l) }})
			l.tell(said)
			l.close()
			if events = append(events, sampled...); len(events) != 2 || len(lines) != 1 {
				t.Fatalf("%d events and %d lines", len(events), len(lines))
			}
			n := 0
			texts.Each([]any{events, lines}, func(path, got string) {
				n++
				isName := !strings.Contains(path, ".Err") && !strings.Contains(path, ".Spec")
				if r, bad := acts(got); bad || isName && strings.Contains(got, "\n") || !utf8.ValidString(got) || len(got) > printable.LongestMessage || isName && len(got) > printable.LongestName && !strings.HasSuffix(path, ".Text") {
					t.Errorf("%v: %s has %d bytes and %U: %.60q", kind, path, len(got), r, got)
				}
			})
			if n < 100 {
				t.Errorf("only %d texts were looked at", n)
			}
			for _, part := range []string{`\u001b`, `\u009b`, `\u202e`, "\u202e"} {
				if strings.Contains(log.String(), part) {
					t.Errorf("%v: the log has %s", kind, part)
				}
			}
		}
		if labels[text] != text || given.Spec != spec || given.Spec.OnPreemption != text || given.Tally.Ended[0].Name != text {
			t.Error("what was given is changed")
		}
	}
}
