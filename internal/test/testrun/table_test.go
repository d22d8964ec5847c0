package main

import (
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// here returns lists.txt, and the module, in whose folder the test goes on.
func here(t *testing.T) (lists, *module) {
	t.Helper()
	l, err := readLists(table)
	if err != nil {
		t.Fatal(err)
	}
	t.Chdir("../../..")
	m, err := readModule(l)
	if err != nil {
		t.Fatal(err)
	}
	return l, m
}

// What lists.txt names exists: folders, tests, parts, and words that begin with @.
func TestLists(t *testing.T) {
	l, m := here(t)
	folders := map[string]bool{}
	for _, p := range m.pkgs {
		folders[p.folder] = true
	}
	exists := func(folder, test string) {
		t.Helper()
		if !folders[folder] {
			t.Errorf("there is no package %s", folder)
			return
		}
		test, _, _ = strings.Cut(test, "/")
		files, _ := filepath.Glob(filepath.Join(folder, "*_test.go"))
		if !slices.ContainsFunc(files, func(file string) bool {
			text, err := os.ReadFile(file)
			return err == nil && strings.Contains(string(text), "\nfunc "+test)
		}) {
			t.Errorf("%s has no %s", folder, test)
		}
	}
	for _, s := range l.slow {
		exists(s.folder, s.smoke+"(")
	}
	for _, folder := range slices.Concat(l.first, l.pool, l.engine) {
		exists(folder, "Test")
	}
	for _, folder := range l.sdks {
		if !folders[folder] {
			t.Errorf("there is no package %s", folder)
		}
	}
	names := regexp.MustCompile(`Test\w+`)
	for i, p := range l.parts {
		if p.beside != "" && !slices.ContainsFunc(l.parts[i+1:], func(q part) bool { return q.name == p.beside }) {
			t.Errorf("%s runs beside %s, which is no later part", p.name, p.beside)
		}
		if slices.ContainsFunc(l.parts[:i], func(q part) bool { return q.name == p.name }) {
			t.Errorf("two parts are named %s", p.name)
		}
		if slices.Contains(p.words, "@image") || slices.Contains(p.words, "@fuzz") {
			continue
		}
		args, err := m.arguments(p.words)
		if err != nil {
			t.Errorf("%s: %v", p.name, err)
		}
		at := slices.Index(p.words, "-run")
		if at < 0 || strings.HasPrefix(p.words[at+1], "@") {
			continue
		}
		for _, test := range names.FindAllString(p.words[at+1], -1) {
			var found []string
			for _, a := range args {
				text, _ := filepath.Glob(filepath.Join(a, "*_test.go"))
				found = append(found, text...)
			}
			if !slices.ContainsFunc(found, func(file string) bool {
				text, err := os.ReadFile(file)
				return err == nil && strings.Contains(string(text), "\nfunc "+test)
			}) {
				t.Errorf("%s: no %s in its packages", p.name, test)
			}
		}
	}
	for _, list := range []string{"test", "full", "deep"} {
		if parts, err := l.of(list, "", nil); err != nil || len(parts) < 3 {
			t.Errorf("%s: %v, %v", list, parts, err)
		}
	}
}

// Every package with tests is in the list test, as one that tests in its own process or by its smoke test, and in full.
func TestNoPackageIsLeftOut(t *testing.T) {
	_, m := here(t)
	all := map[string]int{}
	for _, word := range []string{"@own", "@engine", "@changed", "@unchanged"} {
		folders, err := m.expand(word)
		if err != nil {
			t.Fatal(err)
		}
		for _, f := range folders {
			all[f]++
		}
	}
	for _, p := range m.pkgs {
		if p.tests && all[argument(p.folder)] != 1 {
			t.Errorf("%s occurs %d times", p.folder, all[argument(p.folder)])
		}
	}
}

// A package whose tests start containers does not run before the image is there.
func TestContainersHaveTheirImage(t *testing.T) {
	_, m := here(t)
	own, err := m.expand("@own")
	if err != nil {
		t.Fatal(err)
	}
	starts := regexp.MustCompile(`GPUTRAIN_REQUIRE_DOCKER"|NeedDocker\(|OpenContainers\(`)
	for _, folder := range own {
		if folder == "./internal/test/testrun" {
			continue // it names them
		}
		files, _ := filepath.Glob(filepath.Join(folder, "*_test.go"))
		for _, file := range files {
			if strings.HasPrefix(filepath.Base(file), "bench") {
				continue // no list runs benchmarks beside an image in the making
			}
			if text, err := os.ReadFile(file); err != nil || starts.Match(text) {
				t.Errorf("%s starts containers, or cannot be read (%v): name its package under [engine] or [processes] of lists.txt", file, err)
			}
		}
	}
}

// A test that skips in a short run says that a list runs it. CI fails at any other reason.
func TestShortSkipsNameTheirList(t *testing.T) {
	_, m := here(t)
	skips := regexp.MustCompile(`testing\.Short\(\)[^\n]*{\n\s*[\w.]*\.Skipf?\("?([^"\n]*)`)
	found := 0
	for _, p := range m.pkgs {
		files, _ := filepath.Glob(filepath.Join(p.folder, "*_test.go"))
		for _, file := range files {
			text, err := os.ReadFile(file)
			if err != nil {
				t.Fatal(err)
			}
			for _, skip := range skips.FindAllSubmatch(text, -1) {
				found++
				if why := string(skip[1]); !strings.HasPrefix(why, waitsForDeep) && !isByDesign(why) {
					t.Errorf("%s skips with %s: begin the reason with %q", file, skip[1], waitsForDeep)
				}
			}
		}
	}
	if found == 0 {
		t.Error("no test skips in a short run")
	}
}

func TestListsRefuse(t *testing.T) {
	for _, text := range []string{"[parts]\na test", "a test - go test", "[processes]\nfolder", "[parts]\na test - go test 'x"} {
		if _, err := readLists(text); err == nil || !strings.HasPrefix(err.Error(), "lists.txt:") {
			t.Errorf("%q: %v", text, err)
		}
	}
	l, err := readLists("[parts]\na x,y - A=1 B=2 go test -run 'A B' # why\nb y a go vet\n")
	if err != nil {
		t.Fatal(err)
	}
	if p := l.parts[0]; strings.Join(p.env, ",") != "A=1,B=2" || strings.Join(p.words, ",") != "go,test,-run,A B" || p.beside != "" || l.parts[1].beside != "a" {
		t.Errorf("%+v", l.parts)
	}
	if some, err := l.of("y", "x", nil); err != nil || len(some) != 1 || some[0].name != "b" {
		t.Errorf("%v, %v", some, err)
	}
	if _, err := l.of("x", "", []string{"b"}); err == nil || !strings.Contains(err.Error(), `"b"`) {
		t.Error(err)
	}
}

func TestFolderOf(t *testing.T) {
	folders := map[string]bool{".": true, "a": true, "a/b": true}
	for file, want := range map[string]string{
		"x.go": ".", "go.mod": ".", "README.md": "", "LICENSE": "", "scripts/test": "", "a/x.go": "a", "a/b/start.sh": "a/b",
		"a/testdata/deep/x.json": "a", "a/page/index.html": "a", "a/doc.md": "", "": "",
	} {
		if got := folderOf(file, folders); got != want {
			t.Errorf("%s: %q, want %q", file, got, want)
		}
	}
}
