package main

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
)

// A fault is one deliberate bug in a provider's source.
type fault struct {
	provider string // the package's folder
	name     string // a description
	file     string
	old, new string
	run      string // the pattern for go test -run
}

// read reads the faults of a provider: blocks that begin with "## name", then lines "file: name" and "run: pattern",
// then the lines to replace, which begin with "-", and the new lines, which begin with "+".
func read(dir string) ([]fault, error) {
	path := filepath.Join(dir, "testdata", "seeded-faults.txt")
	text, err := os.ReadFile(path)
	if err != nil {
		return nil, err
	}
	var all []fault
	for i, line := range strings.Split(string(text), "\n") {
		where := fmt.Sprintf("%s:%d", path, i+1)
		if name, ok := strings.CutPrefix(line, "## "); ok {
			all = append(all, fault{provider: dir, name: name})
			continue
		}
		if strings.TrimSpace(line) == "" || line[0] == '#' {
			continue
		}
		if all == nil {
			return nil, fmt.Errorf("%s: before the first fault", where)
		}
		f := &all[len(all)-1]
		key, value, _ := strings.Cut(line, ": ")
		switch {
		case line[0] == '-':
			f.old += line[1:] + "\n"
		case line[0] == '+':
			f.new += line[1:] + "\n"
		case key == "file":
			f.file = value
		case key == "run":
			f.run = value
		default:
			return nil, fmt.Errorf("%s: %q is not a line of a fault", where, line)
		}
	}
	for _, f := range all {
		if f.file == "" || f.run == "" || f.old == "" {
			return nil, fmt.Errorf("%s: %q lacks its file, its run or its old lines", path, f.name)
		}
	}
	return all, nil
}

// seeded returns the source of the fault's file with the fault applied.
func (f fault) seeded() (string, error) {
	path := filepath.Join(f.provider, f.file)
	text, err := os.ReadFile(path)
	if err != nil {
		return "", err
	}
	if n := strings.Count(string(text), f.old); n != 1 {
		return "", fmt.Errorf("%s has the old lines %d times, not once", path, n)
	}
	return strings.Replace(string(text), f.old, f.new, 1), nil
}
