package apifacts

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// A reader is a test that reads contracts. It records how reading ends instead of ending.
type reader struct {
	testing.TB
	said string
}

func (r *reader) Fatalf(format string, _ ...any) { r.said += "fatal: " + format }
func (r *reader) Skipf(format string, _ ...any)  { r.said += "skip: " + format }

func TestContractsAreMissing(t *testing.T) {
	module := filepath.Join(t.TempDir(), "module")
	below := filepath.Join(module, "providers", "acme")
	if err := os.MkdirAll(below, 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(module, "go.mod"), nil, 0o600); err != nil {
		t.Fatal(err)
	}
	t.Chdir(below)
	for require, want := range map[string]string{"": "skip: the contracts are missing", "1": "fatal: the contracts are missing"} {
		t.Setenv("GPUTRAIN_REQUIRE_SHARED", require)
		r := &reader{TB: t}
		if Contracts(r); !strings.HasPrefix(r.said, want) {
			t.Errorf("with GPUTRAIN_REQUIRE_SHARED=%q: %s", require, r.said)
		}
	}

	// If the folder exists, a missing file fails every test.
	t.Setenv("GPUTRAIN_REQUIRE_SHARED", "")
	if err := os.MkdirAll(filepath.Join(module, "..", "shared", "contracts"), 0o700); err != nil {
		t.Fatal(err)
	}
	r := &reader{TB: t}
	if Read(r, "acme/api.json"); !strings.HasPrefix(r.said, "fatal: a contract file is missing") {
		t.Error(r.said)
	}
}
