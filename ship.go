package gputrain

import (
	"bytes"
	"compress/gzip"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"path"
	"sync"

	"github.com/gputrain/gputrain/internal/ssh"
	"github.com/gputrain/gputrain/internal/supervisor"
	"github.com/gputrain/gputrain/internal/worker"
)

// scratchDir is where functions may leave what the pool removes, below its folder.
const scratchDir = "scratch"

// shipAttempts bounds how often a cut connection may interrupt the shipping.
const shipAttempts = 5

// A program is what serves functions on a node.
type program struct {
	local, remote string
	digest        string // SHA-256, in hex
}

// ship puts the program on the node, unless it is there, by its digest.
func (n *poolNode) ship(ctx context.Context) (program, error) {
	p, err := n.program()
	if err != nil {
		return p, err
	}
	for attempt := 1; ; attempt++ {
		err = n.sendProgram(ctx, p)
		if !errors.Is(err, ssh.ErrDisconnected) || attempt == shipAttempts {
			break
		}
	}
	if err != nil {
		return p, &Error{Provider: n.p.provider, Op: "ship the program to " + n.name, Err: err}
	}
	return p, nil
}

// program finds the program that runs on the node's platform.
func (n *poolNode) program() (program, error) {
	var p program
	var err error
	goos, goarch := worker.BuildInfo()
	switch {
	case goos == n.facts.OS && goarch == n.facts.Arch:
		p.local, p.digest, err = worker.SelfDigest()
	case n.p.opts.workerBinary != "":
		p.local = n.p.opts.workerBinary
		p.digest, err = n.p.workerDigest()
	default:
		return p, &Error{Provider: n.p.provider, Op: "ship the program to " + n.name, Kind: ErrUnsupported,
			Err: fmt.Errorf("the node is %s/%s and this program is for %s/%s", n.facts.OS, n.facts.Arch, goos, goarch),
			Hint: fmt.Sprintf("build it for the node (GOOS=%s GOARCH=%s CGO_ENABLED=0 go build -o worker .) and name it by gputrain.WithWorkerBinary(\"worker\")",
				n.facts.OS, n.facts.Arch)}
	}
	p.remote = path.Join(n.facts.CacheDir, "bin", p.digest)
	return p, err
}

// workerDigest returns the digest of the program that WithWorkerBinary names.
func (p *pool) workerDigest() (string, error) {
	f, err := os.Open(p.opts.workerBinary)
	if err != nil {
		return "", err
	}
	defer f.Close()
	sum := sha256.New()
	_, err = io.Copy(sum, f)
	return hex.EncodeToString(sum.Sum(nil)), err
}

// sendProgram makes the worker's folders and, where the program is missing,
// sends it in the same exchange.
func (n *poolNode) sendProgram(ctx context.Context, p program) error {
	quoted := make([]string, 3)
	for i, s := range []string{path.Dir(p.remote), p.remote, path.Join(n.facts.Root, scratchDir)} {
		var err error
		if quoted[i], err = supervisor.Quote(s); err != nil {
			return err
		}
	}
	dir, bin, scratch := quoted[0], quoted[1], quoted[2]
	var found bytes.Buffer
	err := n.client.Exec(ctx, fmt.Sprintf("umask 077; mkdir -p %s %s && { [ ! -x %s ] || echo found; }", dir, scratch, bin), nil, &found, nil)
	if err != nil || found.Len() > 0 {
		return err
	}
	unpack, body := "cat", func() (io.ReadCloser, error) { return os.Open(p.local) }
	if n.facts.Tools["gzip"] && n.distant() {
		unpack, body = "gzip -dc", func() (io.ReadCloser, error) { return n.p.compressed(p.local) }
	}
	in, err := body()
	if err != nil {
		return err
	}
	defer in.Close()
	var complaint bytes.Buffer
	// $$ keeps two clients apart; whoever is last wins, with the same bytes.
	err = n.client.Exec(ctx, fmt.Sprintf("umask 077; t=%s.$$; trap 'rm -f \"$t\"' EXIT; %s >\"$t\" && chmod 700 \"$t\" && mv -f \"$t\" %s", bin, unpack, bin),
		in, nil, &complaint)
	if exit := (*ssh.ExitError)(nil); errors.As(err, &exit) && complaint.Len() > 0 {
		return fmt.Errorf("%w: %s", err, bytes.TrimSpace(complaint.Bytes()))
	}
	return err
}

// distant reports whether a network lies between, over which compressing pays.
func (n *poolNode) distant() bool {
	host, _, err := net.SplitHostPort(n.inst.SSH.Addr)
	if err != nil {
		return false
	}
	ip := net.ParseIP(host)
	return host != "localhost" && (ip == nil || !ip.IsLoopback()) && host != "local"
}

// compressed returns a program in gzip's form, made once for all nodes.
func (p *pool) compressed(name string) (io.ReadCloser, error) {
	p.gzipOnce.Do(func() { p.gzipped, p.gzipErr = compress(name) })
	return io.NopCloser(bytes.NewReader(p.gzipped)), p.gzipErr
}

func compress(name string) ([]byte, error) {
	f, err := os.Open(name)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	var b bytes.Buffer
	z, err := gzip.NewWriterLevel(&b, gzip.BestSpeed)
	if err != nil {
		return nil, err
	}
	if _, err := io.Copy(z, f); err != nil {
		return nil, err
	}
	if err := z.Close(); err != nil {
		return nil, err
	}
	return b.Bytes(), nil
}

// compressedProgram is what p.compressed keeps.
type compressedProgram struct {
	gzipOnce sync.Once
	gzipped  []byte
	gzipErr  error
}
