package fakecloud

import (
	"crypto/ed25519"
	"encoding/pem"
	"errors"
	"os"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/gputrain/gputrain/internal/machine"
	xssh "golang.org/x/crypto/ssh"
)

// newKey returns a login key, its authorized_keys line and its PEM.
func newKey(t testing.TB) (signer xssh.Signer, line, private string) {
	t.Helper()
	_, key, err := ed25519.GenerateKey(nil)
	if err != nil {
		t.Fatal(err)
	}
	if signer, err = xssh.NewSignerFromKey(key); err != nil {
		t.Fatal(err)
	}
	block, err := xssh.MarshalPrivateKey(key, "")
	if err != nil {
		t.Fatal(err)
	}
	return signer, strings.TrimSpace(string(xssh.MarshalAuthorizedKey(signer.PublicKey()))), string(pem.EncodeToMemory(block))
}

// login logs in to a machine and checks that it has the published host key.
func login(m *Machine, key xssh.Signer) (*xssh.Client, error) {
	host, _, _, _, err := xssh.ParseAuthorizedKey([]byte(m.HostKey))
	if err != nil {
		return nil, err
	}
	return xssh.Dial("tcp", m.Addr(), &xssh.ClientConfig{
		User: m.User, Auth: []xssh.AuthMethod{xssh.PublicKeys(key)},
		HostKeyCallback: xssh.FixedHostKey(host), Timeout: time.Minute,
	})
}

func output(t *testing.T, c *xssh.Client, command string) string {
	t.Helper()
	s, err := c.NewSession()
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	out, err := s.CombinedOutput(command)
	if err != nil {
		t.Fatalf("%s: %v\n%s", command, err, out)
	}
	return strings.TrimSpace(string(out))
}

func TestMachineRunsCommandsInItsHome(t *testing.T) {
	key, line, _ := newKey(t)
	_, hostLine, hostPrivate := newKey(t)
	m := NewMachine(t, MachineConfig{AuthorizedKey: line, HostKey: hostPrivate, User: "ubuntu", Env: []string{"POD_ID=p1"}})
	if m.HostKey != hostLine {
		t.Errorf("host key %s, not the one that was given", m.HostKey)
	}
	c, err := login(m, key)
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	if got := output(t, c, `echo "$HOME $PWD $USER $POD_ID"; sudo -n -u root printf done`); got != m.Home+" "+m.Home+" ubuntu p1\ndone" {
		t.Errorf("got %q", got)
	}

	// Detached processes end with the machine, and its folder is removed.
	number := output(t, c, `setsid sleep 600 >/dev/null 2>&1 & echo $!`)
	pid, err := strconv.Atoi(number)
	if err != nil {
		t.Fatal(err)
	}
	if !slices.Contains(awaitMarked(t, m.mark(), pid), pid) {
		t.Fatalf("process %d does not count as the machine's", pid)
	}
	output(t, c, "mkdir -p locked/in && chmod 0 locked")
	m.Kill()
	if found := marked(m.mark()); len(found) > 0 {
		t.Errorf("the processes %v are left", found)
	}
	if _, err := os.Stat(string(m.dir)); !os.IsNotExist(err) {
		t.Errorf("the folder is left: %v", err)
	}
	if state, why := m.State(); state != Down || why != "killed" {
		t.Errorf("state %v: %s", state, why)
	}
	if _, err := login(m, key); err == nil {
		t.Error("a machine that is down accepts a login")
	}
	if _, err := Dial(t.Context(), m.PublicIP+":22"); !errors.Is(err, syscall.ECONNREFUSED) {
		t.Errorf("its public address: %v", err)
	}
}

// marked returns the processes that have a mark, "NAME=value", in their environment.
func marked(mark string) (pids []int) {
	name, value, _ := strings.Cut(mark, "=")
	for p := range machine.Processes() {
		if p.Getenv(name) == value {
			pids = append(pids, p.PID)
		}
	}
	return pids
}

// awaitMarked waits until pid is among the processes with a mark, and returns these. A process in
// the middle of exec shows no environment for a moment.
func awaitMarked(t *testing.T, mark string, pid int) []int {
	t.Helper()
	for deadline := time.Now().Add(time.Minute); ; time.Sleep(time.Millisecond) {
		if found := marked(mark); slices.Contains(found, pid) || time.Now().After(deadline) {
			return found
		}
	}
}

