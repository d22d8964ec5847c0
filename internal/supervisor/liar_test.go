package supervisor

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"net"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/gputrain/gputrain/internal/overdue"
	"github.com/gputrain/gputrain/internal/simnode"
	"github.com/gputrain/gputrain/internal/ssh"
	"github.com/gputrain/gputrain/internal/sshd"
	"github.com/gputrain/gputrain/internal/test/bubble"
	xssh "golang.org/x/crypto/ssh"
)

// A liarRig is a node that lies, in virtual time.
type liarRig struct {
	*Node
	client *ssh.Client
	off    atomic.Bool // it cannot be dialed
	server *sshd.Server
}

// lying runs a test against a simulated node. tell gets each line that an honest node would send: see simnode.Node.Lie.
func lying(t *testing.T, tell func(line string, say func(string)), f func(t *testing.T, r *liarRig)) {
	lyingBy(t, func(sim *simnode.Node) func(context.Context, sshd.Program) int { return sim.Lie(tell) }, f)
}

// lyingBy is lying, but lie changes the commands of the simulated node.
func lyingBy(t *testing.T, lie func(*simnode.Node) func(context.Context, sshd.Program) int, f func(t *testing.T, r *liarRig)) {
	bubble.Test(t, func(t *testing.T) {
		exec := func(ctx context.Context, c simnode.Command) int {
			if c.Args[0] == "echo" {
				fmt.Fprintln(c.Stdout, strings.Join(c.Args[1:], " "))
				return 0
			}
			d, _ := time.ParseDuration(c.Args[1])
			select {
			case <-time.After(d):
				return 0
			case <-ctx.Done():
				return -15
			}
		}
		sim := simnode.New(simnode.Config{Exec: exec})
		host, _, _, err := sshd.Keys("", "")
		if err != nil {
			t.Fatal(err)
		}
		r := &liarRig{}
		if r.server, err = sshd.New(sshd.Config{Run: lie(sim), HostKey: host, AuthorizedKeys: []xssh.PublicKey{host.PublicKey()}}); err != nil {
			t.Fatal(err)
		}
		r.client = ssh.New(ssh.Config{
			User: "anyone", Auth: []xssh.AuthMethod{xssh.PublicKeys(host)}, HostKey: xssh.FixedHostKey(host.PublicKey()),
			Dial: func(context.Context) (net.Conn, error) {
				if r.off.Load() {
					return nil, errors.New("no route")
				}
				return r.server.Dial()
			},
		})
		defer func() {
			r.client.Close()
			r.server.HangUp()
			sim.End()
			sim.Wait()
			r.server.Close()
		}()
		if err := r.client.Connect(t.Context()); err != nil {
			t.Fatal(err)
		}
		if r.Node, err = Start(t.Context(), r.client, Config{PoolID: "liar", Lease: 24 * time.Hour}); err != nil {
			t.Fatal(err)
		}
		defer func() {
			ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
			defer cancel()
			r.Close(ctx, true)
		}()
		f(t, r)
	})
}

// mute passes on all lines except those with a prefix.
func mute(prefix string) func(string, func(string)) {
	return func(line string, say func(string)) {
		if !strings.HasPrefix(line, prefix) {
			say(line)
		}
	}
}

// A node that never reports a task's end is lost after the task's Timeout, and its other tasks fail.
func TestTimeoutThatTheNodeDoesNotKeep(t *testing.T) {
	lying(t, mute("D late "), func(t *testing.T, r *liarRig) {
		other := make(chan error, 1)
		go func() {
			_, err := r.Run(t.Context(), Spec{ID: "other", Args: []string{"sleep", "10h"}}, Sinks{})
			other <- err
		}()
		begun := time.Now()
		x, err := r.Run(t.Context(), Spec{ID: "late", Args: []string{"sleep", "10h"}, Timeout: time.Minute, Grace: time.Second}, Sinks{})
		if !errors.Is(err, ErrOverdue) || time.Since(begun) != time.Minute+time.Second+overdue.Grace || x.Elapsed != time.Since(begun) {
			t.Errorf("after %v: %+v, %v", time.Since(begun), x, err)
		}
		if err := <-other; err == nil || errors.Is(err, ErrOverdue) || !strings.Contains(fmt.Sprint(r.Err()), ErrOverdue.Error()) {
			t.Errorf("another task: %v; the node: %v", err, r.Err())
		}
	})
}

// A node that is only unreachable loses nothing: it reports the task's end when it is back.
func TestTimeoutWhileTheNodeIsUnreachable(t *testing.T) {
	lying(t, func(line string, say func(string)) { say(line) }, func(t *testing.T, r *liarRig) {
		time.AfterFunc(10*time.Second, func() { r.off.Store(true); r.server.HangUp() })
		time.AfterFunc(time.Hour, func() { r.off.Store(false) })
		x, err := r.Run(t.Context(), Spec{ID: "a", Args: []string{"sleep", "10h"}, Timeout: time.Minute}, Sinks{})
		if err != nil || x.Cause != TimedOut {
			t.Errorf("%+v, %v", x, err)
		}
	})
}

