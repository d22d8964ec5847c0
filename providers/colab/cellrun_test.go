//go:build linux

package colab_test

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"

	"github.com/gputrain/gputrain"
	"github.com/gputrain/gputrain/accelerators"
	"github.com/gputrain/gputrain/providers/colab"
)

// The cell's endpoint serves a pool, also through a reopened tunnel, until the cell ends.
func TestCell(t *testing.T) {
	v := newColabVM(t)
	must(t, os.WriteFile(filepath.Join(v.home, "train.ipynb"), nil, 0o600))
	cell := v.run()
	e := cell.endpoint()
	found := tree(v.home)
	if !slices.Contains(found, "train.ipynb") || !slices.Contains(found, ".gputrain-colab/host_ed25519") {
		t.Errorf("the runtime's home has %q", found)
	}

	pool, err := gputrain.Open(t.Context(), colab.Config{Endpoint: e, KeyFile: v.key}, gputrain.Spec{Accelerator: accelerators.T4()})
	must(t, err)
	use(t, pool)
	r, err := pool.Run(gputrain.Script(`echo "$HOME|$COLAB_RELEASE_TAG|$COLAB_AUTH_TOKEN$OTHER$NGROK_AUTHTOKEN|${PATH%%:*}"`))
	if want := fmt.Sprintf("%s|release-1||%s\n", v.home, v.bin); err != nil || string(r.Stdout) != want {
		t.Errorf("a session has %q, %v; want %q", r.Stdout, err, want)
	}
	must(t, pool.Close())
	if left := tree(v.home); !slices.Equal(left, found) {
		t.Errorf("the pool has left %q, and found %q", left, found)
	}

	var first string
	for pid, said := range v.agents() {
		first = pid
		if want := []string{ngrokToken, "tcp", "--log=stdout", "--log-format=json"}; len(said) != 5 || !slices.Equal(said[:4], want) || !strings.HasPrefix(said[4], "127.0.0.1:") {
			t.Errorf("ngrok was given %q", said)
		}
	}
	number, err := strconv.Atoi(first)
	must(t, err)
	must(t, syscall.Kill(number, syscall.SIGTERM))
	cell.until("The tunnel has ended.")
	next := cell.endpoint()
	if next.HostKey != e.HostKey || next.Port == e.Port {
		t.Errorf("the next endpoint is %+v, after %+v", next, e)
	}
	pool, err = gputrain.Open(t.Context(), colab.Config{Endpoint: next, KeyFile: v.key}, gputrain.Spec{})
	must(t, err)
	must(t, pool.Close())

	must(t, cell.cmd.Process.Signal(os.Interrupt))
	if out := cell.ends(0); !strings.Contains(out, "until you disconnect it") || strings.Contains(out, ngrokToken) {
		t.Errorf("the cell says\n%s", out)
	}
	v.isClosed()

	again := v.run() // the same runtime, recognised by its host key
	if e := again.endpoint(); e.HostKey != next.HostKey {
		t.Errorf("after another run the host key is %s, and was %s", e.HostKey, next.HostKey)
	}
}

// After its kernel was killed, a notebook still has its tunnel and server. The cell ends both;
// otherwise it would announce the old tunnel.
func TestCellAfterAKilledOne(t *testing.T) {
	v := newColabVM(t)
	first := v.run()
	e := first.endpoint()
	must(t, first.cmd.Process.Kill())
	first.wait()
	old := v.agents()

	if next := v.run().endpoint(); next.Port == e.Port || next.HostKey != e.HostKey {
		t.Errorf("the endpoint is %+v, after %+v", next, e)
	}
	for pid, said := range old {
		v.wantEnded(pid, said[len(said)-1])
	}
}

