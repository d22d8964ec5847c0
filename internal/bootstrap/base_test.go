//go:build unix

package bootstrap

import (
	"maps"
	"slices"
	"testing"
)

// Run reports the base that it set, cached or new, so that the next program sets the same.
func TestBaseIsHandedOut(t *testing.T) {
	n := newNode(t)
	n.link("chmod")
	n.program("uv", fakeUV)
	img := Image{Env: map[string]string{"STAGE": "test"}, Python: "3.12", Pip: []string{"numpy"}}
	for _, when := range []string{"made", "cached"} {
		n.SetBase(nil, nil)
		var got []Base
		if err := Run(t.Context(), n, noSync, img, Options{Base: func(b Base) { got = append(got, b) }}); err != nil {
			t.Fatal(err)
		}
		if len(got) != 2 || !maps.Equal(got[0].Env, map[string]string{"STAGE": "test", "PYTHONUNBUFFERED": "1"}) || got[0].Path != nil {
			t.Fatalf("%s: %+v", when, got)
		}
		last := got[1]
		if !maps.Equal(last.Env, n.base) || !slices.Equal(last.Path, n.path) {
			t.Errorf("%s: handed out %+v, and set %v and %v", when, last, n.base, n.path)
		}
		if venv := last.Env["VIRTUAL_ENV"]; venv == "" || last.Env["STAGE"] != "test" || !slices.Equal(last.Path, []string{venv + "/bin"}) {
			t.Errorf("%s: %+v", when, last)
		}
	}
}
