package slurm

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	gossh "github.com/gputrain/gputrain/internal/ssh"
	"github.com/gputrain/gputrain/providers/driver"
	"github.com/gputrain/gputrain/providers/internal/cloud"
)

// fail puts a failure into the form that callers see.
func fail(op string, err error) error {
	return cloud.Form(providerName, op, err, func(err error) driver.Error {
		if errors.Is(err, driver.ErrInvalid) {
			return driver.Error{Kind: driver.ErrInvalid}
		}
		return driver.Error{Kind: driver.ErrUnavailable}
	})
}

// unavailable is the error of a login node that cannot be reached, or not in time. It never means anything about jobs.
func unavailable(ctx context.Context, err error) error {
	if errors.Is(ctx.Err(), context.Canceled) {
		return fmt.Errorf("%w: %w", context.Canceled, err) // the caller has given up
	}
	if _, ok := errors.AsType[*driver.Error](err); ok {
		return err
	}
	e := &driver.Error{Kind: driver.ErrUnavailable, Err: fmt.Errorf("login node: %w", err)}
	switch {
	case errors.Is(err, gossh.ErrAuth):
		e.Hint = "check Login.User and Login.KeyFile: ssh LOGIN must work without a password"
	case errors.Is(err, gossh.ErrHostKey):
		e.Hint = "set Login.HostKey, or connect once with ssh"
	case errors.Is(err, gossh.ErrNoCommand):
		e.Hint = hintCommand
	}
	return e
}

// hintCommand is the advice for a login that runs no commands.
const hintCommand = "check that sinfo works in a login that is not interactive: ssh LOGIN sinfo"

// openError gives an error of the first connection the kind that a user can act on.
func openError(err error) error {
	var kind error
	switch {
	case errors.Is(err, gossh.ErrAuth):
		kind = driver.ErrAuth
	case errors.Is(err, gossh.ErrHostKey):
		kind = driver.ErrHostKey
	default:
		return err
	}
	e := driver.Error{Kind: kind, Err: err}
	if known, ok := errors.AsType[*driver.Error](err); ok {
		e.Hint, e.Err = known.Hint, known.Err
	}
	return &e
}

// A commandError is a command that has failed by its own words.
type commandError struct {
	program string
	said    string
	code    int
}

func (e *commandError) Error() string {
	if e.said == "" {
		return fmt.Sprintf("%s exited with status %d", e.program, e.code)
	}
	return e.program + ": " + e.said
}

// A symptom is a text of Slurm's commands. It is open if what was asked for may have been done, or may yet be.
type symptom struct {
	text string
	kind error
	open bool
	hint string
}

const (
	checkAccount = "check Account, QOS and Partitions: sacctmgr show assoc user=$USER shows what you may use, on most clusters"
	checkLogin   = "check that Login is a login node of the cluster, and that sinfo works there; Path names its folder"
	askLess      = "no node of the partition can have this: ask for less, or check GPUNames and Constraint"
)

// symptoms are the texts, in lower case, the most specific first. They are those of Slurm 20.02 to 25.11: see the
// comments of slurm_errno.c.
var symptoms = []symptom{
	{"invalid partition name", driver.ErrInvalid, false, "sinfo shows the names for Partitions"},
	{"invalid feature specification", driver.ErrInvalid, false, "check Constraint: sinfo -o %f shows the features"},
	{"invalid node name", driver.ErrInvalid, false, "check SbatchArgs"},
	{"requested reservation is invalid", driver.ErrInvalid, false, "check Reservation: scontrol show reservation"},
	{"access denied to requested reservation", driver.ErrAuth, false, "check Reservation: scontrol show reservation"},
	{"invalid license specification", driver.ErrInvalid, false, "check SbatchArgs"},
	{"invalid generic resource (gres) specification", driver.ErrInvalid, false, "check GPUNames and Partitions: sinfo -o %G shows the types"},
	{"invalid --time specification", driver.ErrInvalid, false, "check TimeLimit"},
	{"requested time limit is invalid", driver.ErrInvalid, false, "set TimeLimit, or Spec.TTL, to less than the partition's limit"},
	{"requested partition configuration not available now", driver.ErrInvalid, false, "the job asks for more than the partition allows: check TimeLimit and Spec.TTL"},
	{"more processors requested than permitted", driver.ErrInvalid, false, askLess},
	{"memory specification can not be satisfied", driver.ErrNoOffers, false, askLess},
	{"requested node configuration is not available", driver.ErrNoOffers, false, askLess},
	{"invalid account or account/partition combination", driver.ErrAuth, false, checkAccount},
	{"invalid qos specification", driver.ErrAuth, false, checkAccount},
	{"user's group not permitted to use this partition", driver.ErrAuth, false, checkAccount},
	{"access/permission denied", driver.ErrAuth, false, checkAccount},
	{"job violates accounting/qos policy", driver.ErrQuota, false, "ask for less, or choose another QOS"},
	{"job submit limit", driver.ErrQuota, false, "wait for other jobs to end, or choose another QOS"},
	{"slurm temporarily unable to accept job", driver.ErrRateLimited, false, ""},
	{"rate limit", driver.ErrRateLimited, false, ""},
	{"socket timed out on send/recv", driver.ErrUnavailable, true, "the controller is busy, or stopped: it may do nevertheless what it was asked"},
	{"unable to contact slurm controller", driver.ErrUnavailable, true, ""},
	{"slurm controller not responding", driver.ErrUnavailable, true, ""},
	{"slurm backup controller in standby", driver.ErrUnavailable, true, ""},
	{"zero bytes were transmitted", driver.ErrUnavailable, true, ""},
	{"unable to process configuration file", driver.ErrUnavailable, false, checkLogin},
	{"could not establish a configuration source", driver.ErrUnavailable, false, checkLogin},
	{"command not found", driver.ErrUnavailable, false, checkLogin},
	{"not found", driver.ErrUnavailable, false, checkLogin},
}

// plain returns what a command has said without its own name on each line, which the error has, and each line once. A limit comes by
// its name: "QOSMaxGRESPerUser:", before Slurm's words for all limits.
func plain(program, stderr string) string {
	var all []string
	for line := range strings.Lines(stderr) {
		line = strings.TrimSpace(line)
		for _, prefix := range []string{program + ": ", "error: ", "Batch job submission failed: "} {
			line = strings.TrimPrefix(line, prefix)
		}
		if line != "" && !slices.Contains(all, line) {
			all = append(all, line)
		}
	}
	for i, line := range all {
		if hopeless(line) != nil && !strings.Contains(line, " ") && i+1 < len(all) {
			all[i] = line + ":"
		}
	}
	return strings.Join(all, "\n")
}

// failure returns the error of a command by what it has said.
func failure(program, stderr string, code int) error {
	cause := &commandError{program: program, said: lastLines(plain(program, stderr)), code: code}
	lower := strings.ToLower(stderr)
	for _, s := range symptoms {
		if !strings.Contains(lower, s.text) {
			continue
		}
		if s.open {
			return &driver.Error{Kind: s.kind, Err: cause, Hint: s.hint}
		}
		hint := s.hint
		for line := range strings.Lines(plain(program, stderr)) { // a limit's own name knows better
			if why := hopeless(strings.TrimSpace(line)); why != nil {
				hint = why.Hint
			}
		}
		return &driver.Error{Kind: s.kind, Err: &cloud.AnsweredError{Err: cause}, Hint: hint}
	}
	return &driver.Error{Kind: driver.ErrUnavailable, Err: cause}
}
