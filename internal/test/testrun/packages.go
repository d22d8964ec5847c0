package main

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
)

// A pkg is a package of this module.
type pkg struct {
	folder  string   // from the top of the module, with slashes; "." is the top
	tests   bool     // it has some
	imports []string // folders of the module's packages that it or its tests import
}

// A module is the module's packages, and what has changed of it.
type module struct {
	lists   lists
	pkgs    []pkg
	base    string // since when something counts as changed, for people
	changed map[string]bool
}

// readModule asks go and git about the module in the working folder.
func readModule(l lists) (*module, error) {
	m := &module{lists: l, changed: map[string]bool{}}
	cmd := exec.Command("go", "list", "-json=Dir,Imports,TestGoFiles,TestImports,XTestGoFiles,XTestImports", "./...")
	cmd.Stderr = os.Stderr
	out, err := cmd.Output()
	if err != nil {
		return nil, fmt.Errorf("go list: %w", err)
	}
	top, err := os.Getwd()
	if err != nil {
		return nil, err
	}
	folders := map[string]bool{}
	for d := json.NewDecoder(strings.NewReader(string(out))); ; {
		var p struct {
			Dir                               string
			Imports, TestGoFiles, TestImports []string
			XTestGoFiles, XTestImports        []string
		}
		if err := d.Decode(&p); errors.Is(err, io.EOF) {
			break
		} else if err != nil {
			return nil, fmt.Errorf("go list: %w", err)
		}
		rel, err := filepath.Rel(top, p.Dir)
		if err != nil {
			return nil, err
		}
		folder := filepath.ToSlash(rel)
		folders[folder] = true
		q := pkg{folder: folder, tests: len(p.TestGoFiles)+len(p.XTestGoFiles) > 0}
		for _, path := range slices.Concat(p.Imports, p.TestImports, p.XTestImports) {
			if is := short(path); is != path {
				q.imports = append(q.imports, is)
			}
		}
		m.pkgs = append(m.pkgs, q)
	}
	var files []string
	files, m.base = changedFiles()
	for _, f := range files {
		if folder := folderOf(f, folders); folder != "" {
			m.changed[folder] = true
		}
	}
	return m, nil
}

// changedFiles returns the files that are not as they were at the merge base with the main branch, and says since when.
// Without git, or without a main branch, only what is not committed counts.
func changedFiles() (files []string, since string) {
	git := func(args ...string) string {
		out, err := exec.Command("git", args...).Output()
		if err != nil {
			return ""
		}
		return strings.TrimSpace(string(out))
	}
	base := "HEAD"
	for _, main := range []string{"@{upstream}", "origin/HEAD", "origin/main", "main"} {
		if at := git("merge-base", "HEAD", main); at != "" {
			base = at
			break
		}
	}
	text := git("diff", "--name-only", base) + "\n" + git("ls-files", "-o", "--exclude-standard")
	return strings.Split(text, "\n"), "commit " + git("rev-parse", "--short", base)
}

// folderOf returns the folder of the package that a file belongs to, also by its testdata, or an empty string.
func folderOf(file string, folders map[string]bool) string {
	if file == "" || path.Ext(file) == ".md" {
		return ""
	}
	if before, _, is := strings.Cut(file, "/testdata/"); is {
		return before
	}
	for folder := path.Dir(file); folder != "."; folder = path.Dir(folder) {
		if folders[folder] {
			return folder // also if the file is in a folder below, which the package embeds
		}
	}
	if !strings.Contains(file, "/") && (path.Ext(file) == ".go" || strings.HasPrefix(file, "go.")) {
		return "."
	}
	return ""
}

// expand returns what a word of a part's command stands for: folders as arguments of go test, or a pattern of tests.
func (m *module) expand(word string) ([]string, error) {
	var all []string
	add := func(want func(p pkg) bool) {
		for _, p := range m.pkgs {
			if want(p) {
				all = append(all, argument(p.folder))
			}
		}
	}
	switch word {
	case "@all":
		return []string{"./..."}, nil
	case "@own":
		add(func(p pkg) bool { return p.tests && m.smoke(p) == "" && !slices.Contains(m.lists.engine, p.folder) })
	case "@engine":
		add(func(p pkg) bool { return slices.Contains(m.lists.engine, p.folder) })
	case "@processes":
		add(func(p pkg) bool { return m.smoke(p) != "" })
	case "@changed":
		add(func(p pkg) bool { return m.smoke(p) != "" && m.hasChanged(p) })
	case "@unchanged":
		add(func(p pkg) bool { return m.smoke(p) != "" && !m.hasChanged(p) })
	case "@light":
		add(func(p pkg) bool { return !slices.Contains(m.lists.sdks, p.folder) })
	case "@pool":
		for _, folder := range m.lists.pool {
			all = append(all, argument(folder))
		}
	case "@many":
		return []string{"^(" + strings.Join(m.lists.many, "|") + ")$"}, nil
	case "@smoke":
		for _, s := range m.lists.slow {
			all = append(all, exactly(s.smoke))
		}
		return []string{strings.Join(all, "|")}, nil
	default:
		return nil, fmt.Errorf("lists.txt: %s stands for nothing", word)
	}
	rank := func(arg string) int {
		return slices.IndexFunc(m.lists.first, func(folder string) bool { return argument(folder) == arg })
	}
	slices.SortStableFunc(all, func(a, b string) int { return cmp.Compare(uint(rank(a)), uint(rank(b))) }) // -1 is last
	return all, nil
}

// smoke returns the smoke test of a package that starts many processes, or an empty string.
func (m *module) smoke(p pkg) string {
	for _, s := range m.lists.slow {
		if s.folder == p.folder {
			return s.smoke
		}
	}
	return ""
}

// hasChanged reports whether a package, or one that it imports directly, has changed since the merge base.
func (m *module) hasChanged(p pkg) bool {
	return m.changed[p.folder] || slices.ContainsFunc(p.imports, func(folder string) bool { return m.changed[folder] })
}

// argument returns a folder as go test wants it.
func argument(folder string) string {
	if folder == "." {
		return "."
	}
	return "./" + folder
}

// exactly returns the pattern of go test -run for one test or subtest.
func exactly(test string) string {
	elements := strings.Split(test, "/")
	for i, e := range elements {
		elements[i] = "^" + regexp.QuoteMeta(e) + "$"
	}
	return strings.Join(elements, "/")
}

// leftOut returns what the list test has left out: the packages of which only the smoke test ran.
func (m *module) leftOut() []string {
	var all []string
	for _, p := range m.pkgs {
		if m.smoke(p) != "" && !m.hasChanged(p) {
			all = append(all, p.folder)
		}
	}
	return all
}
