package ssh

import (
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/gputrain/gputrain"
	"github.com/gputrain/gputrain/internal/test/opensshtest"
	"github.com/gputrain/gputrain/providers/driver"
	"github.com/gputrain/gputrain/providers/providertest"
	xssh "golang.org/x/crypto/ssh"
)

func TestMain(m *testing.M) {
	gputrain.Init() // this program is also what runs functions on nodes
	os.Exit(m.Run())
}

// The suite runs on one real OpenSSH server, listed eight times, which is left as it was
// found.
func TestConformance(t *testing.T) {
	home := t.TempDir()
	srv := opensshtest.Start(t, opensshtest.Config(`SetEnv "HOME=`+home+`"`))
	host := Host{Addr: srv.Addr, User: srv.User, KeyFile: srv.KeyFile, HostKey: xssh.FingerprintSHA256(srv.HostKey)}
	private, err := os.ReadFile(srv.KeyFile)
	if err != nil {
		t.Fatal(err)
	}
	const (
		noAPI    = "there is no API: hosts are the user's, and their servers are all that is asked"
		noKeys   = "hosts are asked for nothing before they are nodes"
		noTags   = "hosts carry no tags, and so List reports nothing"
		inConfig = "hosts are those of the Config: TestMoreNodesThanHosts"
	)
	providertest.Run(t, func(t *testing.T) providertest.Harness {
		cfg := Config{}
		for range 8 {
			cfg.Hosts = append(cfg.Hosts, host)
		}
		return providertest.Harness{
			Provider: cfg,
			Account: func() (files []driver.Resource) {
				filepath.WalkDir(home, func(path string, _ fs.DirEntry, err error) error {
					if err == nil && path != home {
						files = append(files, driver.Resource{Kind: "file", ID: path})
					}
					return nil // it was removed meanwhile
				})
				return files
			},
			Secrets: []string{strings.Split(string(private), "\n")[4]}, // which is never sent
			Without: map[string]string{
				"Funds": "hosts are free", "Allow": "hosts have no quotas", "Tags": noTags,
				"offers name their country": "a host does not tell where it is",
				"Fault":                     noAPI, "Calls": noAPI, "PagedOffers": noAPI, "Metered": "nothing is billed", "States": noAPI, "Foreign": noAPI,
				"MissingKey": noKeys, "WrongKey": noKeys,
				"tags round trip": noTags, "list of one pool shows no other": noTags, "list forgets what is gone": noTags,
				"Stall":    "hosts run already",
				"Room":     inConfig,
				"Unpriced": "hosts are free",
			},
		}
	})
}
