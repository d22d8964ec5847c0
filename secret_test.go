package gputrain

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/gputrain/gputrain/providers/driver"
)

// Within one call, each reference is looked up once, even if several secrets use it.
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

func TestSecretsAndPricesPrint(t *testing.T) {
	s := struct {
		Key   Secret
		Price Price
		Free  Price
	}{Key: "sk-123"}
	s.Price, s.Free = driver.USD(1.5), driver.USD(0)
	for _, verb := range []string{"%v", "%+v", "%#v", "%s", "%q", "%x", "%d"} {
		if got := fmt.Sprintf(verb, s.Key) + fmt.Sprintf(verb, s); strings.Contains(got, "sk-123") || strings.Contains(got, "736b") {
			t.Errorf("%s printed %s", verb, got)
		}
	}
	if got := fmt.Sprint(s.Price, " ", s.Free, " ", Price{}, " ", driver.USD(0.0125)); got != "$1.50 $0.00 unknown $0.0125" {
		t.Errorf("prices print as %s", got)
	}
}
