package slurm

import (
	"context"
	"errors"
	"fmt"
	"os/exec"
	"os/user"
	"strings"
	"time"
)

// A local is the shell of this computer, which is the login node.
type local struct{}

func newLocal() (shell, string, error) {
	u, err := user.Current()
	if err != nil {
		return nil, "", fmt.Errorf("the current user is unknown: %w", err)
	}
	return local{}, u.Username, nil
}

// Run runs shell text by sh, which reads it from stdin.
func (local) Run(ctx context.Context, text string) (stdout, stderr string, err error) {
	var out, complaint output
	cmd := exec.CommandContext(ctx, "sh")
	cmd.Stdin, cmd.Stdout, cmd.Stderr = strings.NewReader(text), &out, &complaint
	cmd.WaitDelay = time.Second // for what it has left running
	err = cmd.Run()
	if _, ended := errors.AsType[*exec.ExitError](err); ended && ctx.Err() == nil {
		err = nil // whether all was run is read from the output
	}
	return out.text.String(), complaint.text.String(), err
}

// Close does nothing.
func (local) Close() error { return nil }
