package main

import (
	"os"
	"path/filepath"
	"slices"
	"testing"
)

// Every fault applies to the current source. Only a run of the program shows whether the suite detects it.
func TestFaultsAreOfTheSource(t *testing.T) {
	lists, err := filepath.Glob("../../../providers/*/testdata/seeded-faults.txt")
	if err != nil || len(lists) == 0 {
		t.Fatal(lists, err)
	}
	n := 0
	for _, list := range lists {
		faults, err := read(filepath.Dir(filepath.Dir(list)))
		if err != nil {
			t.Error(err)
		}
		var names []string
		for _, f := range faults {
			n++
			source, err := f.seeded()
			if err != nil {
				t.Errorf("%s: %v", f.name, err)
				continue
			}
			now, err := os.ReadFile(filepath.Join(f.provider, f.file))
			if err != nil || source == string(now) || slices.Contains(names, f.name) {
				t.Errorf("fault %q of %s changes nothing, or its lines occur twice (%v)", f.name, f.provider, err)
			}
			names = append(names, f.name)
		}
	}
	if n < 25 {
		t.Errorf("%d faults", n)
	}
}

func TestListsThatAreWrong(t *testing.T) {
	for name, text := range map[string]string{
		"before the first":   "file: a.go\n",
		"no line of a fault": "## a\nnonsense\n",
		"no file":            "## a\nrun: Test\n-old\n+new\n",
		"no old lines":       "## a\nfile: a.go\nrun: Test\n+new\n",
	} {
		dir := t.TempDir()
		if err := os.Mkdir(filepath.Join(dir, "testdata"), 0o700); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(filepath.Join(dir, "testdata", "seeded-faults.txt"), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		if faults, err := read(dir); err == nil {
			t.Errorf("%s: %+v", name, faults)
		}
	}
}

func TestWhichTestHasFailed(t *testing.T) {
	for out, want := range map[string]string{
		"--- FAIL: TestConformance (1s)\n    --- FAIL: TestConformance/launch_of_three (1s)\n": "launch_of_three",
		"--- FAIL: TestRetries (0.1s)\n": "TestRetries",
		"panic: boom\n":                  "by the end of its program",
	} {
		if got := failed(out); got != want {
			t.Errorf("%q: %s", out, got)
		}
	}
}
