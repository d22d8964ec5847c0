// Package transfer carries files to and from a node.
//
// A single file goes through cat, a large one in parts over several sessions; a
// tree goes as one tar stream, or over SFTP where the node has no tar. What is
// there already is not sent again. A file appears at its place whole or not at all:
// it is written beside it first. What was interrupted starts again, a few
// times; what is given up leaves nothing on the node.
package transfer

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"path"
	"strings"
	"time"

	"github.com/gputrain/gputrain/internal/ssh"
)

// Tools says which programs a node has.
type Tools struct {
	Tar, Gzip bool
	// SHA256 is the shell command that prints "hash  name" lines for the files
	// it is given, or "-" for its stdin: "sha256sum", "openssl dgst -sha256 -r".
	// Empty means that there is none: then Fetch checks only sizes.
	SHA256 string
}

// A Remote is the files of one node. All methods can be called at the same
// time. It may be copied.
type Remote struct {
	Client *ssh.Client
	Tools  Tools
	// Dir is where relative paths on the node start: an absolute path.
	Dir string
	// State is the file on the node in which Sync keeps what it sent. Empty
	// means Dir with ".sync" added.
	State string
}

const (
	// attempts is how often something is started that a lost connection ended.
	attempts = 4
	// cleanupTimeout bounds what is done for a call that has ended already.
	cleanupTimeout = 5 * time.Second
	// stagePrefix begins the name of everything that is not at its place yet.
	stagePrefix = ".gputrain-"
)

// at returns where a path of the caller's is on the node.
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
		remote = "./" + remote // also one that starts with a dash
	}
	if remote == "/" {
		return "", errors.New("the path on the node is its root folder; name one below")
	}
	return remote, nil
}

// stageName returns a name that nothing else has.
func stageName() string { return stagePrefix + strings.ToLower(rand.Text()) }

// retry calls do again when the connection was lost meanwhile. All that is
// done so may be done twice.
func retry(ctx context.Context, do func() error) error {
	for try := 1; ; try++ {
		err := do()
		switch {
		case err == nil:
			return nil
		case ctx.Err() != nil:
			return context.Cause(ctx)
		case !errors.Is(err, ssh.ErrDisconnected):
			return err
		case try == attempts:
			return fmt.Errorf("gave up after %d attempts: %w", try, err)
		}
	}
}

// discard removes what a call that was cancelled may have left on the node.
// The node's own scripts do the same when their session ends; this does not
// rely on it.
func (r *Remote) discard(ctx context.Context, stages ...string) {
	if ctx.Err() == nil {
		return
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), cleanupTimeout)
	defer cancel()
	r.Client.Exec(ctx, "rm -rf"+words(stages), nil, nil, nil)
}
