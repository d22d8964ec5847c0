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

// A script of longScript bytes or more does not fit into one argument on Linux (128 KiB) and is sent as a file.
const longScript = 96 << 10

// files stores the files that tasks need: long scripts, and stdin.
type files struct {
	client     Client
	facts      *Facts // the node's
	generation int
	life       context.Context
	end        context.CancelCauseFunc // gives the node up
}

// script returns the command that runs a spec's script.
func (f *files) script(ctx context.Context, spec Spec) ([]string, error) {
	if len(spec.Script) < longScript {
		return []string{"sh", "-c", spec.Script}, nil
	}
	if _, err := Quote(spec.Script); err != nil {
		return nil, fmt.Errorf("%w: the script: %w", ErrNotStarted, err)
	}
	name := spec.ID + ".sh"
	if err := f.store(ctx, name, strings.NewReader(spec.Script)); err != nil {
		return nil, fmt.Errorf("script of %s: %w", spec.ID, err)
	}
	return []string{"sh", f.facts.Root + "/t/" + name}, nil
}

// store writes r to a task's file on the node, completely or not at all. If the node refuses, the error is
// ErrNotStarted.
func (f *files) store(ctx context.Context, name string, r io.Reader) error {
	content, err := repeatable(ctx, r)
	if err != nil {
		return fmt.Errorf("%w: %w", ErrNotStarted, err)
	}
	defer content.done()
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	defer context.AfterFunc(f.life, func() { cancel(context.Cause(f.life)) })()
	for try := 0; ; try++ {
		src, err := content.rewind()
		if err != nil {
			return fmt.Errorf("%w: %w", ErrNotStarted, err)
		}
		quoted, err := Quote(storeScript(f.facts.Root+"/t/", name, try, f.generation, content.size))
		if err != nil {
			return err
		}
		var complaint tail
		err = f.client.ExecMoving(ctx, "exec sh -c "+quoted, src, nil, &complaint)
		read, ended := src.revoke()
		var exit *ssh.ExitError
		switch {
		case err == nil:
			return nil
		case ctx.Err() != nil:
			return context.Cause(ctx)
		case errors.Is(err, ssh.ErrStalled):
			f.end(fmt.Errorf("storing %s: %w", name, err))
		case isWorthRepeating(f.client, err, try):
			continue
		case errors.As(err, &exit) && exit.Code == fencedOff:
			return fmt.Errorf("%w: %w", ErrNotStarted, ErrFenced)
		case errors.As(err, &exit) && noRoom.MatchString(complaint.String()):
			return fmt.Errorf("%w: the node cannot store it: %w: %s", ErrNotStarted, ErrDiskFull, complaint.String())
		case errors.As(err, &exit) && ended && read < content.size:
			content.size = read // a file of sysfs is shorter than it claims, or this one was cut meanwhile
			continue
		case errors.As(err, &exit):
			return fmt.Errorf("%w: the node cannot store it: %v: %s", ErrNotStarted, err, complaint.String())
		}
		return err
	}
}

// storeScript returns the script that stores its stdin, of that size, as a file in a folder. If a connection is cut,
// cat reads the end of the file as if it were complete, perhaps long after the next try: so what has another size is
// removed, and each try has a name of its own.
func storeScript(folder, name string, try, generation int, size int64) string {
	dst, owner := quote(folder+name), quote(folder+"owner")
	part := dst + "." + strconv.Itoa(try)
	return fmt.Sprintf(`export LC_ALL=C; { read -r g l <%s; } 2>/dev/null; [ "${g:-0}" -le %d ] || exit %d; `+
		`cat >%[4]s && { [ $(wc -c <%[4]s) -eq %[5]d ] || { echo it did not arrive complete >&2; false; }; } && mv -f %[4]s %[6]s || { rm -f %[4]s; exit 1; }`,
		owner, generation, fencedOff, part, size, dst)
}

// fencedOff is the exit status of a store by a client that was deposed.
const fencedOff = 77

// noRoom matches a full disk's message of a program in the C locale.
var noRoom = regexp.MustCompile(`No space left on device|Disk quota exceeded`)

// A revocable reader can be revoked: once revoke has returned, nothing is read any more.
type revocable struct {
	mu    sync.Mutex
	r     io.Reader
	read  int64
	ended bool
}

func (v *revocable) Read(p []byte) (int, error) {
	v.mu.Lock()
	defer v.mu.Unlock()
	if v.r == nil {
		return 0, io.EOF
	}
	n, err := v.r.Read(p)
	v.read += int64(n)
	v.ended = err == io.EOF
	return n, err
}

// revoke returns how many bytes were read, and whether the reader had come to its end.
func (v *revocable) revoke() (read int64, ended bool) {
	v.mu.Lock()
	defer v.mu.Unlock()
	v.r = nil
	return v.read, v.ended
}

// A content can be read again and again. Its size is in bytes.
type content struct {
	size int64
	at   func() (io.Reader, error) // from the beginning
	done func()
}

func (c *content) rewind() (*revocable, error) {
	r, err := c.at()
	return &revocable{r: io.LimitReader(r, c.size)}, err
}

// repeatable returns r's content from r's position on. A reader that cannot seek, or does not know its size, is first
// read completely: to memory if it is short, otherwise to a temporary file that done removes.
func repeatable(ctx context.Context, r io.Reader) (*content, error) {
	if s, ok := r.(io.ReadSeeker); ok {
		if at, size, err := remaining(s); err != nil {
			return nil, err
		} else if size > 0 {
			return &content{size: size, at: func() (io.Reader, error) {
				_, err := s.Seek(at, io.SeekStart)
				return s, err
			}, done: func() {}}, nil
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
	var err error
	select {
	case err = <-read:
	case <-ctx.Done():
		// As with os/exec, a blocked Read cannot be interrupted. The goroutine ends with it, and the file with the
		// goroutine.
		go func() { <-read; sp.remove() }()
		return nil, context.Cause(ctx)
	}
	if err != nil {
		sp.remove()
		return nil, err
	}
	return &content{size: sp.size, at: func() (io.Reader, error) { return sp.open(), nil }, done: sp.remove}, nil
}

// remaining returns a reader's position and how many bytes follow it, as far as the reader knows: none for a pipe, and
// for a file of procfs. The error is that of a reader that cannot go back to its position.
func remaining(s io.Seeker) (at, size int64, err error) {
	if at, err = s.Seek(0, io.SeekCurrent); err != nil {
		return 0, 0, nil
	}
	end, err := s.Seek(0, io.SeekEnd)
	if err != nil {
		return at, 0, nil
	}
	_, err = s.Seek(at, io.SeekStart)
	return at, max(end-at, 0), err
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

func (s *spool) open() io.Reader {
	if s.file == nil {
		return bytes.NewReader(s.b.Bytes())
	}
	return io.NewSectionReader(s.file, 0, s.size)
}

func (s *spool) remove() {
	if s.file != nil {
		s.file.Close()
		os.Remove(s.file.Name())
	}
}
