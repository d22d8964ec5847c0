package gputrain

import (
	"bytes"
	"compress/gzip"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"path"
	"strings"
	"syscall"
	"time"

	"github.com/gputrain/gputrain/internal/crossbuild"
	"github.com/gputrain/gputrain/internal/ssh"
	"github.com/gputrain/gputrain/internal/supervisor"
	"github.com/gputrain/gputrain/internal/worker"
)

const (
	// scratchDir is where functions may leave what the pool removes, below its folder.
	scratchDir = "scratch"
	// shipAttempts bounds how often a cut connection, or a disk that is full, may
	// interrupt the shipping.
	shipAttempts = 5
	// fullPause is the time between attempts where the disk is full: what a task has
	// printed is removed from the node a moment after the task's end.
	fullPause = time.Second
	// probeMode is a mode that no worker has: a program that the node can load
	// says so, and exits with the code for that. probeMark stands before the code.
	probeMode, probeExit, probeMark = "probe", "64", "exit="
	// notPermitted is the shell's code for what may not be executed, as where a
	// folder is mounted noexec.
	notPermitted = "126"
)

// ship puts the program on the node, unless it is there, by its digest.
func (n *poolNode) ship(ctx context.Context) (program, error) {
	p, err := n.program(ctx)
	if err != nil {
		return p, err
	}
	err = n.send(ctx, p)
	if unfit := (*unfitError)(nil); errors.As(err, &unfit) {
		if p, err = n.substitute(ctx, unfit); err != nil {
			return p, err
		}
		err = n.send(ctx, p)
	}
	if errors.Is(err, ssh.ErrStalled) {
		n.super.Fail(err)
	}
	if err != nil {
		return p, &Error{Provider: n.provider(), Op: "ship the program to " + n.name, Err: err}
	}
	return p, nil
}

// program finds the program that runs on the node's platform.
func (n *poolNode) program(ctx context.Context) (program, error) {
	if n.platform() != crossbuild.Here() {
		return n.substitute(ctx, nil)
	}
	name, digest, err := worker.SelfDigest()
	if err != nil {
		return program{}, err
	}
	p := n.programOf(digest, func() (io.ReadSeekCloser, error) { return os.Open(name) })
	if format, err := crossbuild.Identify(name); err == nil {
		p.interpreter = format.Interpreter
	}
	return p, nil
}

func (n *poolNode) platform() crossbuild.Platform {
	return crossbuild.Platform{OS: n.facts.OS, Arch: n.facts.Arch}
}

func (n *poolNode) programOf(digest string, open func() (io.ReadSeekCloser, error)) program {
	return program{remote: path.Join(n.facts.CacheDir, "bin", digest), digest: digest, open: open}
}

// substitute returns what serves on the node in place of the program that is
// running: one that WithWorkerBinary names, or else one that is built now. unfit
// is why it must, where the platform is not.
func (n *poolNode) substitute(ctx context.Context, unfit *unfitError) (program, error) {
	node := n.platform()
	refuse := func(err error) *Error {
		return &Error{Provider: n.provider(), Op: "ship the program to " + n.name, Kind: ErrUnsupported, Err: err}
	}
	digest, open, others, err := n.p.given(node)
	switch {
	case err != nil:
		return program{}, refuse(err)
	case open != nil:
		return n.programOf(digest, open), nil
	}
	built, err := n.p.builds().Build(ctx, node)
	if err == nil {
		return n.programOf(built.Digest, built.Open), nil
	}
	if ctx.Err() != nil {
		return program{}, err
	}
	why := fmt.Sprintf("the node is %v and this program is for %v", node, crossbuild.Here())
	if unfit != nil {
		why = unfit.Error()
	}
	if len(others) > 0 {
		why += ", WithWorkerBinary names " + strings.Join(others, " and ")
	}
	e := refuse(fmt.Errorf("%s, and building it for the node failed: %w", why, err))
	switch self, selfErr := crossbuild.Running(); {
	case errors.Is(err, crossbuild.ErrChanged):
		e.Hint = "build or start this program again"
	case selfErr == nil && errors.Is(err, crossbuild.ErrNoSources):
		e.Hint = "give Open gputrain.WithSourceDir with the folder of its module, or " + self.Advice(node) + ", and give Open gputrain.WithWorkerBinary(\"worker\")"
	case selfErr == nil:
		e.Hint = self.Advice(node) + ", and give Open gputrain.WithWorkerBinary(\"worker\")"
	}
	return program{}, e
}

