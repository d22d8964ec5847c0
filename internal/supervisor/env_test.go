package supervisor

import (
	"math/rand/v2"
	"regexp"
	"testing"
)

// Regular expressions for the names that a shell exports unchanged. Matching them took 14 % of a command's time in the
// client.
var (
	namePattern = regexp.MustCompile(`^[A-Za-z_][A-Za-z0-9_]*$`)
	shellNames  = regexp.MustCompile(`^(_|gt_.*|BASH.*|COMP_.*|EPOCH.*|U?ID|E?UID|PPID|GROUPS|SHELLOPTS|RANDOM|SRANDOM|SECONDS|LINENO|` +
		`OPT(IND|ARG|ERR)|HISTCMD|DIRSTACK|FUNCNAME|PIPESTATUS|SHLVL|POSIXLY_CORRECT|IFS)$`)
)

// names are special names, and names similar to them.
var names = []string{
	"", "_", "__", "A", "a1", "1a", "A-B", "A B", "A=B", "A\n", "\nA", "Ä", "\xff", "A\x00", "PATH", "HOME", "LD_PRELOAD", "@", "[", "`", "{", "/", ":", "9", "a:", "a/", "a@", "aZz09_",
	"gt_", "gt", "gt_x", "Gt_x", "BASH", "BASHX", "BAS", "COMP_", "COMP_X", "COMP", "EPOCH", "EPOCHSECONDS", "EPOC", "ID", "UID", "EUID", "UUID", "EID",
	"PPID", "GROUPS", "GROUP", "SHELLOPTS", "RANDOM", "SRANDOM", "SECONDS", "LINENO", "OPTIND", "OPTARG", "OPTERR", "OPT", "HISTCMD", "DIRSTACK",
	"FUNCNAME", "PIPESTATUS", "SHLVL", "POSIXLY_CORRECT", "IFS", "ifs", "IFS_",
}

func wantSameExportable(t *testing.T, name string) {
	t.Helper()
	if want := namePattern.MatchString(name) && !shellNames.MatchString(name); Exportable(name) != want {
		t.Errorf("Exportable(%q) is %v; the expressions say %v", name, !want, want)
	}
}

func TestExportableIsWhatTheExpressionsSay(t *testing.T) {
	for _, name := range names {
		wantSameExportable(t, name)
		for c := range 256 { // and one byte more, at either end
			wantSameExportable(t, name+string([]byte{byte(c)}))
			wantSameExportable(t, string([]byte{byte(c)})+name)
		}
	}
	const letters = "_AZaz09 -=\n\x80"
	for range 100_000 {
		b := make([]byte, rand.N(6))
		for i := range b {
			b[i] = letters[rand.N(len(letters))]
		}
		wantSameExportable(t, string(b))
	}
}

func FuzzExportable(f *testing.F) {
	for _, name := range names {
		f.Add(name)
	}
	f.Fuzz(wantSameExportable)
}

// Every command prepares its own variables and those of the node's base.
func BenchmarkVariables(b *testing.B) {
	base := &base{env: map[string]string{"VIRTUAL_ENV": "/v", "OMP_NUM_THREADS": "8", "HF_HOME": "/data"}}
	env := map[string]string{
		"GPUTRAIN_NODE": "n", "GPUTRAIN_NODE_RANK": "0", "GPUTRAIN_RANK": "0", "GPUTRAIN_NODES": "1", "GPUTRAIN_MASTER_ADDR": "a",
		"GPUTRAIN_SLOT": "0", "GPUTRAIN_TASK_INDEX": "0", "GPUTRAIN_ATTEMPT": "1", "CUDA_VISIBLE_DEVICES": "0",
	}
	for b.Loop() {
		if _, _, err := base.variables(env, nil); err != nil {
			b.Fatal(err)
		}
	}
}
