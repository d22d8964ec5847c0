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

// After a failed build all callers get its error for retryAfter. Then the build is tried again.
const retryAfter = time.Minute

// A Builder builds the running program, once for each platform, however many callers ask for it.
type Builder struct {
	// Context ends running builds and closes finished ones.
	Context context.Context
	// Go starts a build. It may outlive the callers that wait for it.
	Go func(build func())
	// Event is called when a build begins, and, with its outcome, when it ends. It may be nil.
	Event func(to Platform, done bool, elapsed time.Duration, err error)
	// SourceDir is a folder of the program's module for which the caller is responsible. Empty
	// means the folder that the program was built from.
	SourceDir string

	mu     sync.Mutex
	builds map[Platform]*build
	make   func(context.Context, Platform) (*Binary, error) // replaces makeBinary in tests
}

// A build is one build of the program. Its result is valid once done is closed.
type build struct {
	done chan struct{}
	bin  *Binary
	err  error
	at   time.Time
}

// A Binary is a built program. It stays readable until the Builder's context ends.
type Binary struct {
	// Digest is the SHA-256 of the content, in hexadecimal.
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

// Build returns the program for a platform. If ctx ends, Build returns, but the build goes on.
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

// key identifies builds that can start from each other's result. It need not be exact: the go
// command decides whether a result is up to date.
func (p *Program) key(to Platform) string {
	sum := sha256.Sum256(fmt.Appendf(nil, "%q %q %q %q", p.Info.Path, p.Info.Main.Path, p.targets(), to))
	return hex.EncodeToString(sum[:8])
}
