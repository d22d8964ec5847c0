package transfer

import (
	"errors"
	"io/fs"
	"path/filepath"
	"slices"
	"testing"
)

// A mirror lists all that Upload could have made, and brings files by their exact names.
func TestMirror(t *testing.T) {
	ways(t, func(t *testing.T, r *Remote) {
		tree{
			"c/step-1/a b/*?": "one", "c/step-1/empty": "", "c/step-1/none": "/", "c/step-1/in": "-> a b", "c/step-1/out": "-> ../../x", "c/step-1/abs": "-> /etc", "c/other": "x",
		}.make(t, r.Dir)
		m := Mirror{r}
		all, err := m.Contents(t.Context(), "c", "step-1", Limits{})
		must(t, err)
		var names []string
		for _, c := range all {
			names = append(names, c.Name)
			if c.Time == 0 || c.Mode.IsRegular() == c.Mode.IsDir() && c.Target != "a b" {
				t.Errorf("%+v", c)
			}
		}
		if want := []string{"step-1", "step-1/a b", "step-1/a b/*?", "step-1/empty", "step-1/in", "step-1/none"}; !slices.Equal(names, want) {
			t.Errorf("%q", names)
		}
		here := t.TempDir()
		files, err := m.FetchFiles(t.Context(), all, here, FetchOptions{Dir: "c"})
		must(t, err)
		tree{"step-1/a b/*?": "one", "step-1/empty": ""}.compare(t, here)
		sums, err := m.Sums(t.Context(), filepath.Join(r.Dir, "c"), []string{files[0].Name, files[1].Name})
		if err != nil || !slices.Equal(sums, []string{files[0].SHA256, files[1].SHA256}) {
			t.Errorf("%v, %v", sums, err)
		}
		if _, err := m.Contents(t.Context(), "c", "step-2", Limits{}); !errors.Is(err, fs.ErrNotExist) {
			t.Error(err)
		}
		if _, err := m.Contents(t.Context(), "c", "step-1", Limits{Files: 3}); !errors.As(err, new(*LimitError)) {
			t.Error(err)
		}
		if _, err := m.Script(t.Context(), "x", "echo $v; yes", 100, "v=1"); err == nil {
			t.Error("an answer without end is taken")
		}
	})
}
