package container

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/gputrain/gputrain/internal/retry"
)

// create creates a container and returns its ID. It cannot be cancelled. If it fails, as when
// the answer is lost or the name is taken, it adopts the container of that name if ours accepts
// it. So no container is made twice or forgotten.
func (e *engine) create(ctx context.Context, args []string, ours func(report) bool) (string, error) {
	if ctx.Err() != nil {
		return "", context.Cause(ctx)
	}
	create, cancel := context.WithTimeout(context.WithoutCancel(ctx), createTimeout)
	defer cancel()
	out, err := e.run(create, args...)
	if err == nil {
		id := lastLine(out)
		if id == "" {
			return "", fmt.Errorf("%s create: the answer has no id", e.dialect)
		}
		return id, nil
	}
	name := args[slices.Index(args, "--name")+1]
	look, cancel := context.WithTimeout(context.WithoutCancel(ctx), cleanupTimeout)
	defer cancel()
	reports, lookErr := e.inspect(look, []string{name})
	if lookErr != nil {
		return "", errors.Join(err, lookErr)
	}
	if len(reports) == 1 && ours(reports[0]) {
		return reports[0].id, nil
	}
	return "", err
}

// inspect reports those of the named containers that exist. A missing one is gone only if the
// engine gives that as the reason.
func (e *engine) inspect(ctx context.Context, ids []string) ([]report, error) {
	if len(ids) == 0 {
		return nil, nil
	}
	args := []string{"inspect"}
	if e.dialect != apple {
		args = append(args, "--type", "container")
	}
	out, err := e.run(ctx, append(args, ids...)...)
	if err != nil && !isGone(err) {
		return nil, err
	}
	if len(strings.TrimSpace(string(out))) == 0 && err != nil {
		out = []byte("[]")
	}
	reports, parseErr := e.dialect.parseReports(out)
	if parseErr != nil {
		return nil, parseErr
	}
	if err == nil || len(ids) == 1 {
		return reports, nil
	}
	// Some engines stop at the first missing container: ask for each of the others.
	for _, id := range ids {
		known := slices.ContainsFunc(reports, func(r report) bool { return r.id == id || r.name == id })
		if known || says(err, strings.ToLower(id)) {
			continue
		}
		more, err := e.inspect(ctx, []string{id})
		if err != nil {
			return nil, err
		}
		reports = append(reports, more...)
	}
	return reports, nil
}

func isGone(err error) bool {
	return says(err, "no such container", "no such object", "not found", "no container with name or id")
}

// discard removes a container that did not come up, even for a caller that has given up.
func (e *engine) discard(ctx context.Context, id string) error {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), cleanupTimeout)
	defer cancel()
	return e.remove(ctx, id)
}

// remove removes containers and returns once they are gone.
func (e *engine) remove(ctx context.Context, ids ...string) error {
	if len(ids) == 0 {
		return nil
	}
	args := []string{"rm", "--force", "--volumes"}
	switch e.dialect {
	case podman:
		args = append(args, "--time", "0") // otherwise it would ask the node to stop, and wait
	case apple:
		args = []string{"delete", "--force"}
	}
	ctx, cancel := context.WithTimeout(ctx, cleanupTimeout)
	defer cancel()
	// The command's result does not count. Some engines fail because of a container that is
	// gone or being removed; podman then leaves the others alone and reports success. Only
	// their absence counts.
	for {
		_, err := e.run(ctx, append(args, ids...)...)
		reports, lookErr := e.inspect(ctx, ids)
		switch {
		case lookErr != nil:
			return errors.Join(err, lookErr)
		case len(reports) == 0:
			return nil
		case err != nil && !says(err, "already in progress") && !isGone(err), !retry.Sleep(ctx, settleInterval):
			return cmp.Or(err, context.Cause(ctx))
		}
		ids = nil
		for _, r := range reports {
			ids = append(ids, r.id)
		}
	}
}
