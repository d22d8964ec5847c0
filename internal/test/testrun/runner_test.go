package main

import (
	"bytes"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// files writes files into a new folder, which becomes the working folder.
func files(t *testing.T, all map[string]string) {
	t.Helper()
	dir := t.TempDir()
	for name, text := range all {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	t.Chdir(dir)
}

// A test that fails and then passes is flaky: it is named, with what it printed, and the run fails. One that fails twice is not.
func TestFlaky(t *testing.T) {
	files(t, map[string]string{"go.mod": "module example.com/m\n\ngo 1.26\n", "m_test.go": `package m
import ("os"; "testing")
func TestFine(t *testing.T) {}
func TestFlaky(t *testing.T) {
	if os.Mkdir("tried", 0o777) == nil { t.Error("it broke by chance") }
}
func TestBroken(t *testing.T) { if os.Getenv("BROKEN") != "" { t.Error("it broke") } }
`})
	for env, want := range map[string]string{"BROKEN=": "FLAKY: failed, and passed the second time (its output is above): example.com/m TestFlaky", "BROKEN=1": ""} {
		os.Remove("tried")
		var out bytes.Buffer
		r := &runner{module: &module{}, report: newReport(&out, func() time.Duration { return 0 })}
		ok := r.run(t.Context(), []part{{name: "own", env: []string{env}, words: []string{"go", "test", "-count=1", "."}}})
		r.end("")
		if ok || !strings.Contains(out.String(), "it broke by chance") || strings.Contains(out.String(), "FLAKY") != (want != "") || !strings.Contains(out.String(), want) {
			t.Errorf("%s: %v\n%s", env, ok, out.String())
		}
	}
}

// Arguments are those of go test, for one run; what they name is counted, and what fails is an error.
func TestArguments(t *testing.T) {
	files(t, map[string]string{"go.mod": "module example.com/m\n\ngo 1.26\n", "m_test.go": `package m
import "testing"
func TestFine(t *testing.T) {}
func TestBroken(t *testing.T) { t.Error("it broke") }
`})
	for pattern, want := range map[string]bool{"Fine": true, "Broken": false} {
		var out bytes.Buffer
		ok, err := runLists(t.Context(), &out, []string{"-run", pattern, "."})
		if ok != want || err != nil || !strings.Contains(out.String(), " 1/1 ") {
			t.Errorf("%s: %v, %v\n%s", pattern, ok, err, out.String())
		}
	}
	if _, err := runLists(t.Context(), io.Discard, []string{"-full", "nothing"}); err == nil || !strings.Contains(err.Error(), `no part "nothing"`) {
		t.Error(err)
	}
}

// A part runs beside others up to the one that it names, and no longer.
func TestBeside(t *testing.T) {
	files(t, nil)
	l, err := readLists(`[parts]
slow  x  b  sh -c 'until [ -e b-began ]; do sleep 0.01; done; : >slow-ended'
a     x  -  sh -c '! [ -e slow-ended ]'
b     x  -  sh -c ': >b-began'
c     x  -  sh -c '[ -e slow-ended ]'
d     x  -  false
e     x  -  sh -c ': >e-ended'
`)
	if err != nil {
		t.Fatal(err)
	}
	var out bytes.Buffer
	r := &runner{module: &module{}, report: newReport(&out, func() time.Duration { return 0 })}
	if r.run(t.Context(), l.parts) || strings.Join(r.failed, " ") != "d" {
		t.Errorf("failed: %v\n%s", r.failed, out.String())
	}
	if _, err := os.Stat("e-ended"); err != nil {
		t.Error("the parts after one that fails do not run")
	}
}

// The log says which parts have passed on the sources as they are: not on others, but whatever documents say.
func TestDeepLog(t *testing.T) {
	files(t, map[string]string{"x.go": "package x\n", "README.md": "one\n"})
	git := func(args ...string) {
		t.Helper()
		if out, err := exec.Command("git", append([]string{"-c", "user.name=x", "-c", "user.email=x@example.com"}, args...)...).CombinedOutput(); err != nil {
			t.Fatalf("git %v: %v: %s", args, err, out)
		}
	}
	if err := os.MkdirAll(filepath.Dir(logFile), 0o777); err != nil {
		t.Fatal(err)
	}
	git("init", "-q")
	git("add", ".")
	git("commit", "-qm", "one")
	passed := func(part string) bool { return openLog().passed(part) != "" }
	add := func(part, result string) {
		t.Helper()
		if err := openLog().add(part, result, time.Minute, "7 tests passed"); err != nil {
			t.Fatal(err)
		}
	}
	add("plans", "passed")
	add("gangs", "FAILED")
	if !passed("plans") || passed("gangs") || passed("kills") {
		t.Error("the log does not say that plans alone has passed")
	}
	os.WriteFile("README.md", []byte("two\n"), 0o644)
	git("add", ".")
	git("commit", "-qm", "the log and a document")
	if !passed("plans") {
		t.Error("a document changes the sources")
	}
	os.WriteFile("new.go", []byte("package x\n"), 0o644)
	if passed("plans") {
		t.Error("a file that git does not know does not count")
	}
	os.Remove("new.go")
	os.WriteFile("x.go", []byte("package y\n"), 0o644)
	if passed("plans") {
		t.Error("a change that is not committed does not count")
	}
	add("kills", "passed")
	if passed("kills") {
		t.Error("what passed on sources that are not committed counts")
	}
	git("commit", "-qam", "two")
	if passed("plans") || passed("kills") {
		t.Error("other sources have passed")
	}
	add("plans", "passed")
	add("plans", "FAILED")
	if passed("plans") {
		t.Error("what has failed since counts as passed")
	}
}
