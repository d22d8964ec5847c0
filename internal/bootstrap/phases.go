package bootstrap

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/gputrain/gputrain/internal/printable"
	"github.com/gputrain/gputrain/internal/uv"
)

// python makes the virtual environment, or finds a finished one. If pip comes next, the environment is used only after
// that.
func (b *bootstrapper) python(ctx context.Context, p Phase) (bool, *Error) {
	how, rest, err := b.environ(ctx, p, "fetch", "")
	if how == "send" {
		how, rest, err = b.withUV(ctx, p, rest)
	}
	if err != nil {
		return false, err
	}
	venv := rest
	switch how {
	case "cached":
		b.venvDone = true
	case "made":
		b.uv, venv, _ = strings.Cut(rest, "\n")
	}
	if venv == "" || how != "cached" && how != "made" {
		return false, failure(p, errAnswer)
	}
	b.venv = venv
	if b.venvDone || !b.img.wantsPip() {
		b.use(venv)
	}
	return b.venvDone, nil
}

// environ runs python.sh and returns the first line of its answer, and the rest. how and why are arguments of the
// script.
func (b *bootstrapper) environ(ctx context.Context, p Phase, how, why string) (answer, rest string, failed *Error) {
	withPip := ""
	if b.img.wantsPip() {
		withPip = "pip"
	}
	args := []string{b.facts.CacheDir, b.nodeKey(p), b.img.Python, withPip, b.attempt, string(b.required.kind), how, why}
	if build, ok := b.build(); ok {
		args = append(args, b.program(build), b.release.Version, build.Target, build.SHA256, b.release.Base, build.Path)
	} else {
		args = append(args, "", b.release.Version, "", "", "", "")
	}
	said, failed := b.ask(ctx, p, call{scripts: []string{"uv.sh", "python.sh"}, args: args, stdin: b.required.script()})
	answer, rest, _ = strings.Cut(said, "\n")
	return answer, rest, failed
}

// withUV sends uv to a node that has said why it cannot fetch it, and runs python.sh again, with uv or without.
func (b *bootstrapper) withUV(ctx context.Context, p Phase, why string) (answer, rest string, failed *Error) {
	why = printable.Line(b.redact(why))
	fmt.Fprintf(b.output(p.Name), "uv %s: the node cannot fetch it (%s), so it is sent\n", b.release.Version, why)
	how := "brought"
	if err := b.send(ctx); err != nil {
		if ctx.Err() != nil {
			return "", "", failure(p, context.Cause(ctx))
		}
		fmt.Fprintf(b.output(p.Name), "uv %s cannot be sent: %v\n", b.release.Version, err)
		how, why = "without", fmt.Sprintf("the node cannot fetch it: %s\nnor can it be sent: %v", why, err)
	}
	return b.environ(ctx, p, how, why)
}

// send fetches the node's build of uv to this computer, and copies it to the node.
func (b *bootstrapper) send(ctx context.Context) error {
	ctx, cancel := context.WithTimeoutCause(ctx, b.img.Timeout(), late(b.img.Timeout()))
	defer cancel()
	if b.upload == nil {
		return errors.New("no file can be copied there now")
	}
	build, _ := b.build()
	local, err := b.release.Fetch(ctx, build)
	if err != nil {
		return err
	}
	return b.upload(ctx, local, b.program(build))
}

// build returns the build of uv for the node, and whether there is one.
func (b *bootstrapper) build() (uv.Build, bool) { return b.release.Build(b.facts.OS, b.facts.Arch) }

// program returns the path on the node of a uv that is brought there. Machines of different platforms may share one
// home directory.
func (b *bootstrapper) program(build uv.Build) string {
	return b.facts.CacheDir + "/uv/" + build.Target + "-" + b.release.Version + "/uv"
}

// pip installs into python's virtual environment. A finished one holds the packages already.
func (b *bootstrapper) pip(ctx context.Context, p Phase) (bool, *Error) {
	if b.venvDone {
		return true, nil
	}
	hashes := ""
	if b.required.hashed {
		hashes = "hashes"
	}
	args := []string{b.facts.CacheDir, b.nodeKey(p), b.attempt, b.venv, b.uv, string(b.required.kind), hashes, b.img.Python}
	if b.uv != "-" {
		args = append(args, b.required.options...)
	}
	for _, index := range b.img.PipIndexes {
		args = append(args, "--extra-index-url", index)
	}
	args = append(append(args, "--"), b.img.Pip...)
	if _, err := b.script(ctx, p, call{scripts: []string{"uv.sh", "pip.sh"}, args: args}); err != nil {
		return false, err
	}
	b.use(b.venv)
	return false, nil
}

// files copies the paths of Include. There is no stamp: the copy compares with what exists, and so repairs what a task
// has changed.
func (b *bootstrapper) files(ctx context.Context, p Phase) (bool, *Error) {
	entries, err := b.img.entries()
	if err != nil {
		return false, failure(p, err)
	}
	ctx, cancel := context.WithTimeoutCause(ctx, b.img.Timeout(), late(b.img.Timeout()))
	defer cancel()
	stats, err := b.sync(ctx, entries)
	if err != nil {
		if errors.Is(err, context.DeadlineExceeded) {
			err = fmt.Errorf("%w (%w)", context.Cause(ctx), err)
		}
		return false, failure(p, err)
	}
	fmt.Fprintf(b.output(p.Name), "%d of %d files sent, %d bytes\n", stats.Sent, stats.Files, stats.Bytes)
	if stats.Vanished != "" {
		fmt.Fprintln(b.output(p.Name), stats.Vanished)
	}
	b.manifest = b.facts.WorkDir + ".sync"
	return stats.Sent == 0, nil
}

// shell runs one command of Before or Setup in the working directory. Its stamp is beside that directory and is removed
// with it, so it is never another pool's.
func (b *bootstrapper) shell(ctx context.Context, p Phase) (bool, *Error) {
	stamp := b.facts.Root + "/phases/" + hash(p.Key, b.venv)
	again := ""
	if b.again {
		again = "again"
	}
	cached, err := b.script(ctx, p, call{
		scripts: []string{"setup.sh"}, args: []string{stamp, b.attempt, b.manifest, again}, env: map[string]string{"GPUTRAIN_SETUP": p.command},
	})
	b.again = b.again || !cached
	return cached, err
}

// nodeKey returns the phase's key for nodes of this platform: machines of different platforms may share one home
// directory.
func (b *bootstrapper) nodeKey(p Phase) string { return hash(p.Key, b.facts.OS, b.facts.Arch) }
