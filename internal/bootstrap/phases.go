package bootstrap

import (
	"context"
	"errors"
	"fmt"
	"strings"
)

// python makes the virtual environment, or finds a finished one. If pip comes next, the environment is used only after
// that.
func (b *bootstrapper) python(ctx context.Context, p Phase) (bool, *Error) {
	withPip := ""
	if len(b.img.Pip) > 0 {
		withPip = "pip"
	}
	answer, err := b.ask(ctx, p, "python.sh", nil, b.facts.CacheDir, b.nodeKey(p), b.img.Python, withPip, b.attempt)
	if err != nil {
		return false, err
	}
	how, venv, ok := strings.Cut(answer, " ")
	if !ok || how != "made" && how != "cached" {
		return false, failure(p, errAnswer)
	}
	b.venv, b.venvDone = venv, how == "cached"
	if b.venvDone || withPip == "" {
		b.use(venv)
	}
	return b.venvDone, nil
}

// pip installs into python's virtual environment. A finished one holds the packages already.
func (b *bootstrapper) pip(ctx context.Context, p Phase) (bool, *Error) {
	if b.venvDone {
		return true, nil
	}
	args := []string{b.facts.CacheDir, b.nodeKey(p), b.attempt, b.venv}
	for _, index := range b.img.PipIndexes {
		args = append(args, "--extra-index-url", index)
	}
	args = append(append(args, "--"), b.img.Pip...)
	if _, err := b.script(ctx, p, "pip.sh", nil, args...); err != nil {
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
	ctx, cancel := context.WithTimeoutCause(ctx, b.img.timeout(), late(b.img.timeout()))
	defer cancel()
	stats, err := b.sync(ctx, entries)
	if err != nil {
		if errors.Is(err, context.DeadlineExceeded) {
			err = fmt.Errorf("%w (%w)", context.Cause(ctx), err)
		}
		return false, failure(p, err)
	}
	fmt.Fprintf(b.output(p.Name), "%d of %d files sent, %d bytes\n", stats.Sent, stats.Files, stats.Bytes)
	b.manifest = b.facts.WorkDir + ".sync"
	return stats.Sent == 0, nil
}

// setup runs one command in the working directory. Its stamp is beside that directory and is removed with it, so it is
// never another pool's.
func (b *bootstrapper) setup(ctx context.Context, p Phase) (bool, *Error) {
	stamp := b.facts.Root + "/phases/" + hash(p.Key, b.venv)
	again := ""
	if b.again {
		again = "again"
	}
	cached, err := b.script(ctx, p, "setup.sh", map[string]string{"GPUTRAIN_SETUP": p.command}, stamp, b.attempt, b.manifest, again)
	b.again = b.again || !cached
	return cached, err
}

// nodeKey returns the phase's key for nodes of this platform: machines of different platforms may share one home
// directory.
func (b *bootstrapper) nodeKey(p Phase) string { return hash(p.Key, b.facts.OS, b.facts.Arch) }
