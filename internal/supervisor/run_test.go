package supervisor

import (
	"context"
	"errors"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/gputrain/gputrain/internal/test/opensshtest"
)

// everyByte has each byte except NUL, and texts that are difficult for shells.
var everyByte = func() string {
	var b strings.Builder
	for i := 1; i < 256; i++ {
		b.WriteByte(byte(i))
	}
	return b.String() + "'\\''$HOME `id` \"x\" \\ \n\n\r\n * ? ~ ! # ; & | < > ( ) { } \xff\xfe é \x81\x82\x88\x01\x7f'"
}()

func TestRun(t *testing.T) {
	srv := opensshtest.Start(t)
	eachShell(t, func(t *testing.T, shell string) {
		n := start(t, connect(t, srv, ""), config(t, shell))
		n.SetBase(map[string]string{"FROM_BASE": everyByte, "BOTH": "base", "RANDOM": "odd base"}, []string{"/opt/first", "/opt/second"})

		t.Run("arguments", func(t *testing.T) {
			args := []string{"printf", `[%s]`, "", everyByte, "-n", "--", "a b", "$(id)", "'", "\n"}
			r := run(t, n, Spec{Args: args})
			if want := "[" + strings.Join(args[2:], "][") + "]"; r.err != nil || r.out != want || r.errs != "" || r.Code != 0 {
				t.Fatalf("got %q, %+v\nwant %q", r.out, r, want)
			}
			if r.StdoutBytes != int64(len(r.out)) {
				t.Errorf("StdoutBytes = %d", r.StdoutBytes)
			}
		})
		t.Run("nul", func(t *testing.T) {
			for _, s := range []Spec{
				{Args: []string{"echo", "a\x00b"}}, {Script: "echo a\x00b"}, {Args: []string{"true"}, Dir: "a\x00"},
				{Args: []string{"true"}, Env: map[string]string{"A": "\x00"}}, {Args: []string{"true"}, Secrets: map[string]string{"A": "\x00"}},
			} {
				if r := run(t, n, s); !errors.Is(r.err, ErrNotStarted) || !errors.Is(r.err, ErrNUL) {
					t.Errorf("%+v: %v", s, r.err)
				}
			}
		})
		t.Run("nonsense", func(t *testing.T) {
			for _, s := range []Spec{
				{}, {Args: []string{""}}, {Args: []string{"a"}, Script: "b"}, {ID: "A/B", Args: []string{"true"}},
				{Args: []string{"true"}, Env: map[string]string{"A=B": "c"}}, {Args: []string{"true"}, Env: map[string]string{"": "c"}},
				{Args: []string{"true"}, Secrets: map[string]string{"UID": "c"}}, {Args: []string{"true"}, Dir: "is not there"},
			} {
				if r := run(t, n, s); !errors.Is(r.err, ErrNotStarted) {
					t.Errorf("%+v: %v", s, r.err)
				}
			}
		})
		t.Run("environment", func(t *testing.T) {
			env := map[string]string{
				"BOTH": "task", "EVERY": everyByte, "EMPTY": "", "odd.name": "x y", "UID": "77", "IFS": ":", "PS4": "p", "gt_nenv": "5",
				"LC_ALL": "de_DE.nowhere", "RANDOM": "r", "CDPATH": "/", "SECONDS": "s",
			}
			r := run(t, n, Spec{ID: "env-" + n.cfg.PoolID[len(n.cfg.PoolID)-3:], Args: []string{"env", "-0"}, Env: env, Secrets: map[string]string{"TOKEN": everyByte}})
			got := map[string]string{}
			for _, kv := range strings.Split(strings.TrimSuffix(r.out, "\x00"), "\x00") {
				k, v, _ := strings.Cut(kv, "=")
				got[k] = v
			}
			want := maps.Clone(env)
			want["TOKEN"], want["FROM_BASE"], want["GPUTRAIN_POOL"] = everyByte, everyByte, n.cfg.PoolID
			want["HOME"], want["PATH"] = n.facts.Home, "/opt/first:/opt/second:"+n.facts.Path
			want["GPUTRAIN_TASK"] = "env-" + n.cfg.PoolID[len(n.cfg.PoolID)-3:]
			for k, v := range want {
				if got[k] != v {
					t.Errorf("%s = %q, want %q", k, got[k], v)
				}
				delete(got, k)
			}
			t.Logf("also there: %q", slices.Sorted(maps.Keys(got)))
			if _, set := got["gt_env"]; set || r.errs != "" {
				t.Errorf("stderr %q", r.errs)
			}
			if r := run(t, n, Spec{Script: `echo "${LC_ALL-unset}"`}); r.out != "unset\n" && os.Getenv("LC_ALL") == "" {
				t.Errorf("LC_ALL = %q", r.out)
			}
		})
		t.Run("folder", func(t *testing.T) {
			odd := "a folder's $(x)\n"
			if err := os.MkdirAll(filepath.Join(n.facts.WorkDir, odd, "deep"), 0o755); err != nil {
				t.Fatal(err)
			}
			r := run(t, n, Spec{Args: []string{"pwd"}, Dir: odd + "/deep"})
			if want := n.facts.WorkDir + "/" + odd + "/deep\n"; r.out != want {
				t.Errorf("got %q, want %q (%+v)", r.out, want, r)
			}
			if r := run(t, n, Spec{Args: []string{"pwd"}}); r.out != n.facts.WorkDir+"\n" {
				t.Errorf("got %q (%+v)", r.out, r)
			}
		})
		t.Run("stdin", func(t *testing.T) {
			big := strings.Repeat(everyByte+"\x00", 10000)
			for name, s := range map[string]Spec{
				"none": {}, "empty": {Stdin: strings.NewReader("")}, "bytes": {Stdin: strings.NewReader(big)},
				"pipe": {Stdin: onlyReader{strings.NewReader(big)}},
			} {
				s.Args = []string{"cat"}
				want := ""
				if name == "bytes" || name == "pipe" {
					want = big
				}
				if r := run(t, n, s); r.out != want || r.err != nil {
					t.Errorf("%s: %d bytes of %d, %+v", name, len(r.out), len(want), r.Exit)
				}
			}
			if r := run(t, n, Spec{Args: []string{"cat"}, Stdin: badReader{}}); !errors.Is(r.err, ErrNotStarted) || !errors.Is(r.err, errBad) {
				t.Errorf("%v", r.err)
			}
		})
		t.Run("exit", func(t *testing.T) {
			for _, code := range []int{0, 1, 2, 77, 126, 127, 128, 129, 134, 137, 139, 144, 255} {
				r := run(t, n, Spec{Script: "exit " + strconv.Itoa(code)})
				if r.err != nil || r.Code != code || r.Cause != Exited || r.Signal != "" {
					t.Errorf("exit %d: %+v", code, r)
				}
			}
			if r := run(t, n, Spec{Args: []string{"no such command"}}); r.Code != 127 || r.Cause != Exited || r.errs == "" {
				t.Errorf("%+v", r)
			}
			if r := run(t, n, Spec{Args: []string{"/etc/passwd"}}); r.Code != 126 || r.Cause != Exited || r.errs == "" {
				t.Errorf("%+v", r)
			}
		})
		t.Run("signal", func(t *testing.T) {
			for name, num := range map[string]int{"HUP": 1, "INT": 2, "QUIT": 3, "ILL": 4, "ABRT": 6, "FPE": 8, "KILL": 9, "USR1": 10, "SEGV": 11, "USR2": 12, "PIPE": 13, "ALRM": 14, "TERM": 15} {
				r := run(t, n, Spec{Script: "ulimit -c 0; kill -" + name + " $$; sleep 5"})
				if r.err != nil || r.Signal != name || r.Cause != Signaled || r.Code != 128+num || r.out+r.errs != "" {
					if shell == "busybox ash" && (name == "INT" || name == "QUIT") {
						continue // ignored, and env(1) cannot help
					}
					t.Errorf("%s: %+v", name, r)
				}
			}
		})
		t.Run("output", func(t *testing.T) {
			for _, size := range []int{0, 1, 15, 16, 17, 4095, 4096, 4097, 65535, 65536, 65537, 200_001, 1 << 20} {
				s := strconv.Itoa(size)
				r := run(t, n, Spec{Script: "yes out | head -c " + s + "; yes err | head -c " + s + " >&2"})
				out, errs := strings.Repeat("out\n", size/4+1)[:size], strings.Repeat("err\n", size/4+1)[:size]
				if r.out != out || r.errs != errs || r.err != nil {
					t.Errorf("%d bytes: got %d and %d, %+v", size, len(r.out), len(r.errs), r.Exit)
				}
			}
			binary := strings.Repeat("\x00\xff\r\n"+everyByte, 50)
			if r := run(t, n, Spec{Script: "cat; exit 3", Stdin: strings.NewReader(binary)}); r.out != binary || r.Code != 3 {
				t.Errorf("%d bytes of %d: %+v", len(r.out), len(binary), r.Exit)
			}
		})
		t.Run("long script", func(t *testing.T) {
			r := run(t, n, Spec{Script: "# " + strings.Repeat("x", 300_000) + "\necho long; exit 4"})
			if r.out != "long\n" || r.Code != 4 {
				t.Errorf("%+v", r)
			}
		})
		t.Run("timeout", func(t *testing.T) {
			late := func(s Spec) (r result) {
				for s.Timeout = 500 * time.Millisecond; s.Timeout < time.Minute; s.Timeout *= 4 {
					if r = run(t, n, s); r.err != nil || r.Cause != TimedOut || r.out != "" {
						break // otherwise it had not begun
					}
				}
				return r
			}
			r := late(Spec{Script: "echo before; sleep 600"})
			if r.err != nil || r.Cause != TimedOut || r.out != "before\n" || r.Elapsed < 450*time.Millisecond {
				t.Errorf("%+v", r)
			}
			r = late(Spec{Script: "trap '' TERM; echo before; sleep 600; sleep 600", Grace: 300 * time.Millisecond})
			if r.err != nil || r.Cause != TimedOut || r.Signal != "KILL" {
				t.Errorf("%+v", r)
			}
			for range 10 { // it may be over before the command has begun
				if r := run(t, n, Spec{Script: "sleep 600", Timeout: time.Millisecond}); r.err != nil || r.Cause != TimedOut || r.Elapsed > time.Minute {
					t.Errorf("%+v", r)
				}
			}
			if r := run(t, n, Spec{Args: []string{"true"}, Timeout: time.Hour}); r.Cause != Exited || r.err != nil {
				t.Errorf("%+v", r)
			}
			until(t, "the end of all sleeps", func() bool { return !sleeps(t, n) })
		})
		t.Run("cancel", func(t *testing.T) {
			ctx, cancel := context.WithCancel(t.Context())
			r := runCtx(ctx, n, Spec{Script: "trap 'echo term; exit 5' TERM; echo up; while :; do sleep 0.1; done"}, cancel)
			if r.err != nil || r.Cause != Cancelled {
				t.Errorf("%+v", r)
			}
			ctx, cancel = context.WithCancel(t.Context())
			r = runCtx(ctx, n, Spec{Script: "trap '' TERM; (trap '' TERM; sleep 600; sleep 600) & sleep 600; sleep 600", Grace: 200 * time.Millisecond}, cancel)
			if r.err != nil || r.Cause != Cancelled || r.Signal != "KILL" && r.Signal != "TERM" {
				t.Errorf("%+v", r)
			}
			hasty, why := context.WithCancelCause(t.Context()) // the cause says that the default grace is too long
			r = runCtx(hasty, n, Spec{Script: "trap '' TERM; sleep 600; sleep 600", Grace: 10 * time.Minute}, func() { why(hastyError{}) })
			if r.err != nil || r.Cause != Cancelled {
				t.Errorf("%+v", r)
			}
			ctx, cancel = context.WithCancel(t.Context())
			cancel()
			for range 20 {
				r = runCtx(ctx, n, Spec{Script: "sleep 600; touch never"}, nil)
				if r.err == nil && r.Cause != Cancelled {
					t.Errorf("%+v", r)
				}
			}
			until(t, "the end of all sleeps", func() bool { return !sleeps(t, n) })
		})
		t.Run("forks and leaves", func(t *testing.T) {
			r := run(t, n, Spec{Script: "sleep 600 & echo $!; exit 6"})
			if r.Code != 6 || r.Cause != Exited {
				t.Errorf("%+v", r)
			}
			until(t, "the child's end", func() bool { return gone(r.out) == nil }) // KILL may take a moment
			r = run(t, n, Spec{Script: "setsid sh -c 'echo $$ >pid; exec sleep 600' & until [ -s pid ]; do sleep 0.01; done; cat pid; exit 6"})
			if r.Code != 6 || gone(r.out) == nil {
				t.Errorf("a daemon must stay until the pool ends: %+v", r)
			}
		})
		t.Run("twice", func(t *testing.T) {
			r := run(t, n, Spec{ID: "twice", Script: "echo x; sleep 0.2"})
			if r.out != "x\n" {
				t.Errorf("%+v", r)
			}
		})
		t.Run("zombies", func(t *testing.T) {
			for range 3 * sweepMany {
				if r := run(t, n, Spec{Args: []string{"true"}}); r.err != nil || r.Code != 0 {
					t.Fatalf("%+v", r)
				}
			}
			left, err := filepath.Glob(n.facts.Root + "/t/*.start")
			if err != nil || len(left) > 2*sweepMany {
				t.Errorf("%d tasks' files are left (%v)", len(left), err)
			}
		})
	})
}

