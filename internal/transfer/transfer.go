// Package transfer carries files to and from a node.
//
// It sends a single file through cat, a large one in parts over several sessions, and a tree as one tar stream, or over
// SFTP if the node has no tar. It does not send again what is there already. A file appears at its place complete or
// not at all: it is written beside it first. An interrupted transfer starts again, a few times; a failed one leaves
// nothing on the node.
package transfer

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"io"
	"path"
	"strings"
	"time"

	"github.com/gputrain/gputrain/internal/ssh"
	"github.com/pkg/sftp"
)

// Tools lists the programs of a node.
type Tools struct {
	Tar, Gzip bool
	// SHA256 is the shell command that prints "hash  name" lines for its arguments, or "-" for its stdin: "sha256sum",
	// "openssl dgst -sha256 -r". Empty means that there is none: Fetch then checks sizes only.
	SHA256 string
}

// A Client runs commands where the files are: an [*ssh.Client] on a machine, or one that runs them in a container there.
type Client interface {
	Open(ctx context.Context, command string) (*ssh.Session, error)
	Exec(ctx context.Context, command string, stdin io.Reader, stdout, stderr io.Writer) error
	// SFTP opens an SFTP session. It is used if Tools lacks tar.
	SFTP(ctx context.Context, received func(n int) error) (*sftp.Client, error)
}

// A Remote accesses the files of one node. Its methods can be called concurrently. It may be copied.
type Remote struct {
	Client Client
	Tools  Tools
	// Dir is the absolute path on the node at which relative ones start.
	Dir string
	// State is the file on the node in which Sync records what it sent. Empty means Dir with ".sync" added.
	State string
}

const (
	// A transfer that is interrupted is tried attempts times in all.
	attempts = 4
	// cleanupTimeout bounds the cleanup after a call that has ended.
	cleanupTimeout = 5 * time.Second
	// stagePrefix begins the temporary names of things that are not at their place yet.
	stagePrefix = ".gputrain-"
)

// at returns the path on the node for a path of the caller's.
func (r *Remote) at(remote string) (string, error) {
	switch {
	case remote == "":
		return "", errors.New("the path on the node is empty")
	case strings.IndexByte(remote, 0) >= 0:
		return "", fmt.Errorf("the path on the node %q holds a NUL byte", remote)
	case !path.IsAbs(remote):
		remote = path.Join(r.Dir, remote)
	}
	remote = path.Clean(remote)
	if !path.IsAbs(remote) {
		remote = "./" + remote // even one that starts with a dash
	}
	if remote == "/" {
		return "", errors.New("the path on the node is its root folder; name one below")
	}
	return remote, nil
}

// stageName returns a new temporary name.
func stageName() string { return stagePrefix + strings.ToLower(rand.Text()) }

// retry calls do again if the connection was lost meanwhile, or a signal ended do's command. do must be safe to repeat.
func retry(ctx context.Context, do func() error) error {
	for try := 1; ; try++ {
		err := do()
		switch {
		case err == nil:
			return nil
		case ctx.Err() != nil:
			return context.Cause(ctx)
		case !ssh.IsInterrupted(err):
			return err
		case try == attempts:
			return fmt.Errorf("gave up after %d attempts: %w", try, err)
		}
	}
}

// clean runs a command that removes something. If the context has ended it goes on without the caller, until the connection ends.
func (r *Remote) clean(ctx context.Context, command string) {
	run := func() {
		ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), cleanupTimeout)
		defer cancel()
		r.Client.Exec(ctx, command, nil, nil, nil)
	}
	if ctx.Err() != nil {
		go run()
		return
	}
	run()
}

// discard removes what a cancelled call may have left on the node, and does not wait for that: the caller has given up. The node's own
// scripts do the same when their session ends; discard does not rely on that.
func (r *Remote) discard(ctx context.Context, stages ...string) {
	if ctx.Err() == nil {
		return
	}
	r.clean(ctx, "rm -rf"+words(stages))
}
