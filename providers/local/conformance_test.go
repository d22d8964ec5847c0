//go:build unix

package local

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/gputrain/gputrain/providers/driver"
	"github.com/gputrain/gputrain/providers/providertest"
)

func TestConformance(t *testing.T) {
	providertest.Run(t, func(t *testing.T) providertest.Harness {
		dir := t.TempDir()
		const (
			noAPI  = "there is no API between the driver and its nodes"
			noKeys = "nothing here needs a key"
		)
		return providertest.Harness{
			Provider: Config{Dir: dir},
			Account: func() []driver.Resource {
				var all []driver.Resource
				for _, name := range names(t, dir) {
					if id, ok := strings.CutPrefix(name, "gputrain-"); ok {
						all = append(all, driver.Resource{Kind: "machine", ID: id, Name: id})
					}
					all = append(all, driver.Resource{Kind: "directory", ID: filepath.Join(dir, name), Name: name})
				}
				return all
			},
			Foreign: func() []string {
				precious := filepath.Join(dir, "precious")
				if err := os.MkdirAll(precious, 0o700); err != nil {
					t.Fatal(err)
				}
				return []string{precious}
			},
			States: func() []providertest.StateCase {
				return []providertest.StateCase{
					{Vendor: "there", Set: func(string) {}, Want: driver.InstanceRunning},
					{Vendor: "its home is gone", Set: func(id string) { os.RemoveAll(homePath(dir, id)) }, Want: driver.InstanceTerminated},
				}
			},
			Without: map[string]string{
				"Funds": "nodes are free", "Allow": "this machine has no quotas", "Tags": "nobody is billed for a node",
				"offers name their country": "this machine does not know where it is",
				"Fault":                     noAPI, "Calls": noAPI, "PagedOffers": noAPI, "Metered": "nothing is billed",
				"states that the table does not have": noAPI,
				"MissingKey":                          noKeys, "WrongKey": noKeys, "Secrets": noKeys,
				"Stall":    "a node runs once it is launched",
				"Room":     "this machine takes as many as one likes",
				"Unpriced": "nodes are free",
			},
		}
	})
}
