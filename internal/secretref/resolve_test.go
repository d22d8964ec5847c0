package secretref

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
)

func write(t testing.TB, path, text string) string {
	t.Helper()
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

// place puts a secret into every place that a reference can name, and sets the working directory
// and the user's home.
func place(t testing.TB) {
	t.Helper()
	t.Chdir(t.TempDir())
	t.Setenv("HOME", t.TempDir())
	t.Setenv("USERPROFILE", os.Getenv("HOME"))
	t.Setenv("SECRETREF_TOKEN", "of-the-env")
	t.Setenv("SECRETREF_REF", "env://SECRETREF_TOKEN")
	t.Setenv("SECRETREF_EMPTY", "")
	write(t, filepath.Join(os.Getenv("HOME"), "key"), "of-the-home\n")
	write(t, "key", "of-the-directory\r\n")
	write(t, "lines", "one\ntwo\n\n")
	write(t, "bare", " no newline ")
	write(t, "empty", "\n")
	write(t, "utf16", "k\x00e\x00y\x00")
	write(t, "most", strings.Repeat("x", maxSize))
	write(t, "large", strings.Repeat("x", maxSize+1))
	kept := map[[2]string]string{{"gputrain", "lambda"}: "of-the-keyring", {"https://api.example/v1", "me"}: "of-an-address"}
	RegisterKeyring(func(_ context.Context, service, user string) (string, error) {
		if secret, ok := kept[[2]string{service, user}]; ok {
			return secret, nil
		}
		return "", fmt.Errorf("nothing for %q and %q", service, user)
	})
	t.Cleanup(func() { RegisterKeyring(nil) })
}

// Without its client there is no keyring. The error says how to get the client.
func TestNoKeyringIsLinked(t *testing.T) {
	_, err := Resolve(t.Context(), "store://gputrain/lambda")
	if err == nil || !strings.Contains(err.Error(), `"store://gputrain/lambda": this program has no client for the keyring; import _ `) {
		t.Error(err)
	}
}

func TestResolve(t *testing.T) {
	place(t)
	here, err := os.Getwd()
	if err != nil {
		t.Fatal(err)
	}
	for value, want := range map[string]string{
		"":                                     "",
		"hunter2":                              "hunter2",
		" env://SECRETREF_TOKEN":               " env://SECRETREF_TOKEN",
		"ENV://SECRETREF_TOKEN":                "ENV://SECRETREF_TOKEN",
		"env:/SECRETREF_TOKEN":                 "env:/SECRETREF_TOKEN",
		"vault://secret/key\n":                 "vault://secret/key\n",
		"literal://":                           "",
		"literal://env://SECRETREF_TOKEN\n":    "env://SECRETREF_TOKEN\n",
		"env://SECRETREF_TOKEN":                "of-the-env",
		"env://SECRETREF_REF":                  "env://SECRETREF_TOKEN",
		"file://key":                           "of-the-directory",
		"file://./key":                         "of-the-directory",
		"file://" + filepath.Join(here, "key"): "of-the-directory",
		"file://~/key":                         "of-the-home",
		"file://lines":                         "one\ntwo\n",
		"file://bare":                          " no newline ",
		"file://most":                          strings.Repeat("x", maxSize),
		"store://gputrain/lambda":              "of-the-keyring",
		"store://https://api.example/v1/me":    "of-an-address",
	} {
		if err := Check(value); err != nil {
			t.Errorf("Check(%q): %v", value, err)
		}
		if got, err := Resolve(t.Context(), value); err != nil || got != want {
			t.Errorf("%q is %.40q, %v; want %.40q", value, got, err, want)
		}
	}
}

func TestResolveErrors(t *testing.T) {
	place(t)
	for _, tt := range []struct{ value, want string }{
		{"env://SECRETREF_NONE", `"env://SECRETREF_NONE": the variable is not set`},
		{"env://SECRETREF_EMPTY", `"env://SECRETREF_EMPTY": it is empty`},
		{"file://none", `"file://none": `},
		{"file://none", filepath.Join(filepath.Base(mustGetwd(t)), "none")},
		{"file://.", "it is a directory"},
		{"file://empty", "it is empty"},
		{"file://utf16", "NUL byte"},
		{"file://large", "it is larger than 1 MiB"},
		{"store://gputrain/vastai", `"store://gputrain/vastai": nothing for "gputrain" and "vastai"`},
	} {
		if err := Check(tt.value); err != nil {
			t.Errorf("Check(%q): %v", tt.value, err)
		}
		if got, err := Resolve(t.Context(), tt.value); err == nil || got != "" || !strings.Contains(err.Error(), tt.want) {
			t.Errorf("%q is %.40q, %v; want an error with %q", tt.value, got, err, tt.want)
		}
	}
}

func mustGetwd(t *testing.T) string {
	t.Helper()
	dir, err := os.Getwd()
	if err != nil {
		t.Fatal(err)
	}
	return dir
}

// A malformed reference is found without a look-up.
func TestCheck(t *testing.T) {
	for value, want := range map[string]string{
		"env://":            `"env://" names no variable; write env://NAME`,
		"env://A=B":         "names no variable",
		"file://":           "names no file",
		"store://":          "lacks a service or a user",
		"store://gputrain":  "lacks a service or a user",
		"store:///lambda":   "lacks a service or a user",
		"store://gputrain/": "lacks a service or a user",
		"cmd:// \n":         `"cmd://" has no command`,
	} {
		err := Check(value)
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("Check(%q) is %v; want %q", value, err, want)
		}
		if got, again := Resolve(t.Context(), value); again == nil || got != "" || again.Error() != err.Error() {
			t.Errorf("Resolve(%q) is %q, %v; want %v", value, got, again, err)
		}
	}
}