func TestMachineBoots(t *testing.T) {
	key, line, _ := newKey(t)
	m := NewMachine(t, MachineConfig{AuthorizedKey: line, BootAfter: -1})
	if _, err := login(m, key); err == nil {
		t.Fatal("a machine that has not booted accepts a login")
	}
	if state, _ := m.State(); state != Booting {
		t.Errorf("state %v", state)
	}
	m.Boot()
	c, err := login(m, key)
	if err != nil {
		t.Fatal(err)
	}
	m.HangUp()
	c.Wait() // until the connection has ended
	if c, err = login(m, key); err != nil {
		t.Fatalf("after a hang-up: %v", err)
	}
	c.Close()
}

func TestMachineBootsByItself(t *testing.T) {
	key, line, _ := newKey(t)
	m := NewMachine(t, MachineConfig{AuthorizedKey: line, BootAfter: time.Millisecond})
	deadline := time.Now().Add(time.Minute)
	for {
		c, err := login(m, key)
		if err == nil {
			c.Close()
			return
		}
		if time.Now().After(deadline) {
			t.Fatal(err)
		}
	}
}

func TestMachineRefuses(t *testing.T) {
	key, line, _ := newKey(t)
	other, _, _ := newKey(t)
	m := NewMachine(t, MachineConfig{AuthorizedKey: line})
	if _, err := login(m, other); err == nil || !strings.Contains(err.Error(), "unable to authenticate") {
		t.Errorf("another key: %v", err)
	}
	impostor := NewMachine(t, MachineConfig{AuthorizedKey: line, Impostor: true})
	if _, err := login(impostor, key); err == nil || !strings.Contains(err.Error(), "host key mismatch") {
		t.Errorf("another host key: %v", err)
	}
}

func TestMachineShutsItselfDown(t *testing.T) {
	key, line, _ := newKey(t)
	m := NewMachine(t, MachineConfig{AuthorizedKey: line})
	c, err := login(m, key)
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	s, err := c.NewSession()
	if err != nil {
		t.Fatal(err)
	}
	s.Run("shutdown -c; sudo shutdown -h now") // this session may or may not survive the shutdown
	<-m.Down()
	if _, why := m.State(); why != "shutdown -h now" {
		t.Errorf("it is down because of %q", why)
	}
}

func TestDial(t *testing.T) {
	_, line, _ := newKey(t)
	a := NewMachine(t, MachineConfig{AuthorizedKey: line})
	b := NewMachine(t, MachineConfig{AuthorizedKey: line})
	if a.PublicIP == b.PublicIP {
		t.Fatalf("both have %s", a.PublicIP)
	}
	for addr, port := range map[string]string{a.PublicIP + ":22": a.Addr(), b.PublicIP + ":22": b.Addr(), b.Addr(): b.Addr()} {
		nc, err := Dial(t.Context(), addr)
		if err != nil {
			t.Fatal(err)
		}
		if got := nc.RemoteAddr().String(); got != port {
			t.Errorf("%s leads to %s, not %s", addr, got, port)
		}
		nc.Close()
	}
}

func TestTakesDown(t *testing.T) {
	for command, want := range map[string]bool{
		"shutdown -h now": true, "shutdown -P +0": true, "poweroff -f": true, "halt": true, "systemctl --no-block poweroff": true,
		"shutdown -h +30": false, "shutdown -c": false, "shutdown -r now": false, "reboot": false, "systemctl restart ssh": false,
	} {
		if got := takesDown(command); got != want {
			t.Errorf("%s: %v", command, got)
		}
	}
}

// If the cloud sets a password, that password permits logins, and no other does.
func TestMachineWithAPassword(t *testing.T) {
	m := NewMachine(t, MachineConfig{Password: "Xy12abcd"})
	host, _, _, _, err := xssh.ParseAuthorizedKey([]byte(m.HostKey))
	if err != nil {
		t.Fatal(err)
	}
	for password, good := range map[string]bool{"Xy12abcd": true, "": false, "Xy12": false} {
		c, err := xssh.Dial("tcp", m.Addr(), &xssh.ClientConfig{
			User: "root", Auth: []xssh.AuthMethod{xssh.Password(password)}, HostKeyCallback: xssh.FixedHostKey(host), Timeout: time.Minute,
		})
		if (err == nil) != good {
			t.Errorf("%q: %v", password, err)
		}
		if err == nil {
			c.Close()
		}
	}
}
