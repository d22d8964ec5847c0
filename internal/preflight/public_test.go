package preflight

import (
	"context"
	"errors"
	"io"
	"net/netip"
	"strings"
	"testing"
	"testing/synctest"

	"github.com/gputrain/gputrain/providers/driver"
)

// A gang that would meet at public addresses is refused before anything is run on its nodes, unless that is allowed.
func TestPublicAddresses(t *testing.T) {
	names := map[string]string{"lab.example": "10.0.0.7", "open.example": "203.0.113.7", "both.example": "10.0.0.7 2a00:1450::1"}
	lookup := func(_ context.Context, _, host string) (all []netip.Addr, err error) {
		for _, a := range strings.Fields(names[host]) {
			all = append(all, netip.MustParseAddr(a))
		}
		if all == nil {
			err = errors.New("no such host")
		}
		return all, err
	}
	for name, tt := range map[string]struct {
		addrs   string
		allowed bool
		want    string // of the error that refuses, or empty
		note    string
	}{
		"private":            {addrs: "10.0.0.4 192.168.3.4"},
		"carrier's":          {addrs: "100.64.0.4 100.65.0.4"},
		"of this machine":    {addrs: "127.0.0.1 ::1"},
		"unique local":       {addrs: "fd00::4 fd00::5"},
		"public":             {addrs: "203.0.113.7 203.0.113.8", want: "node 10 has the public address 203.0.113.7"},
		"one is public":      {addrs: "10.0.0.4 203.0.113.8", want: "node 11 has the public address 203.0.113.8"},
		"public, IPv6":       {addrs: "fd00::4 2a00:1450::1", want: "node 11 has the public address 2a00:1450::1"},
		"mapped":             {addrs: "10.0.0.4 ::ffff:203.0.113.8", want: "node 11 has the public address ::ffff:203.0.113.8"},
		"another spelling":   {addrs: "10.0.0.4 0xcb007108", want: "node 11 has the public address 0xcb007108 (203.0.113.8)"},
		"allowed":            {addrs: "203.0.113.7 203.0.113.8", allowed: true},
		"one alone":          {addrs: "203.0.113.7"},
		"private name":       {addrs: "10.0.0.4 lab.example"},
		"public name":        {addrs: "10.0.0.4 open.example", want: "node 11 has the public address open.example (203.0.113.7)"},
		"name of both":       {addrs: "10.0.0.4 both.example", want: "node 11 has the public address both.example (2a00:1450::1)"},
		"unknown name":       {addrs: "10.0.0.4 other.example", note: "node 11 is reached by the name other.example, of which this computer does not know"},
		"a name is allowed":  {addrs: "10.0.0.4 open.example", allowed: true},
		"another is refused": {addrs: "203.0.113.7 open.example", want: "node 11 has the public address open.example"},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				ran := make(chan bool, 100)
				var nodes []Node
				for i, addr := range strings.Fields(tt.addrs) {
					nodes = append(nodes, Node{Rank: 10 + i, Addr: addr, Commands: counted{recorded{text: answer()}, ran}})
				}
				_, problems := Check(t.Context(), nodes, Options{AllowPublicNetwork: tt.allowed, lookup: lookup})
				said, refused := "", false
				for _, p := range problems {
					said += p.Err.Error() + "\n"
					if p.Severity != Refuse {
						continue
					}
					refused = true
					if tt.want == "" || !errors.Is(p.Err, driver.ErrUnsupported) || !strings.Contains(p.Err.Error(), "Training.AllowPublicNetwork") || !strings.Contains(p.Err.Error(), "NetworkPrivate") {
						t.Errorf("%v", p.Err)
					}
				}
				if refused != (tt.want != "") || !strings.Contains(said, tt.want) || !strings.Contains(said, tt.note) {
					t.Errorf("refused: %v, %s", refused, said)
				}
				if refused == (len(ran) > 0) {
					t.Errorf("%d commands were run; refused: %v", len(ran), refused)
				}
			})
		})
	}
}

// counted are commands that tell of each run.
type counted struct {
	Commands
	ran chan bool
}

func (c counted) ExecMoving(ctx context.Context, command string, stdin io.Reader, stdout, stderr io.Writer) error {
	c.ran <- true
	return c.Commands.ExecMoving(ctx, command, stdin, stdout, stderr)
}
