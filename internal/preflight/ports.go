package preflight

import (
	"context"
	"crypto/rand"
	_ "embed"
	"errors"
	"fmt"
	"io"
	"net/netip"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/gputrain/gputrain/internal/bounded"
	"github.com/gputrain/gputrain/providers/driver"
)

//go:embed peer.sh
var peerScript string

//go:embed peer.py
var peerPython string

//go:embed peer.pl
var peerPerl string

const (
	// openTime limits the time until a node listens, and dialTime the time until it has dialled all others.
	openTime, dialTime = 15 * time.Second, 20 * time.Second
	// maxSaid bounds what a listener says, in bytes: a line for each of its ports.
	maxSaid = 64 << 10
	// Up to allPairs nodes each dials all others. More are joined in a ring and a star, whose middle is the first.
	allPairs = 8
)

// errNoTool is the reason why ports of a node are unknown.
var errNoTool = errors.New("it has none of perl, python3 and nc, so it is not known whether the nodes reach each other's ports")

// ports checks that the nodes reach each other on the master port and on a random port each, as NCCL and gloo take random ones.
func (c *check) ports(ctx context.Context) {
	listeners := make([]*listener, len(c.nodes))
	c.each(func(i int, n Node) {
		if !c.answered[i] {
			return
		}
		ports := []string{"0"}
		if i == 0 && c.options.Port > 0 {
			ports = append(ports, strconv.Itoa(c.options.Port))
		}
		l, err := listen(ctx, n, ports)
		switch {
		case errors.Is(err, errNoTool):
			c.add(Problem{i, -1, Note, fault(nil, nodeError(n, "was not checked: %w", err), "install one of them")})
		case err != nil:
			c.add(Problem{i, -1, Note, fault(nil, nodeError(n, "was not checked: it does not listen: %w", err), "")})
		default:
			for _, busy := range l.busy {
				c.add(Problem{i, -1, Again, fault(driver.ErrUnavailable, nodeError(n, "cannot listen on its port %s", busy), "another program has it: start again with another port")})
			}
			listeners[i] = l
		}
	})
	defer func() {
		c.each(func(i int, _ Node) {
			if listeners[i] != nil {
				listeners[i].end()
			}
		})
	}()
	var mu sync.Mutex
	var failed []pair
	tried := map[int]int{}
	c.each(func(i int, n Node) {
		var targets []target
		for _, j := range peers(i, len(c.nodes)) {
			if listeners[i] == nil || listeners[j] == nil {
				continue // without a tool, or not there
			}
			for _, port := range listeners[j].ports {
				targets = append(targets, target{j, c.nodes[j].Addr, port, listeners[j].token})
			}
		}
		unreached, err := dial(ctx, n, targets)
		if err != nil {
			c.add(Problem{i, -1, Note, fault(nil, nodeError(n, "was not checked: it does not dial: %w", err), "")})
		}
		mu.Lock()
		defer mu.Unlock()
		for _, t := range targets {
			tried[i]++
			tried[t.peer]++
		}
		for k, why := range unreached {
			failed = append(failed, pair{i, targets[k], why})
		}
	})
	c.blame(failed, tried)
}

// A target is a port of a peer.
type target struct {
	peer  int
	host  string
	port  int
	token string // which the peer answers with
}

// A pair is a dial that failed.
type pair struct {
	from int
	to   target
	why  string
}

// blame makes problems of failed dials. If one node alone is in all of them, and fails with all of several peers, it is
// replaced; else the gang cannot start on these nodes.
func (c *check) blame(failed []pair, tried map[int]int) {
	in := map[int]int{}
	for _, p := range failed {
		in[p.from]++
		in[p.to.peer]++
	}
	guilty := -1
	for i, n := range in {
		if len(c.nodes) > 2 && n == len(failed) && n == tried[i] {
			guilty = i
		}
	}
	for _, p := range failed {
		problem := Problem{p.from, p.to.peer, Refuse, fault(driver.ErrUnavailable, fmt.Errorf("node %d cannot reach node %d at %s: %s",
			c.nodes[p.from].Rank, c.nodes[p.to.peer].Rank, netJoin(p.to.host, p.to.port), p.why), openPorts(p.to.host))}
		if guilty >= 0 {
			problem.Severity = Replace
			problem.Node, problem.Peer = guilty, p.from+p.to.peer-guilty
		}
		c.add(problem)
	}
}

// openPorts says what to do about a port that cannot be reached.
func openPorts(host string) string {
	if addr, err := netip.ParseAddr(host); err == nil && addr.IsLoopback() {
		return "that address leads each machine to itself: nodes of different machines need addresses of a network between them"
	}
	return "open all TCP ports between the nodes, in their firewalls and in the network's, or set Spec.Network to gputrain.NetworkPrivate"
}

func netJoin(host string, port int) string {
	if strings.Contains(host, ":") {
		return fmt.Sprintf("[%s]:%d", host, port)
	}
	return fmt.Sprintf("%s:%d", host, port)
}

// peers returns the nodes that a node dials: all others or, if there are many, the next one and the first; the first dials
// all.
func peers(i, n int) (all []int) {
	for j := range n {
		if j != i && (n <= allPairs || i == 0 || j == 0 || j == (i+1)%n) {
			all = append(all, j)
		}
	}
	return all
}

// A listener is a node's listening program.
type listener struct {
	token string
	ports []int    // those that it listens on
	busy  []string // those that it cannot listen on, with the reason
	end   func()   // ends the program, and waits for that
}