func TestNothingIsLookedUpAfterTheEnd(t *testing.T) {
	place(t)
	over := errors.New("the pool is closed")
	ctx, cancel := context.WithCancelCause(t.Context())
	cancel(over)
	for _, value := range []string{"env://SECRETREF_TOKEN", "file://key", "store://gputrain/lambda", "cmd://echo x"} {
		if got, err := Resolve(ctx, value); !errors.Is(err, over) || got != "" {
			t.Errorf("%q is %q, %v", value, got, err)
		}
	}
	if got, err := Resolve(ctx, "hunter2"); got != "hunter2" || err != nil {
		t.Errorf("a literal is %q, %v", got, err)
	}
}

// Each call looks the reference up again: nothing is cached.
func TestNothingIsCached(t *testing.T) {
	place(t)
	for _, want := range []string{"first", "second"} {
		write(t, "key", want)
		if got, err := Resolve(t.Context(), "file://key"); got != want || err != nil {
			t.Errorf("%q, %v; want %q", got, err, want)
		}
	}
}

func TestManyAtOnce(t *testing.T) {
	place(t)
	var wg sync.WaitGroup
	for range 8 {
		for value, want := range map[string]string{"env://SECRETREF_TOKEN": "of-the-env", "file://key": "of-the-directory", "store://gputrain/lambda": "of-the-keyring"} {
			wg.Go(func() {
				if got, err := Resolve(t.Context(), value); got != want || err != nil {
					t.Errorf("%q is %q, %v", value, got, err)
				}
			})
		}
	}
	wg.Wait()
}

func FuzzResolve(f *testing.F) {
	for _, s := range []string{"", "x", "env://A", "env://", "file:///etc/x", "file://~/x", "store://a/b", "cmd://op read x", "cmd://A=hunter2 op", "cmd://\x00", "literal://env://A", "evn://A", "env:/A"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, value string) {
		r := parse(value)
		isRef := strings.HasPrefix(value, r.scheme+"://")
		switch {
		case isRef && r.scheme+"://"+r.rest != value, !isRef && (r.scheme != "literal" || r.rest != value):
			t.Fatalf("%q is parsed as %q and %q", value, r.scheme, r.rest)
		}
		err := Check(value)
		if r.scheme == "literal" {
			if got, resolveErr := Resolve(t.Context(), value); err != nil || resolveErr != nil || got != r.rest {
				t.Errorf("the literal %q is %q, %v, %v", value, got, err, resolveErr)
			}
			return
		}
		if err != nil { // nothing may be looked up for it
			if _, again := Resolve(t.Context(), value); again == nil || again.Error() != err.Error() {
				t.Errorf("%q: %v, and then %v", value, err, again)
			}
			return
		}
		if words := strings.Fields(r.rest); r.scheme == "cmd" && len(words) > 1 {
			if got := r.String(); got != `"cmd://`+words[0]+` ..."` && got != `"cmd://..."` {
				t.Errorf("%q is shown as %s", value, got)
			}
		}
	})
}
