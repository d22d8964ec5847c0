package crossbuild

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"sync"
	"time"
)

// retryAfter is how long a failure stands: until then all who ask get it, as
// many as there may be, and later the build is tried again.
const retryAfter = time.Minute

// A Builder builds the running program, once for each platform, however many
// ask for it.
type Builder struct {
	// Context ends what is being built, and closes what was.
	Context context.Context
	// Go runs a build, which nobody may wait for any longer.
	Go func(build func())
	// Event is told when a build begins and, with what came of it, when it ends.
	// It may be nil.
	Event func(to Platform, done bool, elapsed time.Duration, err error)
	// SourceDir is a folder of the program's module that the caller answers for.
	// Empty means the folder that the program was built from.
	SourceDir string

	mu     sync.Mutex
	builds map[Platform]*build
	make   func(context.Context, Platform) (*Binary, error) // in place of the real one, for tests
}

// A build is one, and what came of it once done is closed.
type build struct {
	done chan struct{}
	bin  *Binary
	err  error
	at   time.Time
}

// A Binary is a program that was built. It stays readable until the Builder's
// context ends.
type Binary struct {
	// Digest is the SHA-256 of its content, in hexadecimal.
	Digest string

	size int64
	file *os.File
}

// Open returns the content from its beginning.
func (b *Binary) Open() (io.ReadSeekCloser, error) {
	return section{io.NewSectionReader(b.file, 0, b.size)}, nil
}

type section struct{ *io.SectionReader }

func (section) Close() error { return nil }

// Build returns the program for a platform. The end of ctx ends the waiting,
// not the build.
func (b *Builder) Build(ctx context.Context, to Platform) (*Binary, error) {
	b.mu.Lock()
	one := b.builds[to]
	if one == nil || one.failed() && time.Since(one.at) > retryAfter {
		one = &build{done: make(chan struct{})}
		if b.builds == nil {
			b.builds = map[Platform]*build{}
		}
		b.builds[to] = one
		b.Go(func() { b.live(one, to) })
	}
	b.mu.Unlock()
	select {
	case <-one.done:
		return one.bin, one.err
	case <-ctx.Done():
		return nil, context.Cause(ctx)
	}
}

func (b *build) failed() bool {
	select {
	case <-b.done:
		return b.err != nil
	default:
		return false
	}
}

func (b *Builder) live(one *build, to Platform) {
	defer close(one.done)
	begun := time.Now()
	event := b.Event
	if event == nil {
		event = func(Platform, bool, time.Duration, error) {}
	}
	event(to, false, 0, nil)
	do := b.makeBinary
	if b.make != nil {
		do = b.make
	}
	one.bin, one.err = do(b.Context, to)
	one.at = time.Now()
	if one.bin != nil && one.bin.file != nil {
		context.AfterFunc(b.Context, func() { _ = one.bin.file.Close() })
	}
	event(to, true, one.at.Sub(begun), one.err)
}

func (b *Builder) makeBinary(ctx context.Context, to Platform) (*Binary, error) {
	running, err := Running()
	if err != nil {
		return nil, err
	}
	p := *running
	p.SourceDir = b.SourceDir
	s, err := userStore()
	if err != nil {
		return nil, err
	}
	return p.make(ctx, to, s)
}

// make builds the program into a store.
func (p *Program) make(ctx context.Context, to Platform, s store) (*Binary, error) {
	scratch, err := s.scratch()
	if err != nil {
		return nil, err
	}
	defer os.RemoveAll(scratch)
	key, out := p.key(to), filepath.Join(scratch, "worker")
	s.seed(key, out)
	if err := p.build(ctx, to, scratch, out); err != nil {
		return nil, err
	}
	return s.keep(key, out)
}

// key tells builds apart of which one can be the next one's beginning. It need
// not be exact: the go command decides what is up to date.
func (p *Program) key(to Platform) string {
	sum := sha256.Sum256(fmt.Appendf(nil, "%q %q %q %q", p.Info.Path, p.Info.Main.Path, p.targets(), to))
	return hex.EncodeToString(sum[:8])
}