// listen has a node listen on ports, of which 0 is any.
func listen(ctx context.Context, n Node, ports []string) (*listener, error) {
	running, stop := context.WithCancel(ctx)
	stdin, hold := io.Pipe()
	lines := &lineReader{bounded.Buffer{Most: maxSaid}, make(chan struct{}, 1)}
	l := &listener{token: "gputrain " + rand.Text()}
	stderr := bounded.Buffer{Most: maxSaid}
	over := make(chan error, 1)
	go func() {
		script := io.MultiReader(strings.NewReader(peer("listen", family(n.Addr), l.token, ports...)), stdin)
		over <- n.Commands.ExecMoving(running, "exec sh -s", script, lines, &stderr)
		stdin.Close()
	}()
	ended := sync.OnceFunc(func() {
		hold.Close() // the program sees the end of its stdin
		select {
		case <-over:
		case <-time.After(5 * time.Second):
		}
		stop()
	})
	l.end = ended
	late := time.NewTimer(openTime)
	defer late.Stop()
	for {
		var err error
		select {
		case <-lines.news:
			all, _ := lines.all()
			switch {
			case len(all) > 0 && all[len(all)-1] == "none":
				err = errNoTool
			case len(all) > 0 && all[len(all)-1] == "ready":
				l.read(all, len(ports))
				return l, nil
			default:
				continue
			}
		case err = <-over:
			over <- nil
			if all, _ := lines.all(); len(all) > 0 && all[len(all)-1] == "none" {
				err = errNoTool
			} else if err == nil {
				err = errors.New("its program has ended")
			}
		case <-late.C:
			err = fmt.Errorf("not within %v", openTime)
		case <-ctx.Done():
			err = ctx.Err()
		}
		ended()
		if said := stderr.String(); said != "" {
			err = fmt.Errorf("%w: %.2000s", err, strings.TrimSpace(said))
		}
		return nil, err
	}
}

// read takes what a node says of as many ports as it was asked for: others would have all nodes dial them.
func (l *listener) read(lines []string, asked int) {
	for _, line := range lines {
		words := strings.SplitN(line, " ", 3)
		if len(words) < 3 || len(l.ports)+len(l.busy) == asked {
			continue
		}
		if port, err := strconv.Atoi(words[2]); words[0] == "port" && err == nil && port > 0 && port < 1<<16 {
			l.ports = append(l.ports, port)
		} else if words[0] == "busy" {
			l.busy = append(l.busy, fmt.Sprintf("%.100s: %.300s", words[1], words[2]))
		}
	}
}

// dial has a node dial targets, and returns why it did not reach some of them, by their indexes.
func dial(ctx context.Context, n Node, targets []target) (unreached map[int]string, err error) {
	if len(targets) == 0 {
		return nil, nil
	}
	ctx, cancel := context.WithTimeout(ctx, dialTime)
	defer cancel()
	var args []string
	for i, t := range targets {
		args = append(args, strconv.Itoa(i), t.host, strconv.Itoa(t.port), t.token)
	}
	lines := &lineReader{news: make(chan struct{}, 1)}
	var stderr bounded.Buffer
	err = n.Commands.ExecMoving(ctx, "exec sh -s", strings.NewReader(peer("dial", family(n.Addr), "-", args...)), lines, &stderr)
	all, text := lines.all()
	unreached = map[int]string{}
	for i := range targets {
		unreached[i] = fmt.Sprintf("no answer within %v", dialTime)
	}
	for _, line := range all {
		words := strings.SplitN(line, " ", 3)
		if len(words) < 2 {
			continue
		}
		i, bad := strconv.Atoi(words[1])
		said := strings.Join(words[2:], " ")
		switch {
		case bad != nil || i < 0 || i >= len(targets):
		case words[0] == "ok":
			delete(unreached, i)
		case words[0] == "wrong":
			unreached[i] = fmt.Sprintf("another program answers there: %q", said)
		case words[0] == "fail" && said == "":
			unreached[i] = "nothing answers"
		case words[0] == "fail":
			unreached[i] = said
		}
	}
	if len(all) == 0 && ctx.Err() == nil { // the program did not run
		return nil, errors.Join(err, fmt.Errorf("it printed %.1000q %.2000q", text, strings.TrimSpace(stderr.String())))
	}
	return unreached, nil
}

// family returns "6" for an IPv6 address, and "4" for all others.
func family(addr string) string {
	if a, err := netip.ParseAddr(addr); err == nil && a.Unmap().Is6() {
		return "6"
	}
	return "4"
}

// peer returns the script of peer.sh with its arguments. Its programs end themselves after the time of a check.
func peer(mode, family, token string, args ...string) string {
	var b strings.Builder
	fmt.Fprintf(&b, "python=%s\nperl=%s\nset -- %s %s %d %s", quote(peerPython), quote(peerPerl), mode, family, int(bound.Seconds()), quote(token))
	for _, arg := range args {
		b.WriteString(" " + quote(arg))
	}
	// A shell that reads its script line by line must not have a program read the rest of it.
	b.WriteString("\neval " + quote(peerScript) + "\nexit\n")
	return b.String()
}

// quote returns a word of sh.
func quote(s string) string { return "'" + strings.ReplaceAll(s, "'", `'\''`) + "'" }

// A lineReader keeps what a program prints, by lines.
type lineReader struct {
	bounded.Buffer
	news chan struct{} // has room for one: something was printed
}

func (l *lineReader) Write(p []byte) (int, error) {
	n, err := l.Buffer.Write(p)
	select {
	case l.news <- struct{}{}:
	default:
	}
	return n, err
}

// all returns the whole lines so far, and all of the text.
func (l *lineReader) all() (lines []string, text string) {
	text = l.String()
	for line := range strings.Lines(text) {
		if whole, ok := strings.CutSuffix(line, "\n"); ok {
			lines = append(lines, strings.TrimRight(whole, "\r"))
		}
	}
	return lines, text
}
