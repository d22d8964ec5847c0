package launcher

import (
	_ "embed"
	"fmt"
	"strings"
)

// The texts of sh that the nodes run. Each is read by the shell that runs the task's command, before it.
var (
	//go:embed prelude.sh
	prelude string
	//go:embed mpirun.sh
	mpirun string
	//go:embed ranks.sh
	ranks string
)

// logDir has torchrun put the error file of each process where it comes back from.
const logDir = `export PET_LOG_DIR="${PET_LOG_DIR-$GPUTRAIN_SCRATCH/torchrun}"` + "\n"

// Command returns what a node runs in place of a task's command or script, of which one is empty. It first sets the
// variables that are paths on the node, unless the task has set them, and writes the files that they name. With [MPI] that
// is for the first node alone, where it runs mpirun: the others run what [Relay] hands on.
func (g *Gang) Command(l Launcher, args []string, script string) (newArgs []string, newScript string) {
	before := "gputrain_hosts=" + word(g.Hostfile()) + "\n" + prelude
	if l == Torchrun {
		before += logDir
	}
	switch {
	case l == MPI:
		if script != "" {
			args = []string{"sh", "-c", script}
		}
		text := fmt.Sprintf("%sgputrain_ranks=%s\ngputrain_world=%d\n%s", before, word(ranks), g.World(), mpirun)
		return append([]string{"sh", "-c", text, "sh"}, args...), ""
	case script != "":
		return nil, before + script
	}
	return append([]string{"sh", "-c", before + `exec "$@"`, "sh"}, args...), ""
}

// unsupported is the exit code of mpirun.sh on a node that cannot run Open MPI.
const unsupported = 69

// IsUnsupported reports whether the first node could not run mpirun at all, by the exit code and the last lines of what
// [Gang.Command] returned. The lines say why, and what to do.
func IsUnsupported(exitCode int, tail string) bool {
	last := strings.TrimRight(tail, "\n")
	last = last[strings.LastIndexByte(last, '\n')+1:]
	return exitCode == unsupported && strings.HasPrefix(last, "gputrain: ")
}

// word returns text that a POSIX shell reads as one word.
func word(s string) string { return "'" + strings.ReplaceAll(s, "'", `'\''`) + "'" }
