package supervisor

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"regexp"
	"strconv"
	"strings"
	"sync"

	"github.com/gputrain/gputrain/internal/ssh"
)

// longScript is from where on a script does not fit into one argument on Linux
// (128 KiB) and goes by a file.
const longScript = 96 << 10

// script returns the command that runs a spec's script.
func (n *Node) script(ctx context.Context, spec Spec) ([]string, error) {
	if len(spec.Script) < longScript {
		return []string{"sh", "-c", spec.Script}, nil
	}
	if _, err := Quote(spec.Script); err != nil {
		return nil, fmt.Errorf("%w: the script: %w", ErrNotStarted, err)
	}
	name := spec.ID + ".sh"
	if err := n.store(ctx, name, strings.NewReader(spec.Script)); err != nil {
		return nil, fmt.Errorf("script of %s: %w", spec.ID, err)
	}
	return []string{"sh", n.facts.Root + "/t/" + name}, nil
}

// store puts what r has into a task's file on the node, whole or not at all.
// What the node says no to is ErrNotStarted.
func (n *Node) store(ctx context.Context, name string, r io.Reader) error {
	rewind, done, err := repeatable(ctx, r)
	if err != nil {
		return fmt.Errorf("%w: %w", ErrNotStarted, err)
	}
	defer done()
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	defer context.AfterFunc(n.life, func() { cancel(n.Err()) })()
	for try := 0; ; try++ {
		src, err := rewind()
		if err != nil {
			return fmt.Errorf("%w: %w", ErrNotStarted, err)
		}
		// A name of its own for each try: a cat that a cut connection has left
		// behind cannot write into the file of the next.
		dst, err := Quote(n.facts.Root + "/t/" + name)
		if err != nil {
			return err
		}
		part := dst + "." + strconv.Itoa(try)
		owner, err := Quote(n.facts.Root + "/t/owner")
		if err != nil {
			return err
		}
		fence := "{ read -r g l <" + owner + "; } 2>/dev/null; [ \"${g:-0}\" -le " + strconv.Itoa(n.cfg.Generation) + " ] || exit " + strconv.Itoa(fencedOff) + "; "
		text := "export LC_ALL=C; " + fence + "cat >" + part + " && mv -f " + part + " " + dst + " || { rm -f " + part + "; exit 1; }"
		quoted, err := Quote(text)
		if err != nil {
			return err
		}
		var complaint tail
		err = n.client.ExecMoving(ctx, "exec sh -c "+quoted, src, nil, &complaint)
		src.revoke()
		var exit *ssh.ExitError
		switch {
		case err == nil:
			return nil
		case ctx.Err() != nil:
			return context.Cause(ctx)
		case errors.Is(err, ssh.ErrStalled):
			n.Fail(fmt.Errorf("storing %s: %w", name, err))
		case errors.Is(err, ssh.ErrDisconnected) && n.client.Err() == nil:
			continue
		case errors.As(err, &exit) && exit.Code == fencedOff:
			return fmt.Errorf("%w: %w", ErrNotStarted, ErrFenced)
		case errors.As(err, &exit) && noRoom.MatchString(complaint.String()):
			return fmt.Errorf("%w: the node cannot store it: %w: %s", ErrNotStarted, ErrDiskFull, complaint.String())
		case errors.As(err, &exit):
			return fmt.Errorf("%w: the node cannot store it: %s", ErrNotStarted, complaint.String())
		}
		return err
	}
}

// fencedOff is the exit status of what a later client leaves nothing to.
const fencedOff = 77

// noRoom is how a program in the C locale says that there is no room.
var noRoom = regexp.MustCompile(`No space left on device|Disk quota exceeded`)

// A revocable reader can be taken away from who reads it: once revoke has
// returned, nothing is read any more.
type revocable struct {
	mu sync.Mutex
	r  io.Reader
}

func (v *revocable) Read(p []byte) (int, error) {
	v.mu.Lock()
	defer v.mu.Unlock()
	if v.r == nil {
		return 0, io.EOF
	}
	return v.r.Read(p)
}

func (v *revocable) revoke() {
	v.mu.Lock()
	defer v.mu.Unlock()
	v.r = nil
}

// repeatable returns a function that gives r's content again and again, from
// where r stands. What cannot seek is first read whole: to memory where it is
// short, otherwise to a temporary file that done removes.
func repeatable(ctx context.Context, r io.Reader) (rewind func() (*revocable, error), done func(), err error) {
	if s, ok := r.(io.ReadSeeker); ok {
		if at, err := s.Seek(0, io.SeekCurrent); err == nil {
			return func() (*revocable, error) {
				_, err := s.Seek(at, io.SeekStart)
				return &revocable{r: s}, err
			}, func() {}, nil
		}
	}
	sp := &spool{}
	read := make(chan error, 1)
	go func() {
		_, err := io.Copy(sp, r)
		if err != nil {
			err = fmt.Errorf("reading it: %w", err)
		}
		read <- err
	}()
	select {
	case err = <-read:
	case <-ctx.Done():
		// As with os/exec, a Read that blocks cannot be interrupted. The
		// goroutine ends with it, and the file with the goroutine.
		go func() { <-read; sp.remove() }()
		return nil, nil, context.Cause(ctx)
	}
	if err != nil {
		sp.remove()
		return nil, nil, err
	}
	return func() (*revocable, error) { return sp.open(), nil }, sp.remove, nil
}

// A spool keeps what is written to it, in memory up to a limit.
type spool struct {
	b    bytes.Buffer
	file *os.File
	size int64
}

const spoolMemory = 1 << 20

func (s *spool) Write(p []byte) (int, error) {
	if s.file == nil && s.b.Len()+len(p) <= spoolMemory {
		s.size += int64(len(p))
		return s.b.Write(p)
	}
	if s.file == nil {
		f, err := os.CreateTemp("", "gputrain-stdin-")
		if err != nil {
			return 0, err
		}
		s.file = f
		if _, err := f.Write(s.b.Bytes()); err != nil {
			return 0, err
		}
		s.b = bytes.Buffer{}
	}
	n, err := s.file.Write(p)
	s.size += int64(n)
	return n, err
}

func (s *spool) open() *revocable {
	if s.file == nil {
		return &revocable{r: bytes.NewReader(s.b.Bytes())}
	}
	return &revocable{r: io.NewSectionReader(s.file, 0, s.size)}
}

func (s *spool) remove() {
	if s.file != nil {
		s.file.Close()
		os.Remove(s.file.Name())
	}
}
