package crossbuild

import (
	"path/filepath"
	"testing"
)

func TestRunningKnowsItself(t *testing.T) {
	p, err := Running()
	if err != nil {
		t.Fatal(err)
	}
	if !p.Test || p.packagePath() != "github.com/gputrain/gputrain/internal/crossbuild" || p.Info.Main.Path != "github.com/gputrain/gputrain" {
		t.Errorf("this is a test of %q in %q: %v", p.packagePath(), p.Info.Main.Path, p.Test)
	}
	found := map[string]bool{}
	for _, f := range p.Files {
		found[filepath.Base(f)] = true
	}
	if !found["program.go"] || !found["program_test.go"] || found["_testmain.go"] {
		t.Errorf("its sources are %q", p.Files)
	}
}

func BenchmarkOwnSources(b *testing.B) {
	for b.Loop() {
		ownSources("github.com/gputrain/gputrain/internal/crossbuild.test")
	}
}
