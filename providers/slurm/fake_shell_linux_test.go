package slurm

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"os/exec"
	"slices"
	"strings"

	xssh "golang.org/x/crypto/ssh"

	"github.com/gputrain/gputrain/internal/loginshell"
	"github.com/gputrain/gputrain/providers/providertest"
)

// A printed is what a command of the fake prints.
type printed struct {
	out, stderr string
	code        int
}

// shell runs what a session of the login node is asked for, and returns its exit status, or -1 if there is none.
func (c *cluster) shell(ctx context.Context, l *fakeLogin, text string, ch xssh.Channel) int {
	text, start, err := loginshell.Parse(text)
	if err != nil {
		fmt.Fprintln(ch.Stderr(), err)
		return 2
	}
	io.WriteString(ch, "Welcome to the cluster. Maintenance is on Monday.\n"+loginshell.Line(start))
	io.WriteString(ch.Stderr(), "stdin: is not a tty\n"+loginshell.Line(start))
	if step, ok := strings.CutPrefix(text, "exec env -u SLURM_JOB_ID -u SLURM_CLUSTERS "); ok {
		return c.step(ctx, words(step), ch)
	}
	if text != "exec sh" {
		fmt.Fprintf(ch.Stderr(), "the fake does not know %q\n", text)
		return 2
	}
	script, err := io.ReadAll(ch)
	if err != nil || ctx.Err() != nil {
		return -1
	}
	mark, commands, err := parseScript(string(script))
	if err != nil {
		fmt.Fprintln(ch.Stderr(), err)
		return 2
	}
	var out strings.Builder
	for _, cmd := range commands {
		fault := c.strike(cmd)
		p := printed{}
		if fault == nil || fault.After || fault.Kind == providertest.Undone || fault.Kind == providertest.Missing {
			p = c.run(cmd, fault != nil && (fault.Kind == providertest.Undone || fault.Kind == providertest.Missing))
		}
		if fault != nil {
			switch fault.Kind {
			case providertest.Cut:
				l.cut()
				return -1
			case providertest.Hang:
				<-ctx.Done()
				return -1
			case providertest.HTML:
				io.WriteString(ch, "This account is currently not available.\n")
				return 0
			case providertest.Empty:
				return 0
			case providertest.Undone, providertest.Missing:
			default:
				p = faulty(cmd, fault.Kind)
			}
		}
		fmt.Fprintf(&out, "%s\n%s\n%s %d\n", begin(mark), p.out, end(mark), p.code)
		io.WriteString(ch.Stderr(), p.stderr)
	}
	io.WriteString(ch, out.String())
	return 0
}

// faulty returns the answer of a command under a fault.
func faulty(cmd command, kind providertest.Kind) printed {
	said := func(text string) printed { return printed{stderr: cmd.words[0] + ": error: " + text + "\n", code: 1} }
	switch kind {
	case providertest.Unavailable:
		return said("Unable to contact slurm controller (connect failure)")
	case providertest.RateLimited:
		return said("Slurm temporarily unable to accept job, sleeping and retrying")
	case providertest.Garbage:
		return printed{out: "\x00\xff{\"jobs\":["}
	case providertest.Huge:
		return printed{out: strings.Repeat("x", maxOutput+1)}
	case providertest.Astray:
		return printed{stderr: "sh: 4: " + cmd.words[0] + ": not found\n", code: 127}
	}
	return said("Unexpected message received")
}

// step runs a step of a job: its bytes go to a process with the job's environment.
func (c *cluster) step(ctx context.Context, args []string, ch xssh.Channel) int {
	i := slices.IndexFunc(args, func(w string) bool { return strings.HasPrefix(w, "--jobid=") })
	at := slices.Index(args, "sh")
	if i < 0 || at < 0 || args[0] != "srun" {
		fmt.Fprintf(ch.Stderr(), "srun: error: cannot run %q\n", args)
		return 1
	}
	env, ok := c.environ(strings.TrimPrefix(args[i], "--jobid="))
	if !ok {
		io.WriteString(ch.Stderr(), "srun: error: Unable to confirm allocation for job: Invalid job id specified\n")
		return 1
	}
	cmd := exec.CommandContext(ctx, args[at], args[at+1:]...)
	cmd.Env, cmd.Stdout, cmd.Stderr = env, ch, ch.Stderr()
	in, err := cmd.StdinPipe()
	if err == nil {
		err = cmd.Start()
	}
	if err != nil {
		fmt.Fprintln(ch.Stderr(), err)
		return 1
	}
	go func() { io.Copy(in, ch); in.Close() }() // ends with the channel
	cmd.Wait()
	return cmd.ProcessState.ExitCode()
}

// parseScript reads the text that text has made: the mark, and the commands with their input.
func parseScript(script string) (mark string, commands []command, err error) {
	_, rest, ok := strings.Cut(script, environment)
	if !ok || !strings.HasPrefix(script, "{\n") || !strings.HasSuffix(script, "exit 0\n}\n") {
		return "", nil, fmt.Errorf("not a whole script: %.200q", script)
	}
	lines := bufio.NewReader(strings.NewReader(rest))
	for {
		line, err := lines.ReadString('\n')
		first, ok := strings.CutPrefix(strings.TrimSuffix(line, "\n"), "printf '%s\\n' ")
		if err != nil || !ok {
			return mark, commands, nil
		}
		mark = strings.TrimSuffix(first, "-begin")
		text, err := lines.ReadString('\n')
		if err != nil {
			return "", nil, err
		}
		all := words(strings.TrimSuffix(text, "\n"))
		last := all[len(all)-1]
		cmd := command{words: all[:len(all)-1]}
		if strings.HasPrefix(last, "<<") {
			var input strings.Builder
			for {
				line, err := lines.ReadString('\n')
				if err != nil {
					return "", nil, err
				}
				if line == mark+"\n" {
					break
				}
				input.WriteString(line)
			}
			cmd.input = input.String()
		}
		commands = append(commands, cmd)
		if _, err := lines.ReadString('\n'); err != nil { // the end's mark
			return "", nil, err
		}
	}
}

// words splits a line as a shell does, which knows single quotes and backslashes only.
func words(line string) (all []string) {
	var b strings.Builder
	in, quoted := false, false
	for i := 0; i < len(line); i++ {
		switch ch := line[i]; {
		case ch == '\'':
			quoted, in = !quoted, true
		case quoted:
			b.WriteByte(ch)
		case ch == '\\' && i+1 < len(line):
			i++
			b.WriteByte(line[i])
			in = true
		case ch == ' ':
			if in {
				all = append(all, b.String())
				b.Reset()
			}
			in = false
		default:
			b.WriteByte(ch)
			in = true
		}
	}
	if in {
		all = append(all, b.String())
	}
	return all
}
