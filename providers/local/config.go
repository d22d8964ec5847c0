package local

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"

	"github.com/gputrain/gputrain/internal/sshd"
	"github.com/gputrain/gputrain/providers/driver"
)

// name is the provider's short name.
const name = "local"

// Config makes nodes of this machine. The zero value works.
type Config struct {
	// Dir is an existing directory for the nodes' homes. If empty, it is the system's directory
	// for temporary files. If other users can write to it, homes are in a directory within it
	// that only this user can enter, "gputrain.local-<user id>".
	Dir string
	// PassEnv names variables of this program's environment that nodes see beside those a login
	// would set: "HF_HOME", or "NCCL_*" for all with that prefix. Empty adds none. For
	// credentials use a task's Secrets.
	PassEnv []string
}

// Name returns "local".
func (Config) Name() string { return name }

// Open returns a driver. It checks that nodes can be made on this machine.
func (c Config) Open(ctx context.Context) (driver.Driver, error) {
	if err := ctx.Err(); err != nil {
		return nil, fail("open", nil, err)
	}
	if err := sshd.Supported(); err != nil {
		return nil, fail("open", driver.ErrUnsupported, err)
	}
	dir := c.Dir
	if dir == "" {
		dir = os.TempDir()
	}
	dir, err := filepath.Abs(dir)
	if err != nil {
		return nil, fail("open", driver.ErrInvalid, err)
	}
	if info, err := os.Stat(dir); err != nil {
		return nil, fail("open", driver.ErrInvalid, fmt.Errorf("the directory for the nodes' homes: %w; make it, or set Config.Dir to an existing one", err))
	} else if !info.IsDir() {
		return nil, fail("open", driver.ErrInvalid, fmt.Errorf("%s is not a directory; set Config.Dir to one", dir))
	}
	real, err := filepath.EvalSymlinks(dir)
	if err != nil {
		return nil, fail("open", driver.ErrInvalid, err)
	}
	return &localDriver{dir: dir, real: real, homes: homes(dir), host: hostName(), pass: slices.Clone(c.PassEnv), nodes: map[string]*node{}}, nil
}

// fail returns err as a failure of an operation of this provider.
func fail(op string, kind, err error) error {
	if known := (*driver.Error)(nil); errors.As(err, &known) {
		return err
	}
	return &driver.Error{Provider: name, Op: op, Kind: kind, Err: err}
}
