package local

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/gputrain/gputrain/internal/machine"
)

// Reading a home's mark of any content is an error, or a mark that is written back the same.
// Homes are listed in both cases.
func FuzzMark(f *testing.F) {
	f.Add([]byte(`{"pool":"p-1","rank":0}`))
	f.Add([]byte(`{"pool":7}`))
	f.Add([]byte(`[`))
	f.Add([]byte(``))
	f.Fuzz(func(t *testing.T, text []byte) {
		dir := t.TempDir()
		home := machine.Home(filepath.Join(dir, homePrefix+"p-1-0"))
		if err := home.Make(); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(filepath.Join(string(home), markFile), text, 0o600); err != nil {
			t.Fatal(err)
		}
		m, err := readMark(home)
		listed, listErr := homes(dir).ofPool("p-1")
		if listErr != nil {
			t.Fatal(listErr)
		}
		if found, ok := listed["p-1-0"]; ok && err == nil && (found.mark.Pool != "p-1" || found.mark.Pool != m.Pool) {
			t.Errorf("a home of %q is one of p-1", m.Pool)
		}
		if _, ok := listed["p-1-0"]; !ok && (err != nil || m.Pool == "p-1") {
			t.Errorf("the home is not found: %+v, %v", m, err)
		}
		if _, err := keptHostKey(home); err == nil {
			t.Error("there is no key")
		}
	})
}
