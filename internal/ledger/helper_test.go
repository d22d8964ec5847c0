package ledger

import (
	"bufio"
	"crypto/ed25519"
	"crypto/x509"
	"encoding/pem"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/gputrain/gputrain/internal/owner"
	"go.uber.org/goleak"
)

// TestMain also serves as the program that tests start. Such a program starts no other, and ends
// with its stdin or after two minutes.
func TestMain(m *testing.M) {
	if dir := os.Getenv("GPUTRAIN_TEST_LEDGER"); dir != "" {
		time.AfterFunc(2*time.Minute, func() { os.Exit(3) })
		play(dir)
		os.Exit(0)
	}
	goleak.VerifyTestMain(m)
}

// play carries out commands, line by line, and answers each with one line.
func play(path string) {
	d, err := OpenDir(path)
	var l *Ledger
	in := bufio.NewScanner(os.Stdin)
	for in.Scan() {
		word := append(strings.Fields(in.Text()), "")
		switch word[0] {
		case "create":
			l, err = d.Create(Header{Pool: word[1], Owner: owner.Self().String()}, []byte("key"), Row{Name: "a", Kind: "machine"})
		case "take":
			l, _, err = d.Take(word[1], owner.Self().String(), TakeOptions{Force: word[2] == "force"})
		case "intend":
			err = l.Intend(Row{Name: word[1], Kind: "machine"})
		case "fenced":
			err = l.Fenced()
		case "close":
			err = l.Close(word[1] == "remove")
		case "append": // until it is killed
			for i := 0; ; i++ {
				if err := l.Intend(Row{Name: strconv.Itoa(i), Kind: "machine"}); err != nil {
					fmt.Println(err)
					return
				}
				fmt.Println(i)
			}
		case "churn": // until it is killed
			for i := 0; ; i++ {
				l, err := d.Create(Header{Pool: fmt.Sprintf("p-%d", i)}, []byte("key"), Row{Name: "a", Kind: "machine"})
				if err == nil {
					err = errors.Join(os.WriteFile(l.TasksPath(), []byte("tasks"), 0o600), l.Close(true))
				}
				if err != nil {
					fmt.Println(err)
					return
				}
			}
		}
		if err != nil {
			for _, known := range []error{ErrFenced, ErrInUse, ErrUnknown} {
				if errors.Is(err, known) {
					err = known
				}
			}
			fmt.Println(err)
			continue
		}
		fmt.Println("ok")
	}
}

// A program is another process that uses the same folder.
type program struct {
	t   testing.TB
	cmd *exec.Cmd
	in  io.WriteCloser
	out *bufio.Reader
}

func start(t testing.TB, dir string) *program {
	t.Helper()
	cmd := exec.Command(os.Args[0])
	cmd.Env = append(os.Environ(), "GPUTRAIN_TEST_LEDGER="+dir)
	cmd.Stderr = os.Stderr
	in, err := cmd.StdinPipe()
	must(t, err)
	out, err := cmd.StdoutPipe()
	must(t, err)
	must(t, cmd.Start())
	p := &program{t, cmd, in, bufio.NewReader(out)}
	t.Cleanup(p.kill)
	return p
}

// tell sends the program a command, and checks its answer.
func (p *program) tell(what, want string) {
	p.t.Helper()
	p.say(what)
	if got := p.hear(); got != want {
		p.t.Fatalf("%s: %q, want %q", what, got, want)
	}
}

func (p *program) say(what string) {
	p.t.Helper()
	_, err := io.WriteString(p.in, what+"\n")
	must(p.t, err)
}

func (p *program) hear() string {
	line, _ := p.out.ReadString('\n')
	return strings.TrimSpace(line)
}

// kill kills the program at once.
func (p *program) kill() {
	p.cmd.Process.Kill()
	p.cmd.Wait()
}

func must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// is fails the test if an error is not the wanted one.
func is(t testing.TB, got, want error) {
	t.Helper()
	if !errors.Is(got, want) || (want == nil) != (got == nil) {
		t.Fatalf("got error %v, want %v", got, want)
	}
}

func openDir(t testing.TB) *Dir {
	t.Helper()
	d, err := OpenDir(filepath.Join(t.TempDir(), "state[1]")) // brackets must not act as a pattern
	must(t, err)
	return d
}

// newKey is a private key in the form that a pool has.
var newKey = func() []byte {
	_, private, _ := ed25519.GenerateKey(nil)
	der, _ := x509.MarshalPKCS8PrivateKey(private)
	return pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: der})
}()

func create(t testing.TB, d *Dir, id string, rows ...Row) *Ledger {
	t.Helper()
	l, err := d.Create(Header{Pool: id, Name: "mine", Owner: owner.Self().String()}, newKey, rows...)
	must(t, err)
	t.Cleanup(func() { l.Close(false) })
	return l
}

func take(t testing.TB, d *Dir, id string, opts TakeOptions) (*Ledger, *Snapshot) {
	t.Helper()
	l, s, err := d.Take(id, owner.Self().String(), opts)
	must(t, err)
	t.Cleanup(func() { l.Close(false) })
	return l, s
}

func read(t testing.TB, d *Dir, id string) *Snapshot {
	t.Helper()
	s, err := d.Read(id)
	must(t, err)
	return s
}

// states returns the states of the rows, in order: "a leased".
func states(s *Snapshot) (all []string) {
	for _, r := range s.Rows {
		all = append(all, r.Name+" "+r.State.String())
	}
	return all
}

func wants(t testing.TB, s *Snapshot, want ...string) {
	t.Helper()
	if got := states(s); !slices.Equal(got, want) {
		t.Fatalf("the rows are %q, want %q", got, want)
	}
}

// files returns the names in the folder.
func files(t testing.TB, d *Dir) (names []string) {
	t.Helper()
	entries, err := os.ReadDir(d.path)
	must(t, err)
	for _, e := range entries {
		names = append(names, e.Name())
	}
	return names
}

func wantFiles(t testing.TB, d *Dir, want ...string) {
	t.Helper()
	if got := files(t, d); !slices.Equal(got, want) {
		t.Fatalf("the folder holds %q, want %q", got, want)
	}
}

func newMachine(name string) Row { return Row{Name: name, Kind: "machine"} }
