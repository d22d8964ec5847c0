package gputrain

import (
	"context"
	"errors"
	"maps"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// One call looks up each reference once, whoever has it.
func TestSecretsOfOneCallAreLookedUpOnce(t *testing.T) {
	path := filepath.Join(t.TempDir(), "key")
	write := func(text string) {
		t.Helper()
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	write("first")
	ref := Secret("file://" + path)
	given := map[string]Secret{"A": ref, "B": ref, "C": "hunter2"}
	was := maps.Clone(given)
	known := map[Secret]Secret{}
	for range 2 {
		got, err := resolveSecrets(t.Context(), given, known)
		if want := map[string]Secret{"A": "first", "B": "first", "C": "hunter2"}; err != nil || !maps.Equal(got, want) {
			t.Errorf("%d secrets, %v", len(got), err)
		}
		write("second")
	}
	if !maps.Equal(given, was) {
		t.Error("the caller's map was changed")
	}
	if got, err := resolveSecrets(t.Context(), given, map[Secret]Secret{}); err != nil || got["A"] != "second" {
		t.Errorf("another call has the older secret, or %v", err)
	}
}

func TestSecretThatIsNotThere(t *testing.T) {
	_, err := resolveSecrets(t.Context(), map[string]Secret{"A": "hunter2", "TOKEN": "env://GPUTRAIN_NO_SUCH"}, map[Secret]Secret{})
	if want := `secret TOKEN: invalid: "env://GPUTRAIN_NO_SUCH": the variable is not set`; !errors.Is(err, ErrInvalid) || err.Error() != want {
		t.Errorf("%v; want %s", err, want)
	}
	over := errors.New("given up")
	ctx, cancel := context.WithCancelCause(t.Context())
	cancel(over)
	if _, err := resolveSecrets(ctx, map[string]Secret{"TOKEN": "cmd://echo x"}, map[Secret]Secret{}); err != over {
		t.Errorf("after the end: %v", err)
	}
}

func TestReferencesThatAreNotWellFormed(t *testing.T) {
	task := Cmd("true")
	task.Secrets = map[string]Secret{"A": "env://", "B": "store://x", "C": "cmd://"}
	o := options{secrets: task.Secrets}
	for _, err := range []error{task.Validate(), o.validate()} {
		for _, want := range []string{`["A"]: "env://" names no variable`, `["B"]: "store://x" lacks`, `["C"]: "cmd://" has no command`} {
			if !errors.Is(err, ErrInvalid) || !strings.Contains(err.Error(), want) {
				t.Errorf("%v; want %s", err, want)
			}
		}
	}
}

// A secret that begins with another one is taken out whole.
func TestSecretsThatBeginAlike(t *testing.T) {
	for range 20 { // maps have no order
		var r redactor
		r.learn(map[string]Secret{"A": "hunter2", "B": "hunter2-and-more", "C": "hunter2-and"})
		if got := r.text("<hunter2-and-more>"); got != "<[redacted]>" {
			t.Fatal(got)
		}
	}
}