// A node that reports a task's end, but does not send the task's output, is lost.
func TestOutputThatNeverComes(t *testing.T) {
	quiet := func(line string, say func(string)) {
		switch {
		case strings.HasPrefix(line, "D a "):
			say("D a 0 - exit 10 0 1 0")
		case strings.HasPrefix(line, "Z a o"):
			say("Z a o 1152921504606846976")
		default:
			say(line)
		}
	}
	lying(t, quiet, func(t *testing.T, r *liarRig) {
		_, err := r.Run(t.Context(), Spec{ID: "a", Args: []string{"echo", "it"}}, Sinks{})
		if err == nil || errors.Is(err, ErrOverdue) || r.Err() == nil {
			t.Errorf("%v; the node: %v", err, r.Err())
		}
	})
}

// A task's reported time is bounded by the time that the client waited.
func TestElapsedIsBoundedByTheClientsClock(t *testing.T) {
	for _, ms := range []string{"-5", "999999999999", "9223372036854775807", "99999999999999999999999", "?"} {
		lie := func(line string, say func(string)) {
			if strings.HasPrefix(line, "D a ") {
				line = "D a 0 - exit " + ms + " 0 0 0 "
			}
			say(line)
		}
		lying(t, lie, func(t *testing.T, r *liarRig) {
			begun := time.Now()
			x, err := r.Run(t.Context(), Spec{ID: "a", Args: []string{"sleep", "7s"}}, Sinks{})
			if err != nil || x.Elapsed < 0 || x.Elapsed > time.Since(begun) {
				t.Errorf("%s: %v of %v, %v", ms, x.Elapsed, time.Since(begun), err)
			}
		})
	}
}

// A node that breaks the protocol repeatedly is lost, with an error about that, and leaves nothing behind.
func TestNodesThatBreakTheProtocol(t *testing.T) {
	large := strings.Repeat("x", maxChunk)
	for name, breach := range map[string]string{
		"output that was not asked for":  "O a o 0 " + fmt.Sprint(len(large)) + "\n" + large,
		"a piece without end":            "O a o 0 1152921504606846976",
		"a piece without end of nothing": "O nothing o 0 1152921504606846976",
		"hex without end":                "X nothing o 0" + strings.Repeat("\n"+strings.Repeat(" 00", 10000), maxPiece/10000+20),
		"a task that it does not know":   "U a\nU a\nU a\nU a",
		"a line without end":             "D a " + strings.Repeat("0", maxLine),
		"a signal of its own":            "D a 9 \x1b[2Jboo signal 1 0 0 0",
		"facts":                          "F os plan9",
		"a list":                         "I b 1 -",
	} {
		t.Run(name, func(t *testing.T) {
			lie := func(line string, say func(string)) {
				if strings.HasPrefix(line, "S a") || strings.HasPrefix(line, "B") {
					line = breach
				}
				say(line)
			}
			lying(t, lie, func(t *testing.T, r *liarRig) {
				var out bytes.Buffer
				_, err := r.Run(t.Context(), Spec{ID: "a", Args: []string{"sleep", "10h"}}, Sinks{Stdout: &out})
				if !errors.Is(err, errFrame) || !errors.Is(r.Err(), errFrame) || out.Len() > inlineBytes {
					t.Errorf("%d bytes of output, %v; the node: %v", out.Len(), err, r.Err())
				}
				t.Log(err)
			})
		})
	}
}

// A node that never stores its input is lost.
func TestStoreThatStalls(t *testing.T) {
	stalls := func(sim *simnode.Node) func(context.Context, sshd.Program) int {
		return func(ctx context.Context, p sshd.Program) int {
			if strings.Contains(p.Command, "cat >") {
				<-ctx.Done()
				return 0
			}
			return sim.Run(ctx, p)
		}
	}
	lyingBy(t, stalls, func(t *testing.T, r *liarRig) {
		_, err := r.Run(t.Context(), Spec{ID: "a", Args: []string{"cat"}, Stdin: strings.NewReader("it")}, Sinks{})
		if !errors.Is(err, ssh.ErrStalled) || !errors.Is(r.Err(), ssh.ErrStalled) {
			t.Errorf("%v; the node: %v", err, r.Err())
		}
	})
}

// The reported time of a found task is bounded too, by the time before which it was not started. Its Timeout
// counts from Resume.
func TestResumeBoundsWhatTheNodeSays(t *testing.T) {
	lie := func(line string, say func(string)) {
		switch {
		case strings.HasPrefix(line, "D long "):
			line = "D long 0 - exit 999999999999 0 0 0 "
		case strings.HasPrefix(line, "D late "):
			return
		}
		say(line)
	}
	lying(t, lie, func(t *testing.T, r *liarRig) {
		since := time.Now()
		for _, id := range []string{"long", "late"} {
			go r.Run(t.Context(), Spec{ID: id, Args: []string{"sleep", "1h"}, Scratch: true}, Sinks{})
		}
		time.Sleep(time.Minute)
		cfg := r.cfg
		cfg.Generation = 2
		second, found, err := Attach(t.Context(), r.client, cfg)
		if err != nil || len(found) != 2 {
			t.Fatalf("%v, %v", found, err)
		}
		defer second.Close(context.Background(), true)
		x, err := second.Resume(t.Context(), Spec{ID: "long"}, since, Sinks{})
		if err != nil || x.Elapsed != time.Since(since) {
			t.Errorf("%v, %v", x.Elapsed, err)
		}
		begun := time.Now()
		if _, err = second.Resume(t.Context(), Spec{ID: "late", Timeout: time.Hour, Grace: time.Second}, since, Sinks{}); !errors.Is(err, ErrOverdue) {
			t.Errorf("after %v: %v", time.Since(begun), err)
		}
	})
}
