package gputrain

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

// optionalMark begins a pattern of Task.Outputs that may match nothing.
const optionalMark = "optional:"

// Optional marks a pattern of Task.Outputs that may match nothing: it returns
// "optional:" and the pattern, which can be written so as well. A file whose own name
// begins with that is named with "./" before it.
func Optional(pattern string) string {
	if strings.HasPrefix(pattern, optionalMark) {
		return pattern
	}
	return optionalMark + pattern
}

// outputPatterns are the patterns of Task.Outputs without their marks.
type outputPatterns struct {
	all    []string
	needed []string // those that are not optional
}

func outputPatternsOf(outputs []string) (p outputPatterns) {
	for _, text := range outputs {
		pattern, optional := strings.CutPrefix(text, optionalMark)
		p.all = append(p.all, pattern)
		if !optional {
			p.needed = append(p.needed, pattern)
		}
	}
	return p
}

func (p outputPatterns) validate(f *faults) {
	for i, pattern := range p.all {
		if err := transfer.CheckPattern(pattern); err != nil {
			f.add("Outputs[%d]: %v", i, err)
		}
	}
}

// collect brings the files that match Task.Outputs: those of Dir that changed
// since the attempt began, so that none is an older attempt's, and those of its
// scratch directory. What came is in the result, also beside a failure.
func (n *poolNode) collect(ctx context.Context, u *unit, r *Result, scratch, marker string) *TaskError {
	if len(u.task.Outputs) == 0 {
		return nil
	}
	patterns := outputPatternsOf(u.task.Outputs)
	places := []transfer.FetchOptions{{Dir: u.task.Dir, Since: marker}, {Dir: scratch}}
	err := n.bring(ctx, u.attemptID(), patterns, places, r)
	switch {
	case err == nil:
		return nil
	case u.ctx.Err() != nil:
		return u.failure(n, CauseCancelled, context.Cause(u.ctx))
	case n.isOver():
		return u.failure(n, CauseNodeLost, n.lastError())
	}
	return u.failure(n, CauseOutputs, n.p.withoutSecrets(err))
}

// bring brings the files of an attempt from all places, and then looks for patterns that
// matched none.
func (n *poolNode) bring(ctx context.Context, attempt string, patterns outputPatterns, places []transfer.FetchOptions, r *Result) error {
	dir, err := n.p.results.attempt(attempt)
	if err != nil {
		return err
	}
	defer n.p.results.dropEmpty(attempt)
	dir = filepath.Join(dir, "outputs")
	found := map[string]transfer.File{}
	most := n.p.opts.limits.transfer()
	for _, from := range places {
		from.Limits = most
		var files []transfer.File
		files, err = n.remote.Fetch(ctx, patterns.all, dir, from)
		for _, f := range files {
			found[f.Name] = f
		}
		if err != nil {
			break
		}
		most = most.Less(files)
	}
	files := make([]transfer.File, 0, len(found))
	for _, name := range slices.Sorted(maps.Keys(found)) {
		files = append(files, found[name])
		r.Outputs = append(r.Outputs, OutputFile(found[name]))
	}
	if len(files) > 0 {
		r.OutputDir = dir
	}
	if err != nil {
		return explainFiles(err, "")
	}
	if none := transfer.Unmatched(patterns.needed, files); len(none) > 0 {
		return n.noOutputs(ctx, none, places)
	}
	return nil
}

const (
	// nearPatience is how long a node has for the list of what is there instead of
	// outputs.
	nearPatience = 10 * time.Second
	// nearPatterns is for how many patterns that is listed.
	nearPatterns = 3
)

// noOutputs makes the error of patterns that matched nothing. It lists the folders in
// which they looked, as far as the node answers.
func (n *poolNode) noOutputs(ctx context.Context, none []string, places []transfer.FetchOptions) error {
	ctx, cancel := context.WithTimeout(ctx, nearPatience)
	defer cancel()
	var said []string
	old := ""
	for _, place := range places {
		near, err := n.remote.Near(ctx, none[:min(nearPatterns, len(none))], place.Dir)
		if err != nil {
			continue // what is missing is an error without it
		}
		for _, at := range near {
			if text := at.String(); text != "" && !slices.Contains(said, text) {
				said = append(said, text)
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
	if said == nil {
		said = []string{"neither the task's Dir nor its scratch directory has one"}
	}
	return errors.New(what + ": " + strings.Join(said, "; ") + old + "; if there need not be one, say gputrain.Optional")
}
