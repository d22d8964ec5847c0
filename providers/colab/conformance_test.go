//go:build unix

package colab_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/gputrain/gputrain/providers/driver"
	"github.com/gputrain/gputrain/providers/providertest"
)

// The suite runs on one runtime behind a tunnel, which is left as it was found.
func TestConformance(t *testing.T) {
	n := newNotebook(t, t4)
	private, err := os.ReadFile(n.srv.KeyFile)
	must(t, err)
	const (
		noAPI  = "there is no API: the runtime is the user's, and its SSH server is all that is asked"
		noKeys = "the runtime is asked for nothing before it is a node"
		noTags = "a runtime carries no tags, and so List reports nothing"
	)
	providertest.Run(t, func(t *testing.T) providertest.Harness {
		return providertest.Harness{
			Provider: n.config(),
			Machines: 1,
			Account: func() (files []driver.Resource) {
				for _, name := range tree(n.home) {
					files = append(files, driver.Resource{Kind: "file", ID: filepath.Join(n.home, name)})
				}
				return files
			},
			Secrets: []string{strings.Split(string(private), "\n")[4]}, // which is never sent
			Without: map[string]string{
				"Funds": "a runtime is free, as far as it is metered here", "Allow": "there is one runtime", "Tags": noTags,
				"offers name their country": "a runtime does not tell where it is",
				"Fault":                     noAPI, "Calls": noAPI, "PagedOffers": noAPI, "Metered": "nothing is billed", "States": noAPI, "Foreign": noAPI,
				"MissingKey": noKeys, "WrongKey": noKeys,
				"tags round trip": noTags, "list of one pool shows no other": noTags, "list forgets what is gone": noTags,
				"Stall":    "a runtime runs already",
				"Room":     "there is one runtime: TestPool",
				"Unpriced": "a runtime is free, as far as it is metered here",
			},
		}
	})
}
