package gputrain

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"io"
	"os"
	"sync"
	"time"

	"github.com/gputrain/gputrain/internal/crossbuild"
)

// A program is what serves functions on a node.
type program struct {
	remote string
	digest string // SHA-256, in hex
	open   func() (io.ReadSeekCloser, error)
	// interpreter is what must be on the node to load it, or "".
	interpreter string
}

// programs are those of one pool: this one, and what stands for it on nodes of
// other platforms.
type programs struct {
	mu       sync.Mutex
	builder  *crossbuild.Builder
	gzipped  map[string]func() ([]byte, error) // by digest
	digestOf map[string]func() (string, error) // by path, of those that WithWorkerBinary names
}

// builds returns what builds programs for this pool. That shows as a phase of
// no node.
func (p *pool) builds() *crossbuild.Builder {
	p.programs.mu.Lock()
	defer p.programs.mu.Unlock()
	if p.programs.builder == nil {
		p.programs.builder = &crossbuild.Builder{
			Context: p.ctx, Go: p.running.Go, SourceDir: p.opts.sourceDir,
			Event: func(to crossbuild.Platform, done bool, elapsed time.Duration, err error) {
				ev := Event{Kind: EventPhase, Node: -1, Phase: "build for " + to.String(), State: "started", Elapsed: elapsed}
				switch {
				case err != nil:
					ev.State, ev.Err = "failed", err
				case done:
					ev.State = "done"
				}
				p.events.emit(ev)
			},
		}
	}
	return p.programs.builder
}

// given returns the program that WithWorkerBinary names for a platform, with a
// nil open where it names none, and what it names for others.
func (p *pool) given(to crossbuild.Platform) (digest string, open func() (io.ReadSeekCloser, error), others []string, err error) {
	for _, name := range p.opts.workerBinaries {
		format, err := crossbuild.Identify(name)
		if err != nil {
			return "", nil, nil, fmt.Errorf("WithWorkerBinary: %w", err)
		}
		if format.Platform != to {
			others = append(others, fmt.Sprintf("%s (%v)", name, format.Platform))
			continue
		}
		digest, err := p.givenDigest(name)
		return digest, func() (io.ReadSeekCloser, error) { return os.Open(name) }, nil, err
	}
	return "", nil, others, nil
}

func (p *pool) givenDigest(name string) (string, error) {
	p.programs.mu.Lock()
	digest := p.programs.digestOf[name]
	if digest == nil {
		if p.programs.digestOf == nil {
			p.programs.digestOf = map[string]func() (string, error){}
		}
		digest = sync.OnceValues(func() (string, error) { return fileDigest(name) })
		p.programs.digestOf[name] = digest
	}
	p.programs.mu.Unlock()
	return digest()
}

func fileDigest(name string) (string, error) {
	f, err := os.Open(name)
	if err != nil {
		return "", err
	}
	defer f.Close()
	sum := sha256.New()
	_, err = io.Copy(sum, f)
	return hex.EncodeToString(sum.Sum(nil)), err
}

// compressed returns a program in gzip's form, made once for all nodes.
func (p *pool) compressed(prog program) (io.ReadCloser, error) {
	p.programs.mu.Lock()
	zipped := p.programs.gzipped[prog.digest]
	if zipped == nil {
		if p.programs.gzipped == nil {
			p.programs.gzipped = map[string]func() ([]byte, error){}
		}
		zipped = sync.OnceValues(func() ([]byte, error) { return compress(prog.open) })
		p.programs.gzipped[prog.digest] = zipped
	}
	p.programs.mu.Unlock()
	content, err := zipped()
	return io.NopCloser(bytes.NewReader(content)), err
}
