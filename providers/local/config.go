package local

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"

	"github.com/gputrain/gputrain"
	"github.com/gputrain/gputrain/internal/sshd"
)

// name is the provider's short name.
const name = "local"

// Config makes nodes of this machine. The zero value works.
type Config struct {
	// Dir is an existing directory in which each node gets its home. Empty
	// means the system's directory for temporary files. Where other users can write
	// to it, homes are in a directory within it that only this user can enter,
	// "gputrain.local-<user id>".
	Dir string
	// PassEnv names variables of this program's environment that nodes see
	// besides those a login would set: "HF_HOME", or "NCCL_*" for all that
	// begin so. Empty adds none. For a credential take a task's Secrets.
	PassEnv []string
}

// Name returns "local".
func (Config) Name() string { return name }

// Open returns a driver. It checks that nodes can be made here.
func (c Config) Open(ctx context.Context) (gputrain.Driver, error) {
	if err := ctx.Err(); err != nil {
		return nil, fail("open", nil, err)
	}
	if err := sshd.Supported(); err != nil {
		return nil, fail("open", gputrain.ErrUnsupported, err)
	}
	dir := c.Dir
	if dir == "" {
		dir = os.TempDir()
	}
	dir, err := filepath.Abs(dir)
	if err != nil {
		return nil, fail("open", gputrain.ErrInvalid, err)
	}
	if info, err := os.Stat(dir); err != nil {
		return nil, fail("open", gputrain.ErrInvalid, fmt.Errorf("the directory for the nodes' homes: %w; make it, or set Config.Dir to one that exists", err))
	} else if !info.IsDir() {
		return nil, fail("open", gputrain.ErrInvalid, fmt.Errorf("%s is not a directory; set Config.Dir to one", dir))
	}
	real, err := filepath.EvalSymlinks(dir)
	if err != nil {
		return nil, fail("open", gputrain.ErrInvalid, err)
	}
	return &driver{dir: dir, real: real, homes: homes(dir), host: hostName(), pass: slices.Clone(c.PassEnv), nodes: map[string]*node{}}, nil
}

// fail returns err as this provider's failure of an operation.
func fail(op string, kind, err error) error {
	if known := (*gputrain.Error)(nil); errors.As(err, &known) {
		return err
	}
	return &gputrain.Error{Provider: name, Op: op, Kind: kind, Err: err}
}