// send makes the worker's folders and sends the program, however often the
// connection is cut meanwhile.
func (n *poolNode) send(ctx context.Context, p program) (err error) {
	for range shipAttempts {
		err = n.sendProgram(ctx, p)
		full := errors.Is(err, syscall.ENOSPC)
		if !full && !errors.Is(err, ssh.ErrDisconnected) || full && !sleep(ctx, fullPause) {
			break
		}
	}
	return err
}

// sendProgram makes the worker's folders, removes what workers that were
// killed have left and, where the program is missing, sends it.
func (n *poolNode) sendProgram(ctx context.Context, p program) error {
	remains := n.worker.remains()
	quoted := make([]string, 3+len(remains))
	for i, s := range append([]string{path.Dir(p.remote), p.remote, path.Join(n.facts.Root, scratchDir)}, remains...) {
		var err error
		if quoted[i], err = supervisor.Quote(s); err != nil {
			return err
		}
	}
	dir, bin, scratch, old := quoted[0], quoted[1], quoted[2], strings.Join(quoted[3:], " ")
	probe := ":"
	if p.interpreter != "" {
		probe = fmt.Sprintf("{ %s=%s %s >/dev/null </dev/null; echo %s$?; }", worker.Env, probeMode, bin, probeMark)
	}
	var answer ssh.Answer
	var complaint tail
	err := n.client.ExecMoving(ctx, fmt.Sprintf("umask 077; rm -rf %s; mkdir -p %s %s && { [ ! -x %s ] || { echo found; %s; }; }", old, dir, scratch, bin, probe),
		nil, &answer, &complaint)
	if err != nil {
		return withComplaint(err, &complaint)
	}
	n.worker.removed(remains)
	if code, found := strings.CutPrefix(answer.String(), "found\n"); found {
		return p.fit(code, &complaint)
	}
	in, unpack, err := n.packed(p)
	if err != nil {
		return err
	}
	defer in.Close()
	// $$ keeps two clients apart; whoever is last wins, with the same bytes.
	err = n.client.ExecMoving(ctx, fmt.Sprintf("umask 077; t=%s.$$; trap 'rm -f \"$t\"' EXIT; %s && chmod 700 \"$t\" && mv -f \"$t\" %s && %s", bin, unpack, bin, probe),
		in, &answer, &complaint)
	if err != nil {
		return withComplaint(err, &complaint)
	}
	return p.fit(answer.String(), &complaint)
}

// packed opens what is sent of a program, and says what the node makes a file
// of it with. That fails where some is missing: to the node a cut connection looks
// like the end of the program.
func (n *poolNode) packed(p program) (in io.ReadCloser, unpack string, err error) {
	if n.facts.Tools["gzip"] && n.distant() {
		in, err = n.p.compressed(p)
		return in, `gzip -dc >"$t"`, err
	}
	f, err := p.open()
	if err != nil {
		return nil, "", err
	}
	size, err := f.Seek(0, io.SeekEnd)
	if err == nil {
		_, err = f.Seek(0, io.SeekStart)
	}
	if err != nil {
		return nil, "", errors.Join(err, f.Close())
	}
	return f, fmt.Sprintf(`cat >"$t" && [ "$(wc -c <"$t")" -eq %d ]`, size), nil
}

// withComplaint adds what the node said to the failure of a command there.
func withComplaint(err error, complaint *tail) error {
	said := complaint.String()
	if exit := (*ssh.ExitError)(nil); !errors.As(err, &exit) || said == "" {
		return err
	}
	if strings.Contains(said, "No space left on device") {
		return fmt.Errorf("%w: %w (%s); free some there, or ask for a bigger disk", err, syscall.ENOSPC, said)
	}
	return fmt.Errorf("%w: %s", err, said)
}

// An unfitError is a program that the node cannot load, though it is for its
// platform: one with C code wants the libraries of the machine that built it.
type unfitError struct{ why string }

func (e *unfitError) Error() string { return "the node cannot run this program (" + e.why + ")" }

// fit reads what a probe answered, and what it complained of.
func (p program) fit(answer string, complaint *tail) error {
	code := strings.TrimSpace(strings.TrimPrefix(answer, probeMark))
	if p.interpreter == "" || code == probeExit || code == notPermitted {
		return nil // what is not permitted is so for any program
	}
	said := strings.Split(strings.TrimSpace(complaint.String()), "\n")
	why := said[len(said)-1]
	if why == "" {
		why = "it ends with exit code " + code
	}
	return &unfitError{why}
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

func compress(open func() (io.ReadSeekCloser, error)) ([]byte, error) {
	f, err := open()
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