type onlyReader struct{ r *strings.Reader }

func (o onlyReader) Read(p []byte) (int, error) { return o.r.Read(p) }

var errBad = errors.New("bad reader")

type badReader struct{}

func (badReader) Read([]byte) (int, error) { return 0, errBad }

// sleeps reports whether one of the node's sleeps runs.
func sleeps(t *testing.T, n *Node) bool {
	return slices.ContainsFunc(processes(t, "GPUTRAIN_POOL="+n.cfg.PoolID), func(p string) bool {
		return strings.Contains(p, "sleep 3600") || strings.Contains(p, "sleep 600")
	})
}

// gone returns an error while the process with the printed ID lives.
func gone(pid string) error {
	if _, err := strconv.Atoi(strings.TrimSpace(pid)); err != nil {
		panic(err) // "/proc//stat" would always exist
	}
	stat, err := os.ReadFile("/proc/" + strings.TrimSpace(pid) + "/stat")
	if err != nil || strings.Contains(string(stat), ") Z ") {
		return nil
	}
	return errors.New(string(stat))
}

// A hastyError is a cause that leaves a command a fifth of a second: see cutoff.Grace.
type hastyError struct{}

func (hastyError) Error() string            { return "in haste" }
func (hastyError) KillGrace() time.Duration { return 200 * time.Millisecond }