// Strangers can connect through a public tunnel. The server accepts only one key, and only
// from the tunnel's end.
func TestCellsServer(t *testing.T) {
	v := newColabVM(t)
	cell := v.run()
	cell.endpoint()
	out, err := exec.Command(sshd, "-T", "-f", filepath.Join(v.home, ".gputrain-colab", "sshd_config")).Output()
	must(t, err)
	settings := strings.Split(string(out), "\n")
	for _, said := range v.agents() {
		for _, want := range []string{
			"listenaddress " + said[len(said)-1], "authenticationmethods publickey", "passwordauthentication no", "kbdinteractiveauthentication no",
			"permitrootlogin without-password", "usepam no", "allowtcpforwarding yes", "allowagentforwarding no", "x11forwarding no",
			"clientaliveinterval 30", "clientalivecountmax 6", "maxsessions 64", "maxstartups 32:30:128", "subsystem sftp internal-sftp",
		} {
			if !slices.Contains(settings, want) {
				t.Errorf("the server has no %q", want)
			}
		}
	}
	if n := strings.Count(string(out), "\nlistenaddress "); n != 1 {
		t.Errorf("the server listens at %d addresses", n)
	}
	authorized, err := os.ReadFile(filepath.Join(v.home, ".gputrain-colab", "authorized_keys"))
	must(t, err)
	public, err := os.ReadFile(v.key + ".pub")
	must(t, err)
	if want := "restrict,port-forwarding,pty " + string(public); string(authorized) != want {
		t.Errorf("the server lets %q in; want %q", authorized, want)
	}
}

// For each problem in a notebook the cell prints what to do, and leaves nothing running.
func TestCellRefuses(t *testing.T) {
	for _, tt := range []struct {
		name string
		arm  func(v *colabVM)
		says string
	}{
		{"the switch is off", func(v *colabVM) { delete(v.edits, "I_MAY_AUTOMATE_THIS_RUNTIME = False") }, "set I_MAY_AUTOMATE_THIS_RUNTIME = True"},
		{"a private key", func(v *colabVM) { v.edits["PUBLIC_KEY or"] = `"-----BEGIN OPENSSH PRIVATE KEY-----" or` }, "Never paste a private key"},
		{"a damaged key", func(v *colabVM) { v.edits["PUBLIC_KEY or"] = `"ssh-rsa AAAAC3NzaC1lZDI1NTE5" or` }, "disagree"},
		{"no card", func(v *colabVM) { v.ngrok(`echo "failed: $NGROK_AUTHTOKEN ERR_NGROK_8013"; exit 1`) }, "ERR_NGROK_8013. On ngrok's free plan TCP tunnels need a payment card"},
		{"an unknown code", func(v *colabVM) { v.ngrok(`echo ERR_NGROK_9999; exit 1`) }, "ERR_NGROK_9999. See https://"},
		{"a tunnel that never opens", func(v *colabVM) { v.ngrok(`echo "no network for $NGROK_AUTHTOKEN"; exit 1`) }, "ngrok says: no network for ***"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			v := newColabVM(t)
			tt.arm(v)
			if out := v.run().ends(1); !strings.Contains(out, tt.says) || strings.Contains(out, ngrokToken) {
				t.Errorf("the cell says\n%s\nwant %q", out, tt.says)
			}
			v.isClosed()
		})
	}
}

// The cell works on a runtime without an SSH server, with a locked root account and without a
// stored secret.
func TestCellOnABareRuntime(t *testing.T) {
	if os.Getuid() != 0 {
		t.Skip("only root has a password to unlock and packages to install")
	}
	v := newColabVM(t)
	v.stdin = ngrokToken + "\n"
	must(t, os.RemoveAll(filepath.Join(v.lib, "google")))
	dir := t.TempDir()
	wants := filepath.Join(dir, "sshd")
	v.edits[strconv.Quote(sshd)] = strconv.Quote(wants)
	shadow := filepath.Join(dir, "shadow")
	must(t, os.WriteFile(shadow, []byte("root:!:19000:0:99999:7:::\n"), 0o600))
	v.edits[`"/etc/shadow"`] = strconv.Quote(shadow)
	script(t, filepath.Join(v.bin, "apt-get"), fmt.Sprintf(`echo apt-get "$@" >>'%s'; case $* in *openssh-server) ln -s '%s' '%s';; esac`, v.calls, sshd, wants))
	v.run().endpoint()
	got, err := os.ReadFile(v.calls)
	must(t, err)
	want := `apt-get -qq -o DPkg::Lock::Timeout=120 update
apt-get -qq -o DPkg::Lock::Timeout=120 install -y --no-install-recommends openssh-server
service ssh stop
usermod -p * root
`
	if string(got) != want {
		t.Errorf("the system was asked\n%swant\n%s", got, want)
	}
}
