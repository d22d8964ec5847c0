package program

import (
	"context"
	"errors"
	"fmt"
	"io"
	"path"
	"strings"
	"syscall"
	"time"

	"github.com/gputrain/gputrain/internal/bounded"
	"github.com/gputrain/gputrain/internal/crossbuild"
	"github.com/gputrain/gputrain/internal/output"
	"github.com/gputrain/gputrain/internal/retry"
	"github.com/gputrain/gputrain/internal/ssh"
	"github.com/gputrain/gputrain/internal/supervisor"
	"github.com/gputrain/gputrain/providers/driver"
)

const (
	// Shipping is given up after shipAttempts attempts that ended with a cut connection or a full disk.
	shipAttempts = 5
	// Between attempts with a full disk, shipping waits for fullPause: what a task has printed is removed from the node
	// a moment after the task's end.
	fullPause = time.Second
)

// A Node is a node that the program is shipped to.
type Node struct {
	// Provider and Name are for errors.
	Provider, Name string
	Platform       crossbuild.Platform
	// Addr is the address of its SSH server, as host:port, and Gzip reports that the node has gzip. Over a network the
	// program is sent compressed.
	Addr string
	Gzip bool
	// Dir is the folder for programs, and Scratch the one for scratch directories. Both are made.
	Dir, Scratch string
	// Exec runs a command in the node's shell. It fails with ssh.ErrDisconnected if the connection was cut, and with an
	// ssh.ExitError if the command does.
	Exec func(ctx context.Context, command string, stdin io.Reader, stdout, stderr io.Writer) error
	// Leftovers returns paths of files that dead workers may have left on the node. They are removed with the first
	// command that succeeds, and Removed is called with them.
	Leftovers func() []string
	Removed   func([]string)
}

// A Program is a binary that is on a node.
type Program struct {
	// Path is where it is on the node.
	Path string
	// Digest is the SHA-256 of its content, in hexadecimal.
	Digest string
}

// Ship puts the program on a node, unless the node has it, by its digest. If the node cannot load the running binary,
// though it is for its platform, another one is shipped. The error is of kind driver.ErrUnsupported if there is no
// binary for the node.
func (s *Programs) Ship(ctx context.Context, n Node) (Program, error) {
	b, err := s.find(ctx, n.Platform)
	if err != nil {
		return Program{}, n.explain(err)
	}
	err = s.send(ctx, n, b)
	if unfit := (*unfitError)(nil); errors.As(err, &unfit) {
		if b, err = s.substitute(ctx, n.Platform, unfit); err != nil {
			return Program{}, n.explain(err)
		}
		err = s.send(ctx, n, b)
	}
	if err != nil {
		return Program{}, n.explain(&driver.Error{Err: err})
	}
	return Program{Path: n.path(b), Digest: b.digest}, nil
}

// explain completes an error with what failed.
func (n *Node) explain(err error) error {
	if e, ok := err.(*driver.Error); ok {
		e.Provider, e.Op = n.Provider, "ship the program to "+n.Name
	}
	return err
}

func (n *Node) path(b binary) string { return path.Join(n.Dir, b.digest) }

// send sends a binary, again if that is interrupted or the disk is full.
func (s *Programs) send(ctx context.Context, n Node, b binary) (err error) {
	for range shipAttempts {
		err = s.sendOnce(ctx, n, b)
		full := errors.Is(err, syscall.ENOSPC)
		if !full && !ssh.IsInterrupted(err) || full && !retry.Sleep(ctx, fullPause) {
			break
		}
	}
	return err
}

// sendOnce makes the folders, removes what dead workers have left, and sends the binary if the node lacks it.
func (s *Programs) sendOnce(ctx context.Context, n Node, b binary) error {
	leftovers := n.Leftovers()
	quoted := make([]string, 3+len(leftovers))
	for i, s := range append([]string{n.Dir, n.path(b), n.Scratch}, leftovers...) {
		var err error
		if quoted[i], err = supervisor.Quote(s); err != nil {
			return err
		}
	}
	dir, bin, scratch, old := quoted[0], quoted[1], quoted[2], strings.Join(quoted[3:], " ")
	probe := b.probe(bin)
	var answer bounded.Buffer
	var complaint output.Tail
	err := n.Exec(ctx, fmt.Sprintf("umask 077; rm -rf %s; mkdir -p %s %s && { [ ! -x %s ] || { echo found; %s; }; }", old, dir, scratch, bin, probe),
		nil, &answer, &complaint)
	if err != nil {
		return withComplaint(err, &complaint)
	}
	n.Removed(leftovers)
	if code, found := strings.CutPrefix(answer.String(), "found\n"); found {
		return b.fit(code, &complaint)
	}
	in, unpack, err := s.packed(n, b)
	if err != nil {
		return err
	}
	defer in.Close()
	// $$ keeps two programs that ship the same binary apart: the last one wins, with the same bytes.
	err = n.Exec(ctx, fmt.Sprintf("umask 077; t=%s.$$; trap 'rm -f \"$t\"' EXIT; %s && chmod 700 \"$t\" && mv -f \"$t\" %s && %s", bin, unpack, bin, probe),
		in, &answer, &complaint)
	if err != nil {
		return withComplaint(err, &complaint)
	}
	return b.fit(answer.String(), &complaint)
}

// withComplaint adds the stderr of a command to its failure.
func withComplaint(err error, complaint *output.Tail) error {
	said := complaint.String()
	if exit := (*ssh.ExitError)(nil); !errors.As(err, &exit) || said == "" {
		return err
	}
	if strings.Contains(said, "No space left on device") {
		return fmt.Errorf("%w: %w (%s); free some there, or ask for a bigger disk", err, syscall.ENOSPC, said)
	}
	return fmt.Errorf("%w: %s", err, said)
}
