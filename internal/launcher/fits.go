package launcher

import (
	"fmt"
	"path"
	"regexp"
	"slices"
	"strconv"
	"strings"
)

// own are programs that start the processes of a gang themselves, and what to do instead if the launcher is not the one in which
// they fit.
var own = map[string]struct {
	fits Launcher
	hint string
}{
	"torchrun":   {Torchrun, "set Launcher to Torchrun"},
	"accelerate": {Torchrun, "leave accelerate launch away, since Processes sets the variables that it would; or set Launcher to Torchrun, and give it its flags from GPUTRAIN_NODES, GPUTRAIN_WORLD_SIZE, GPUTRAIN_RANK, GPUTRAIN_MASTER_ADDR and GPUTRAIN_MASTER_PORT"},
	"deepspeed":  {Torchrun, "leave deepspeed away, since Processes sets the variables that it would; or set Launcher to Torchrun, and give it --no_ssh and its flags from GPUTRAIN_HOSTFILE, GPUTRAIN_RANK, GPUTRAIN_MASTER_ADDR and GPUTRAIN_MASTER_PORT"},
	"composer":   {Torchrun, "leave composer away, since Processes sets the variables that it would; or set Launcher to Torchrun, and give it its flags from GPUTRAIN_WORLD_SIZE, GPUTRAIN_RANK, GPUTRAIN_MASTER_ADDR and GPUTRAIN_MASTER_PORT"},
	"mpirun":     {none, "leave it away, and set Launcher to MPI"},
	"mpiexec":    {none, "leave it away, and set Launcher to MPI"},
	"horovodrun": {none, "leave it away, and set Launcher to MPI"},
}

// none is the launcher of programs that gputrain runs itself.
const none Launcher = -1

// modules are the same programs as modules of Python.
var modules = map[string]string{
	"torch.distributed.run": "torchrun", "torch.distributed.launch": "torchrun", "torchrun": "torchrun",
	"accelerate.commands.launch": "accelerate", "accelerate.commands.accelerate_cli": "accelerate",
	"deepspeed.launcher.runner": "deepspeed", "composer.cli.launcher": "composer",
}

var (
	variable   = regexp.MustCompile(`^[A-Za-z_]\w*=`)
	python     = regexp.MustCompile(`^python[\d.]*$`)
	separators = regexp.MustCompile(`&&|\|\||[;|&()]`)
	flagOf     = regexp.MustCompile(`^--?([A-Za-z][\w-]*)(?:=(.*))?$`)
)

// Fits returns an error if a task's command or script, of which one is empty, is seen to start a gang that is not the one of the
// launcher: torchrun as one of several processes, each of which would train alone, or torchrun with flags for another number of
// nodes or processes. processes is the number on each node, or 0 if that is not known yet. dotted is a variable of the task's with a
// dot in its name, which mpirun's shells do not hand on, or "".
func Fits(l Launcher, args []string, script string, nodes, processes int, dotted string) error {
	if l == MPI && dotted != "" {
		return fmt.Errorf("the variable %q has a dot in its name, and does not reach what mpirun starts; choose one of letters, digits and _", dotted)
	}
	commands := [][]string{args}
	if len(args) > 2 && slices.Contains([]string{"sh", "bash", "dash", "zsh"}, path.Base(args[0])) && strings.HasPrefix(args[1], "-") && strings.HasSuffix(args[1], "c") {
		script = args[2]
	}
	for line := range strings.Lines(strings.ReplaceAll(script, "\\\n", " ")) {
		for _, part := range separators.Split(line, -1) {
			commands = append(commands, strings.Fields(part))
		}
	}
	for _, words := range commands {
		if err := fits(l, words, nodes, processes); err != nil {
			return err
		}
	}
	return nil
}

func fits(l Launcher, words []string, nodes, processes int) error {
	name, rest := programOf(words)
	what, known := own[name]
	switch {
	case !known:
		return nil
	case l != what.fits:
		return fmt.Errorf("%s starts the processes of a gang itself, and with the Launcher %v each of them would be a gang of its own: %s", name, l, what.hint)
	case name != "torchrun":
		return nil
	}
	return torchrunFits(rest, nodes, processes)
}

// torchrunFits looks at the flags of torchrun, which win over its variables.
func torchrunFits(words []string, nodes, processes int) error {
	for i, word := range words {
		m := flagOf.FindStringSubmatch(word)
		if strings.HasSuffix(word, ".py") || word == "-m" || word == "--module" {
			break // the program's own follow
		}
		if m == nil {
			continue
		}
		value := m[2]
		if !strings.Contains(word, "=") && i+1 < len(words) {
			value = words[i+1]
		}
		value = strings.Trim(value, `"'`)
		switch name := strings.ReplaceAll(m[1], "_", "-"); {
		case name == "standalone" && nodes > 1:
			return fmt.Errorf("torchrun --standalone is for one node, and the gang has %d: leave it away", nodes)
		case name == "nnodes" && !means(value, nodes):
			return fmt.Errorf("torchrun --nnodes is %s, and the gang has %d nodes: leave it away, or set Nodes", value, nodes)
		case name == "nproc-per-node" && processes > 0 && !means(value, processes):
			return fmt.Errorf("torchrun --nproc-per-node is %s, and ProcessesPerNode is %d: leave it away, or set ProcessesPerNode", value, processes)
		}
	}
	return nil
}

// means reports whether a flag's value is a number, or may be: a variable, or a word such as gpu.
func means(value string, n int) bool {
	if value == "" || strings.ContainsAny(value, "$`") {
		return true
	}
	if low, high, isRange := strings.Cut(value, ":"); isRange {
		return means(low, n) && means(high, n)
	}
	number, err := strconv.Atoi(value)
	return err != nil || number == n
}

// programOf returns the program that words run, and its arguments, behind variables, env, uv run and the like.
func programOf(words []string) (name string, args []string) {
	for i := 0; i < len(words); i++ {
		word := strings.Trim(words[i], `"'`)
		base := path.Base(word)
		switch {
		case variable.MatchString(word), slices.Contains([]string{"exec", "env", "nohup", "time", "command", "then", "do", "else", "!", "{"}, word):
			continue
		case (base == "uv" || base == "poetry" || base == "pipenv" || base == "conda") && i+1 < len(words) && words[i+1] == "run":
			for j := i + 2; j < len(words) && !strings.HasSuffix(words[j], ".py"); j++ { // its flags may have values
				if _, known := own[path.Base(words[j])]; known || python.MatchString(path.Base(words[j])) {
					return programOf(words[j:])
				}
			}
			return "", nil
		case python.MatchString(base):
			if m := slices.Index(words[i:], "-m"); m > 0 && i+m+1 < len(words) && !slices.ContainsFunc(words[i+1:i+m], func(w string) bool { return !strings.HasPrefix(w, "-") }) {
				return modules[words[i+m+1]], words[i+m+2:]
			}
			return "", nil
		case base == "accelerate" && (i+1 == len(words) || words[i+1] != "launch"):
			return "", nil // accelerate config, test and env start no gang
		}
		return base, words[i+1:]
	}
	return "", nil
}
