package main

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
)

var fuzzTarget = regexp.MustCompile(`(?m)^func (Fuzz\w*)\(`)

// fuzz runs each fuzz target for a time, or for a number of inputs such as 3000x. It finds targets in the sources: go test
// -list for every package takes longer than the runs. Targets of internal/test/hostile wait for silent nodes longer than
// the fuzzer allows; TestHostileSeeds runs the same programs.
func (r *runner) fuzz(ctx context.Context, long string) (ok bool, err error) {
	out, err := exec.Command("git", "grep", "-h", "--name-only", "^func Fuzz", "--", "*_test.go", ":!internal/test/hostile").Output()
	if err != nil {
		return false, fmt.Errorf("git grep: %w", err)
	}
	ok = true
	for file := range strings.FieldsSeq(string(out)) {
		text, err := os.ReadFile(file)
		if err != nil {
			return false, err
		}
		for _, target := range fuzzTarget.FindAllSubmatch(text, -1) {
			name := string(target[1])
			where := argument(filepath.ToSlash(filepath.Dir(file)))
			out, err := r.command(ctx, nil, "go", "test", "-vet=off", "-run", "^$", "-fuzz", "^"+name+"$", "-fuzztime", long, "-fuzzminimizetime", "200x", where)
			if err != nil {
				r.report.say("%s %s: %v\n%s", where, name, err, indented(string(out)))
				ok = false
			}
			if ctx.Err() != nil {
				return false, ctx.Err()
			}
		}
	}
	return ok, nil
}
