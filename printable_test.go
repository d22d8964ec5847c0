package gputrain

import (
	"bytes"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"testing"
	"unicode"
)

// commands is what a hostile cloud or node may put into a text: it names a window, clears
// the screen, goes up and writes over what stands there, and turns the rest around.
const commands = "\x1b]0;pwned\a\x1b[2J\x1b[1A\u009b2Kno\r[node 0] all is \u202ewell\x1b[32m\xff\x00"

// acts returns the first character of a text that a terminal would act on.
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
		"a node's":      (&pool{secrets: &redactor{}}).withoutSecrets(fmt.Errorf("node 0: %w", said)),
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
	e := newEvents("p", func(ev Event) { seen = append(seen, ev) }, slog.New(slog.NewTextHandler(&log, nil)))
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

// What a node prints can neither leave its line nor hide its prefix, unless that is asked for.
func TestOutputCommandsNoTerminal(t *testing.T) {
	in := "\x1b[31mred\x1b[0m\tok\n10%\r20%\r\x1b[K30%\r\n" + "mine\r\x1b[2K[node 1] theirs\nhun\x1b[1mter2\nhunter2\n"
	for raw, want := range map[bool]string{
		false: "[a] red\tok\n[a] 30%\n[a] [node 1] theirs\n[a] [redacted]\n[a] [redacted]\n",
		true:  "[a] \x1b[31mred\x1b[0m\tok\n[a] 10%\r20%\r\x1b[K30%\r\n[a] mine\r\x1b[2K[node 1] theirs\n[a] hun\x1b[1mter2\n[a] [redacted]\n",
	} {
		var out bytes.Buffer
		secrets := &redactor{}
		secrets.learn(map[string]Secret{"K": "hunter2"})
		o := options{}
		WithOutput(&out, nil)(&o)
		if raw {
			WithRawOutput()(&o)
		}
		w, _ := newOutput(o, secrets).writers("a")
		w.Write([]byte(in))
		w.flush()
		if out.String() != want {
			t.Errorf("raw is %v: got %q\nwant %q", raw, out.String(), want)
		}
	}
}

// A secret is known by what can be seen of it, too.
func TestSecretsWithSequencesInside(t *testing.T) {
	secrets := &redactor{}
	secrets.learn(map[string]Secret{"K": "hunter2", "PEM": "line one\nline\x1btwo"})
	for _, in := range []string{"hunter2", "hun\x1b[0mter2", "h\x00unter\u202e2", "\x1b]0;hunter2\a!", "line\x1btwo"} {
		if got := secrets.text(in); strings.Contains(got, "hunter2") || strings.Contains(got, "two") {
			t.Errorf("%q becomes %q", in, got)
		}
	}
}
