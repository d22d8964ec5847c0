package bench

import (
	"errors"
	"flag"
	"os"
	"os/exec"
	"os/signal"
	"slices"
	"strings"
	"syscall"
	"testing"

	"github.com/gputrain/gputrain"
	"go.uber.org/goleak"
)

var (
	sizeFlag       = flag.String("size", "tiny", "how much is measured: full, short or tiny")
	rowsFlag       = flag.String("rows", "", "rows to measure, with commas between; empty means all")
	tableFlag      = flag.String("table", "", "file for the table")
	bigmachineFlag = flag.String("bigmachine", "", "program made of internal/test/bench/bigmachine; empty leaves its rows out")
	pythonFlag     = flag.String("python", "python3", "interpreter that may have dask's distributed")
)

// roleEnv names the variable that makes this program play a role instead of testing: see roles.
const roleEnv = "GPUTRAIN_BENCH_ROLE"

// roles are what this program does as a child of itself, or behind an SSH session.
var roles = map[string]func() error{"rpc": serveRPC, "link": serveLink, "idle": serveIdle}

func TestMain(m *testing.M) {
	gputrain.Init()
	if serve := roles[os.Getenv(roleEnv)]; serve != nil {
		if err := serve(); err != nil {
			os.Stderr.WriteString(err.Error() + "\n")
			os.Exit(1)
		}
		return
	}
	goleak.VerifyTestMain(m)
}

// self returns a command that runs this program in a role.
func self(role string) *exec.Cmd {
	program, err := os.Executable()
	if err != nil {
		program = os.Args[0]
	}
	cmd := exec.Command(program)
	cmd.Env = append(os.Environ(), roleEnv+"="+role)
	return cmd
}

// A size is the amount of each work in a turn, and the number of turns.
type size struct {
	turns, heavyTurns int

	nodes     int // OpenSSH servers
	commands  int // over all nodes
	latencies int // commands or calls, one after another
	calls     int // with many in flight
	fresh     int // nodes to connect
	file      int // bytes to upload
	files     int // of 4 KiB
	stdout    int // bytes
}

var sizes = map[string]size{
	"full":  {5, 3, 16, 1000, 50, 20_000, 64, 256 << 20, 2000, 512 << 20},
	"short": {3, 1, 16, 320, 20, 5000, 16, 64 << 20, 500, 64 << 20},
	"tiny":  {1, 1, 2, 8, 2, 64, 2, 1 << 20, 10, 4 << 20},
}

// A row is a named group of works.
type row struct {
	name    string
	measure func(*testing.T, *lab)
}

var rows = []row{
	{"command", oneCommand},
	{"commands", manyCommands},
	{"functions", functions},
	{"watched", watched},
	{"connect", connect},
	{"upload", upload},
	{"files", files},
	{"stdout", stdout},
	{"idle", idle},
}

// TestCompare measures every row. It fails only if something cannot be run or gives wrong answers,
// not if it is slow.
func TestCompare(t *testing.T) {
	if testing.Short() {
		t.Skip("scripts/test -deep runs it: it measures for half a minute")
	}
	s, ok := sizes[*sizeFlag]
	if !ok {
		t.Fatalf("-size %q is not full, short or tiny", *sizeFlag)
	}
	want, err := chosen(*rowsFlag)
	if err != nil {
		t.Fatal(err)
	}
	ctx, stop := signal.NotifyContext(t.Context(), os.Interrupt, syscall.SIGTERM)
	defer stop()

	var all table
	t.Run("lab", func(t *testing.T) { // so that the lab has ended when the table is written
		l := newLab(t, ctx, s, &all)
		for _, r := range want {
			if ctx.Err() == nil {
				t.Run(r.name, func(t *testing.T) { r.measure(t, l) })
			}
		}
	})
	if ctx.Err() != nil {
		t.Error("interrupted: the table has what was measured before")
	}
	text := all.String()
	if strings.Count(text, "\n| ") < 2 {
		t.Fatalf("nothing was measured:\n%s", text)
	}
	if *tableFlag == "" {
		t.Log("\n" + text)
	} else if err := os.WriteFile(*tableFlag, []byte(text), 0o644); err != nil {
		t.Fatal(err)
	}
}

// chosen returns the rows in a list of names.
func chosen(list string) ([]row, error) {
	if list == "" {
		return rows, nil
	}
	var got []row
	for name := range strings.SplitSeq(list, ",") {
		i := slices.IndexFunc(rows, func(r row) bool { return r.name == name })
		if i < 0 {
			var known []string
			for _, r := range rows {
				known = append(known, r.name)
			}
			return nil, errors.New("no row is called " + name + ": there are " + strings.Join(known, ", "))
		}
		got = append(got, rows[i])
	}
	return got, nil
}
