package attempt

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/gputrain/gputrain/internal/transfer"
)

// OptionalMark begins a pattern of Attempt.Outputs that may match nothing.
const OptionalMark = "optional:"

// CheckPattern returns the mistake in a pattern of Attempt.Outputs, or nil.
func CheckPattern(pattern string) error {
	return transfer.CheckPattern(strings.TrimPrefix(pattern, OptionalMark))
}

// patterns are patterns without their marks.
type patterns struct {
	all    []string
	needed []string // those that must match a file
}

func patternsOf(outputs []string) (p patterns) {
	for _, text := range outputs {
		pattern, optional := strings.CutPrefix(text, OptionalMark)
		p.all = append(p.all, pattern)
		if !optional {
			p.needed = append(p.needed, pattern)
		}
	}
	return p
}

// fetch brings the files of an attempt that succeeded, from all places. It is an error if a pattern matches none.
func (r *Runner) fetch(ctx context.Context, from Files, a *Attempt, o *Outcome, places []transfer.FetchOptions) error {
	dir, err := r.outputDir(a)
	if err != nil {
		return err
	}
	want := patternsOf(a.Outputs)
	found := map[string]transfer.File{}
	limits := r.Files
	for _, place := range places {
		place.Limits = limits
		var files []transfer.File
		err = a.reported(&place, func() (err error) {
			files, err = from.Fetch(ctx, want.all, dir, place)
			return err
		})
		for _, f := range files {
			found[f.Name] = f
		}
		if err != nil {
			break
		}
		limits = limits.Less(files)
	}
	for _, name := range slices.Sorted(maps.Keys(found)) {
		o.Outputs = append(o.Outputs, found[name])
	}
	if len(found) > 0 {
		o.OutputDir = dir
	}
	if err != nil {
		return transfer.Explain(err, "")
	}
	if none := transfer.Unmatched(want.needed, o.Outputs); len(none) > 0 {
		return unmatched(ctx, from, none, places)
	}
	return nil
}

// outputDir makes the folder of an attempt, and returns the path of that of its output files, which is not made.
func (r *Runner) outputDir(a *Attempt) (string, error) {
	dir, err := r.Results.Attempt(a.ID)
	return filepath.Join(dir, "outputs"), err
}

const (
	// The node has nearPatience to list the folders that were searched.
	nearPatience = 10 * time.Second
	// It lists them for nearPatterns patterns at most.
	nearPatterns = 3
)

// unmatched returns the error of patterns that matched nothing. It lists the folders that were searched, if the node
// answers.
func unmatched(ctx context.Context, from Files, none []string, places []transfer.FetchOptions) error {
	ctx, cancel := context.WithTimeout(ctx, nearPatience)
	defer cancel()
	var there []string
	old := ""
	for _, place := range places {
		near, err := from.Near(ctx, none[:min(nearPatterns, len(none))], place.Dir)
		if err != nil {
			continue // the list is only a help
		}
		for _, at := range near {
			if text := at.String(); text != "" && !slices.Contains(there, text) {
				there = append(there, text)
			}
			if place.Since != "" && len(at.Matching) > 0 && old == "" {
				old = fmt.Sprintf(" (%.100q there is older than the attempt)", at.Matching[0])
			}
		}
	}
	what := "no file matches the pattern"
	if len(none) > 1 {
		what += "s"
	}
	for i, pattern := range none {
		if i > 0 {
			what += ","
		}
		what += fmt.Sprintf(" %q", pattern)
	}
	if there == nil {
		there = []string{"neither the task's Dir nor its scratch directory has one"}
	}
	return errors.New(what + ": " + strings.Join(there, "; ") + old + "; if there need not be one, use gputrain.Optional")
}
