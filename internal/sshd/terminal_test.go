//go:build unix

package sshd

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"net"
	"strings"
	"testing"

	"github.com/gputrain/gputrain/internal/test/ports"
	xssh "golang.org/x/crypto/ssh"
)

func TestTerminal(t *testing.T) {
	sn := open(t, newServer(t).client(t))
	if err := sn.RequestPty("vt220", 37, 91, nil); err != nil {
		t.Fatal(err)
	}
	in, _ := sn.StdinPipe()
	out, _ := sn.StdoutPipe()
	if err := sn.Start(`[ -t 0 ] && [ -t 1 ] && [ -t 2 ] && stty size && echo "$TERM" && trap 'echo interrupted; exit 9' INT; while read -r line; do echo "got $line, $(stty size)."; done`); err != nil {
		t.Fatal(err)
	}
	var seen bytes.Buffer
	until := func(text string) {
		t.Helper()
		for b := make([]byte, 100); !strings.Contains(seen.String(), text); {
			n, err := out.Read(b)
			seen.Write(b[:n])
			if err != nil {
				t.Fatalf("%q, and then %v", seen.String(), err)
			}
		}
	}
	until("37 91\r\nvt220\r\n")
	if err := sn.WindowChange(20, 60); err != nil {
		t.Fatal(err)
	}
	for i := 0; !strings.Contains(seen.String(), ", 20 60.\r\n"); i++ { // the change of the window has no answer
		line := fmt.Sprint("line ", i)
		io.WriteString(in, line+"\n")
		until("got " + line)
		until(".\r\n")
		if i > 1000 {
			t.Fatalf("%q", seen.String())
		}
	}
	io.WriteString(in, "\x03")
	until("interrupted")
	var exit *xssh.ExitError
	if err := sn.Wait(); !errors.As(err, &exit) || exit.ExitStatus() != 9 {
		t.Errorf("ended with %v", err)
	}
}

func TestForwardTCP(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	go func() {
		nc, err := l.Accept()
		if err != nil {
			return
		}
		all, _ := io.ReadAll(nc) // until the other half has ended
		nc.Write(all)
		nc.Close()
	}()
	to, err := newServer(t).client(t).Dial("tcp", l.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	io.WriteString(to, "both ways")
	to.(interface{ CloseWrite() error }).CloseWrite()
	if got, err := io.ReadAll(to); string(got) != "both ways" || err != nil {
		t.Errorf("%q, %v", got, err)
	}
	to.Close()

	if _, err := newServer(t).client(t).Dial("tcp", ports.Dead(t).String()); err == nil || !strings.Contains(err.Error(), "refused") {
		t.Errorf("nothing listens: %v", err)
	}
	var refused *xssh.OpenChannelError
	if _, err := newServer(t, func(c *Config) { c.NoForwarding = true }).client(t).Dial("tcp", "127.0.0.1:1"); !errors.As(err, &refused) || refused.Reason != xssh.Prohibited {
		t.Errorf("a server that forbids forwarding: %v", err)
	}
}
