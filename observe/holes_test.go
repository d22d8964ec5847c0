package observe_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/gputrain/gputrain/observe"
)

// A file of holes is a line without end. Read does not read it to its end.
func TestReadOfHoles(t *testing.T) {
	file := filepath.Join(t.TempDir(), "events")
	if err := os.WriteFile(file, []byte("{\"seq\":1}\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := os.Truncate(file, 256<<20); err != nil {
		t.Skip(err)
	}
	if _, err := observe.Read(file); err == nil || !strings.Contains(err.Error(), "line 2: it has more than") {
		t.Errorf("%v", err)
	}
}
