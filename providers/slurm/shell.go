package slurm

import (
	"cmp"
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"io"
	"strconv"
	"strings"

	"github.com/gputrain/gputrain/providers/driver"
)

// A shell runs text for a POSIX shell on the login node.
type shell interface {
	// Run runs text to its end. What it prints beyond the limit of an output is an error. The error is an *unsent if
	// the text has not reached the login node.
	Run(ctx context.Context, text string) (stdout, stderr string, err error)
	Close() error
}

// An unsent is the error of commands that did not reach the login node.
type unsent struct{ error }

func (e *unsent) Unwrap() error { return e.error }

// Answered returns true: nothing was asked, and so nothing can be made.
func (e *unsent) Answered() bool { return true }

// maxOutput bounds what the commands of one text print. The largest answers are those of sinfo and scontrol about each
// node of a large cluster, some MB.
const maxOutput = 32 << 20

var errOutput = fmt.Errorf("the login node prints more than %d MiB", maxOutput>>20)

// An output keeps what a command prints, up to maxOutput.
type output struct{ text strings.Builder }

func (o *output) Write(p []byte) (int, error) {
	if o.text.Len()+len(p) > maxOutput {
		return 0, errOutput
	}
	return o.text.Write(p)
}

var _ io.Writer = (*output)(nil)

// A command is a command for the login node, with its standard input, which is text.
type command struct {
	words []string
	input string
}

// quote returns text that a POSIX shell reads as the one word s. It is the only way in which values enter shell text.
func quote(s string) string {
	if s != "" && !strings.ContainsFunc(s, func(r rune) bool {
		return !(r >= '0' && r <= '9' || r >= 'A' && r <= 'Z' || r >= 'a' && r <= 'z' || strings.ContainsRune("-_./:=,@%+", r))
	}) {
		return s
	}
	return "'" + strings.ReplaceAll(s, "'", `'\''`) + "'"
}

// environment makes answers readable whatever the user's own settings are. SLURM_CONF and what wrappers of sites need
// stays.
const environment = `LC_ALL=C SLURM_TIME_FORMAT=%s
export LC_ALL SLURM_TIME_FORMAT
for v in $(env | sed -n 's/^\(S[A-Z]*_[A-Z0-9_]*\)=.*/\1/p'); do
	case $v in
	SLURM_CONF* | SLURM_JWT | SLURM_HOME | SLURM_ROOT | SLURM_DIR | SLURM_PREFIX | SLURM_TIME_FORMAT) ;;
	SLURM_* | SBATCH_* | SQUEUE_* | SINFO_* | SACCT_* | SCANCEL_* | SCONTROL_* | SRUN_* | SALLOC_*) unset "$v" ;;
	esac
done
`

// text returns shell text that runs commands, each with a line before and after what it prints, and ahead before all of them. A
// shell that has not received all of it runs none of it.
func text(mark, ahead string, commands []command) string {
	var b strings.Builder
	b.WriteString("{\n" + ahead + environment)
	for _, c := range commands {
		fmt.Fprintf(&b, "printf '%%s\\n' %s\n", begin(mark))
		for i, w := range c.words {
			b.WriteString(strings.Repeat(" ", min(i, 1)) + quote(w))
		}
		if c.input == "" {
			b.WriteString(" </dev/null\n")
		} else {
			fmt.Fprintf(&b, " <<'%s'\n%s\n%s\n", mark, strings.TrimSuffix(c.input, "\n"), mark)
		}
		fmt.Fprintf(&b, "printf '\\n%%s %%s\\n' %s $?\n", end(mark))
	}
	b.WriteString("exit 0\n}\n")
	return b.String()
}

func begin(mark string) string { return mark + "-begin" }
func end(mark string) string   { return mark + "-end" }

// An answer holds a command's output and exit status.
type answer struct {
	out  string
	code int
}

var errNoAnswer = errors.New("the login node's shell did not run the commands to their end")

// parseAnswers reads the output of text, before which a shell may have printed more.
func parseAnswers(mark, out string, n int) ([]answer, error) {
	var all []answer
	for range n {
		_, rest, ok := strings.Cut(out, begin(mark)+"\n")
		printed, rest, ended := strings.Cut(rest, "\n"+end(mark)+" ")
		status, rest, whole := strings.Cut(rest, "\n")
		code, err := strconv.Atoi(status)
		if !ok || !ended || !whole || err != nil {
			return nil, errNoAnswer
		}
		all = append(all, answer{out: printed, code: code})
		out = rest
	}
	return all, nil
}

// do runs commands on the login node, once. stderr is that of all commands together.
func (d *controller) do(ctx context.Context, commands ...command) (all []answer, stderr string, err error) {
	ctx, cancel := context.WithTimeoutCause(ctx, d.cfg.CommandTimeout, fmt.Errorf("no answer within %v", d.cfg.CommandTimeout))
	defer cancel()
	mark := "gputrain-" + rand.Text()
	out, stderr, err := d.shell.Run(ctx, text(mark, d.ahead, commands))
	if err != nil {
		if cause := context.Cause(ctx); cause != nil && !errors.Is(err, cause) {
			err = fmt.Errorf("%w: %w", cause, err)
		}
		return nil, stderr, unavailable(ctx, err)
	}
	all, err = parseAnswers(mark, out, len(commands))
	if err != nil {
		said := cmp.Or(lastLines(stderr), lastLines(out))
		return nil, stderr, &driver.Error{Kind: driver.ErrUnavailable, Err: fmt.Errorf("%w%s", err, afterColon(said)),
			Hint: hintCommand}
	}
	return all, stderr, nil
}

// slurm returns the words of a command of Slurm, for the cluster of Config.Clusters.
func (d *controller) slurm(program string, args ...string) []string {
	words := []string{program}
	if d.cfg.Clusters != "" {
		words = append(words, "--clusters="+d.cfg.Clusters)
	}
	return append(words, args...)
}

func afterColon(text string) string {
	if text == "" {
		return ""
	}
	return ": " + text
}

// lastLines returns the end of what a command has said, in one line.
func lastLines(text string) string {
	const most = 300
	text = strings.Join(strings.Fields(text), " ")
	if len(text) > most {
		text = "..." + strings.ToValidUTF8(text[len(text)-most:], "")
	}
	return text
}
