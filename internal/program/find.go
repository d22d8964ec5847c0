package program

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"
	"sync"

	"github.com/gputrain/gputrain/internal/crossbuild"
	"github.com/gputrain/gputrain/internal/worker"
	"github.com/gputrain/gputrain/providers/driver"
)

// Programs are the binaries of this program that one pool ships: one for each platform of its nodes. It may be used from
// several goroutines, and reads, builds and compresses each binary once.
type Programs struct {
	given   []string // paths of binaries that the user has built
	builder *crossbuild.Builder
	running func() (path, digest string, err error)

	mu      sync.Mutex
	zipped  map[string]func() ([]byte, error) // by digest
	digests map[string]func() (string, error) // by path, of given
}

// New returns the programs of a pool. given are paths of binaries that the user has built, each for another platform.
// For platforms without one, the builder builds this program.
func New(given []string, builder *crossbuild.Builder) *Programs {
	return &Programs{
		given: given, builder: builder, running: worker.SelfDigest,
		zipped: map[string]func() ([]byte, error){}, digests: map[string]func() (string, error){},
	}
}

// A binary is a program to ship.
type binary struct {
	digest string // SHA-256, in hexadecimal
	open   func() (io.ReadSeekCloser, error)
	// interpreter is the file that a node needs to load it, or "" if it needs none or that is unknown.
	interpreter string
}

// find returns the binary for a platform: the running one if it is for that platform.
func (s *Programs) find(ctx context.Context, to crossbuild.Platform) (binary, error) {
	if to != crossbuild.Here() {
		return s.substitute(ctx, to, nil)
	}
	name, digest, err := s.running()
	if err != nil {
		return binary{}, err
	}
	b := binary{digest: digest, open: opener(name)}
	if format, err := crossbuild.Identify(name); err == nil {
		b.interpreter = format.Interpreter
	}
	return b, nil
}

func opener(name string) func() (io.ReadSeekCloser, error) {
	return func() (io.ReadSeekCloser, error) { return os.Open(name) }
}

// substitute returns what a node runs instead of the running binary: one that the user has built for the platform, or
// else one that is built now. unfit says why the node cannot run a binary that is for its platform; it is nil if the
// platforms differ.
func (s *Programs) substitute(ctx context.Context, to crossbuild.Platform, unfit *unfitError) (binary, error) {
	name, others, err := s.givenFor(to)
	if err == nil && name != "" {
		var digest string
		if digest, err = s.digest(name); err == nil {
			return binary{digest: digest, open: opener(name)}, nil
		}
	}
	if err != nil {
		return binary{}, &driver.Error{Kind: driver.ErrUnsupported, Err: err}
	}
	built, err := s.builder.Build(ctx, to)
	if err == nil {
		return binary{digest: built.Digest, open: built.Open}, nil
	}
	if ctx.Err() != nil {
		return binary{}, err
	}
	why := fmt.Sprintf("the node is %v and this program is for %v", to, crossbuild.Here())
	if unfit != nil {
		why = unfit.Error()
	}
	if len(others) > 0 {
		why += ", WithWorkerBinary names " + strings.Join(others, " and ")
	}
	return binary{}, &driver.Error{
		Kind: driver.ErrUnsupported, Hint: hint(to, err),
		Err: fmt.Errorf("%s, and building it for the node failed: %w", why, err),
	}
}

// hint says what helps against a build that failed.
func hint(to crossbuild.Platform, failure error) string {
	const given = `, and give Open gputrain.WithWorkerBinary("worker")`
	self, err := crossbuild.Running()
	switch {
	case errors.Is(failure, crossbuild.ErrChanged):
		return "build or start this program again"
	case err != nil:
		return ""
	case errors.Is(failure, crossbuild.ErrNoSources):
		return "give Open gputrain.WithSourceDir with the folder of its module, or " + self.Advice(to) + given
	}
	return self.Advice(to) + given
}

// givenFor returns the path of the binary that the user has built for a platform, or "" and those for other platforms.
func (s *Programs) givenFor(to crossbuild.Platform) (path string, others []string, err error) {
	for _, name := range s.given {
		format, err := crossbuild.Identify(name)
		if err != nil {
			return "", nil, fmt.Errorf("WithWorkerBinary: %w", err)
		}
		if format.Platform == to {
			return name, nil, nil
		}
		others = append(others, fmt.Sprintf("%s (%v)", name, format.Platform))
	}
	return "", others, nil
}

// digest returns the digest of a binary that the user has built, which is read once.
func (s *Programs) digest(name string) (string, error) {
	s.mu.Lock()
	digest := s.digests[name]
	if digest == nil {
		digest = sync.OnceValues(func() (string, error) { return fileDigest(name) })
		s.digests[name] = digest
	}
	s.mu.Unlock()
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
