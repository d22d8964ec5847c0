package main

import (
	"context"
	"errors"
	"strconv"

	"github.com/gputrain/gputrain"
)

var shellCommand = &command{
	name: "shell", args: "POOL RANK", least: 2, most: 2, summary: "open a shell on the node of a rank",
	help: `Not on a terminal, the shell reads commands from stdin. The exit status is 1 if the
shell's is not 0.
` + takeoverNote + `
The program of a living pool can write a configuration for ssh instead:
gputrain.Compute.WriteSSHConfig.`,
	flags: attachFlags, run: shell,
}

// A shellView is how a shell has ended, as JSON.
type shellView struct {
	Pool     string `json:"pool"`
	Rank     int    `json:"rank"`
	ExitCode int    `json:"exitCode"`
	Err      string `json:"error,omitzero"`
}

func shell(ctx context.Context, s *session) error {
	rank, err := strconv.Atoi(s.args[1])
	if err != nil || rank < 0 {
		return wrongUsage("%q is no rank: the first node's is 0", s.args[1])
	}
	if s.isFile(s.args[0]) {
		return wrongUsage("%s is a file: a shell needs the pool's name or ID", s.args[0])
	}
	r, err := s.pool(s.args[0])
	if err != nil {
		return err
	}
	a, err := s.attach(ctx, r)
	if err != nil {
		return err
	}
	out := s.out
	if s.json {
		out = s.err // stdout has only JSON
	}
	err = a.Shell(ctx, rank, s.in, out, s.err)
	view := shellView{Pool: a.ID(), Rank: rank}
	if err != nil {
		view.ExitCode, view.Err = -1, clean(err.Error())
	}
	var failed *gputrain.TaskError
	if errors.As(err, &failed) {
		view.ExitCode = failed.ExitCode
	}
	if s.json {
		err = errors.Join(err, printJSON(s.out, view))
	}
	return errors.Join(err, a.leave())
}
