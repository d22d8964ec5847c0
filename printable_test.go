package gputrain

import (
	"bytes"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"testing"
	"unicode"

	"github.com/gputrain/gputrain/internal/output"
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
