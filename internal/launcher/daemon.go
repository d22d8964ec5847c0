package launcher

import (
	"fmt"
	"path"
	"regexp"
	"slices"
	"strings"
)

// What mpirun asks for is a text for the shell of another node. The text is not run: it is read as one of the forms that Open MPI 4
// and 5 write, and what is run is made from that. The first node is another's machine, and must not run what it likes on the others.
var (
	profile    = "( test ! -r ./.profile || . ./.profile;" // before the command, if the user's shell is sh or ksh
	assignment = regexp.MustCompile(`^\s*(PATH|LD_LIBRARY_PATH|DYLD_LIBRARY_PATH|OPAL_PREFIX|PRTE_PREFIX|PMIX_PREFIX)=([\w./+@%,:-]*?)(:\$\w+|:\$\{\w+:-\})?\s*;\s*export\s+(\w+)\s*;`)
	program    = regexp.MustCompile(`^(/[\w./+@%,-]+/)?(orted|prted)$`)
	parameter  = regexp.MustCompile(`^[a-z][a-z0-9_]*$`)
	// A word is plain, or in quotes between which a shell finds nothing special.
	argument = regexp.MustCompile("^(?:\"([^\"$`\\\\\\n]*)\"|([\\w./,:=+@%^-]+))(?:\\s+|$)")
)

var (
	// flags of a daemon have no value.
	flags = []string{"--debug", "--debug-daemons", "--debug-daemons-file", "--daemonize", "--leave-session-attached", "--allow-run-as-root", "--uniform-nodes", "--tree-spawn", "--set-sid"}
	// parameters are set by a word that these begin.
	setters = []string{"-mca", "--mca", "-gmca", "--gmca", "--prtemca", "--pmixmca"}
	// Parameters with these ends name other programs, or libraries. Those of the agents are left out, since a daemon here starts no
	// other one.
	agents  = []string{"plm_rsh_agent", "plm_ssh_agent"}
	foreign = []string{"_agent", "_component_path", "_param_files", "_xterm", "_pass_libpath", "_prefix", "_chdir"}
)

// daemon returns the shell text that starts the daemon of Open MPI for which mpirun asks. Any other text is refused.
func daemon(text string) (string, error) {
	refused := func(what string) (string, error) {
		return "", fmt.Errorf("%w: node 0 asked for something else than a daemon of Open MPI, which is not run: it has %.60q", ErrRelay, what)
	}
	rest := strings.TrimSpace(text)
	if inner, ok := strings.CutPrefix(rest, profile); ok {
		if rest, ok = strings.CutSuffix(inner, ")"); !ok {
			return refused(rest)
		}
	}
	var b strings.Builder
	for {
		m := assignment.FindStringSubmatch(rest)
		if m == nil {
			break
		}
		name, value := m[1], word(m[2])
		if m[4] != name || m[3] != "" && m[3] != ":$"+name && m[3] != ":${"+name+":-}" {
			return refused(m[0])
		}
		if m[3] != "" {
			value += `:"${` + name + `-}"`
		}
		fmt.Fprintf(&b, "%s=%s; export %s; ", name, value, name)
		rest = rest[len(m[0]):]
	}
	words, wrong := argumentsOf(rest)
	if len(words) == 0 || wrong != "" {
		return refused(wrong)
	}
	if !program.MatchString(words[0]) || path.Clean(words[0]) != words[0] {
		return refused(words[0])
	}
	b.WriteString("exec " + word(words[0]))
	for i := 1; i < len(words); i++ {
		switch w := words[i]; {
		case slices.Contains(flags, w):
			b.WriteString(" " + w)
		case w == "--hnp-topo-sig" && i+1 < len(words):
			b.WriteString(" " + w + " " + word(words[i+1]))
			i++
		case slices.Contains(setters, w) && i+2 < len(words) && parameter.MatchString(words[i+1]):
			name, value := words[i+1], words[i+2]
			i += 2
			if slices.Contains(agents, name) {
				continue
			}
			if slices.ContainsFunc(foreign, func(end string) bool { return strings.HasSuffix("_"+name, end) }) {
				return refused(name)
			}
			b.WriteString(" " + w + " " + name + " " + word(value))
		default:
			return refused(w)
		}
	}
	return b.String(), nil
}

// argumentsOf splits a text into its words, and returns what is none.
func argumentsOf(text string) (words []string, wrong string) {
	for text = strings.TrimSpace(text); text != ""; {
		m := argument.FindStringSubmatch(text)
		if m == nil {
			return nil, text
		}
		words = append(words, m[1]+m[2])
		text = text[len(m[0]):]
	}
	return words, ""
}
