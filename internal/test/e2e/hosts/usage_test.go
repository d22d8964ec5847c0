//go:build unix

package hosts

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/gputrain/gputrain/internal/test/e2etest"
	"github.com/gputrain/gputrain/internal/test/usagetest"
	xssh "golang.org/x/crypto/ssh"
)

func TestUsageOwnHosts(t *testing.T) {
	program := usagetest.Build(t, "ownhosts")
	_, errOut, err := program.Run(t, nil)
	if err == nil || !strings.Contains(errOut, "gpu1.lab") {
		t.Errorf("the program must fail, because its hosts do not exist and its host key is made up: %v\n%s", err, errOut)
	}
}

// With the user's own hosts in place of those of the lab, the program runs on them: with a key file and a pinned host key on the
// first, and with the agent and known_hosts on the second.
func TestUsageOwnHostsThatExist(t *testing.T) {
	first, second, home := e2etest.NewHost(t), e2etest.NewHost(t), t.TempDir()
	program := usagetest.Build(t, "ownhosts", "gpu1.lab:22", first.Link.Addr, "gpu2.lab:22", second.Link.Addr,
		`"me"`, `"`+first.Server.User+`"`, `"me"`, `"`+second.Server.User+`"`, "SHA256:…", xssh.FingerprintSHA256(first.Server.HostKey))
	e2etest.WriteText(t, filepath.Join(home, ".ssh", "known_hosts"), e2etest.ReadText(t, e2etest.KnownHosts(t, second, second.Server.HostKey)))
	e2etest.Write(t, filepath.Join(home, ".ssh", "id_ed25519"), []byte(e2etest.ReadText(t, first.Server.KeyFile)))
	agent(t, second.Server.KeyFile)
	here, err := os.Hostname()
	if err != nil {
		t.Fatal(err)
	}
	out, errOut, err := program.Run(t, []string{"HOME=" + home})
	if err != nil || errOut != "" || out != "0 "+here+"\n1 "+here+"\n" {
		t.Errorf("%v\n%s%s", err, out, errOut)
	}
}
