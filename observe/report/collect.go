package report

import (
	"bytes"
	"context"
	"crypto/rand"
	"fmt"
	"io"
	"slices"
	"strings"
	"sync"

	"github.com/gputrain/gputrain/internal/printable"
	"github.com/gputrain/gputrain/observe"
)

// These bound what is collected from nodes.
const (
	mostAsked      = 64
	askedAtOnce    = 16
	mostNodeOutput = 1 << 20 // bytes of one node
)

// A collection is what one node has answered.
type collection struct {
	node  observe.Node
	files []collected
	why   string // it was not asked, or did not answer all; or ""
}

// collected is the output of one command.
type collected struct{ name, text string }

// sections are the commands that are run on a node, by the names of their files. None needs more rights than tasks have.
var sections = [][2]string{
	{"nvidia-smi.txt", "nvidia-smi -q"},
	{"dmesg.txt", "dmesg | tail -n 500"},
	{"df.txt", "df -P"},
	{"free.txt", "free || cat /proc/meminfo"},
	{"ps.txt", "ps auxww"},
	{"supervisor.txt", supervisor},
	{"versions.txt", "uname -a; cat /etc/os-release; nvidia-smi --version; python3 --version; docker --version"},
}

// supervisor shows what gputrain keeps on the node to run tasks: which files there are, and those that hold neither what tasks
// were given nor the node's token. The folder is beside the usual working directory.
const supervisor = `cd ../t 2>/dev/null && [ -s pool ] || cd "$HOME/.gputrain/pools/$GPUTRAIN_NODE/t" || exit
ls -l | tail -n 500
for f in pool owner lease up watch ctl boot gen journal end.log; do
	if [ -s $f ]; then echo; echo "== $f"; tail -n 200 $f; fi
done`

// script returns shell text that runs the commands, each between two lines with a mark.
func script(mark string) string {
	var b strings.Builder
	b.WriteString("export LC_ALL=C\nexec 2>&1\nt() { if command -v timeout >/dev/null; then timeout 10 sh -c \"$1\" </dev/null; else sh -c \"$1\" </dev/null; fi; }\n")
	for _, s := range sections {
		fmt.Fprintf(&b, "echo; echo '%s %s'; t '%s'; echo; echo \"%[1]s exit $?\"\n", mark, s[0], s[1])
	}
	b.WriteString("exit 0\n")
	return b.String()
}

// collect asks the nodes that can be reached.
func (b *bundle) collect(ctx context.Context, nodes []observe.Node) []collection {
	ctx, cancel := context.WithTimeoutCause(ctx, b.limits.collect, errLate)
	defer cancel()
	all := make([]collection, len(nodes))
	places := make(chan struct{}, askedAtOnce)
	var asking sync.WaitGroup
	asked := 0
	for i, n := range nodes {
		all[i].node = n
		if all[i].why = b.unasked(n, asked); all[i].why != "" {
			continue
		}
		asked++
		asking.Go(func() {
			select {
			case places <- struct{}{}:
				defer func() { <-places }()
				all[i].files, all[i].why = b.ask(ctx, n)
			case <-ctx.Done():
				all[i].why = "not asked: " + context.Cause(ctx).Error()
			}
		})
	}
	asking.Wait()
	return all
}

// unasked returns why a node is not asked, or "".
func (b *bundle) unasked(n observe.Node, asked int) string {
	switch {
	case n.Pool != b.pool.ID():
		return "not asked: it is of another pool than the one that was given"
	case n.State != "ready" && n.State != "unreachable":
		return "not asked: it is " + n.State + ", and takes no commands"
	case asked >= mostAsked:
		return fmt.Sprintf("not asked: %d others were", mostAsked)
	}
	return ""
}

// ask runs the commands on one node.
func (b *bundle) ask(ctx context.Context, n observe.Node) ([]collected, string) {
	ctx, cancel := context.WithTimeoutCause(ctx, b.limits.node, fmt.Errorf("it did not answer within %v", b.limits.node))
	defer cancel()
	mark := "gputrain-" + rand.Text()
	out := &firstBytes{most: mostNodeOutput}
	err := b.pool.Shell(ctx, n.Rank, strings.NewReader(script(mark)), out, io.Discard)
	files := divide(out.String(), mark)
	switch {
	case err != nil && ctx.Err() != nil:
		return files, context.Cause(ctx).Error()
	case err != nil:
		return files, err.Error()
	case out.cut():
		return files, fmt.Sprintf("cut after %d bytes", mostNodeOutput)
	}
	return files, ""
}

// divide returns the outputs between marks. What a node adds under other names is left out.
func divide(out, mark string) (files []collected) {
	for part := range strings.SplitSeq(out, "\n"+mark+" ") {
		name, text, ok := strings.Cut(part, "\n")
		known := slices.ContainsFunc(sections, func(s [2]string) bool { return s[0] == name })
		if !ok || !known || slices.ContainsFunc(files, func(f collected) bool { return f.name == name }) {
			continue
		}
		if text = printable.Text(text); name == "ps.txt" {
			text = withoutArguments(text)
		}
		files = append(files, collected{name, strings.TrimSpace(text)})
	}
	return files
}

// withoutArguments returns the output of ps with the first word of each command. Without a header that is known it returns
// nothing but how many lines there are.
func withoutArguments(ps string) string {
	lines := strings.Split(strings.TrimSpace(ps), "\n")
	header := strings.Fields(lines[0])
	column := slices.IndexFunc(header, func(s string) bool { return s == "COMMAND" || s == "CMD" || s == "ARGS" })
	if column < 0 {
		return fmt.Sprintf("%s in a form that is not known, left out because of their arguments", count(len(lines), "line"))
	}
	for i, l := range lines[1:] {
		fields := strings.Fields(l)
		if len(fields) > column+1 {
			fields = append(fields[:column+1:column+1], "[arguments redacted]")
		}
		lines[i+1] = strings.Join(fields, " ")
	}
	return strings.Join(lines, "\n")
}

// addCollected adds what the nodes have answered.
func addCollected(a *archive, all []collection) error {
	for _, c := range all {
		folder := nodeFolder(c.node.Key, c.node.Rank)
		if c.why != "" {
			a.miss(folder+": commands", c.why)
		}
		for _, f := range c.files {
			if f.text == "" {
				a.miss(folder+"/"+f.name, "the node printed nothing")
				continue
			}
			if err := a.text(folder+"/"+f.name, f.text); err != nil {
				return err
			}
		}
	}
	return nil
}

// firstBytes keeps the first bytes that are written, and drops the others.
type firstBytes struct {
	mu   sync.Mutex // stdout and stderr may come at once
	buf  bytes.Buffer
	most int
	more bool
}

func (b *firstBytes) Write(p []byte) (int, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	room := min(len(p), b.most-b.buf.Len())
	b.buf.Write(p[:room])
	b.more = b.more || room < len(p)
	return len(p), nil
}

func (b *firstBytes) String() string {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.buf.String()
}

func (b *firstBytes) cut() bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.more
}
