package container

import (
	"crypto/rand"
	"encoding/json"
	"strings"
	"testing"

	"github.com/gputrain/gputrain/providers/driver"
	"github.com/gputrain/gputrain/providers/providertest"
)

// The suite runs on real engines. The things of each check have a label of their own, as other
// programs may use the engine too.
func TestConformance(t *testing.T) {
	if testing.Short() {
		t.Skip("scripts/test -deep runs it: it makes a hundred containers")
	}
	onEngines(t, func(t *testing.T, binary string) {
		providertest.RunParallel(t, func(t *testing.T) providertest.Harness { return conformance(t, binary) })
	})
}

func conformance(t *testing.T, binary string) providertest.Harness {
	label := "providertest=" + strings.ToLower(rand.Text())
	name, value, _ := strings.Cut(label, "=")
	const (
		noAPI  = "the engine is a command, which cancel_test.go and failure_test.go have fail"
		noKeys = "the engine asks for no key"
	)
	return providertest.Harness{
		Provider: Config{Binary: binary, Labels: map[string]string{name: value}},
		Account: func() (all []driver.Resource) {
			for line := range strings.Lines(do(t, binary, "ps", "--all", "--no-trunc", "--filter", "label="+label, "--format", "{{.ID}} {{.Names}}")) {
				id, name, _ := strings.Cut(strings.TrimSpace(line), " ")
				all = append(all, driver.Resource{Kind: "machine", ID: id, Name: name})
			}
			for _, name := range strings.Fields(do(t, binary, "network", "ls", "--filter", "label="+label, "--format", "{{.Name}}")) {
				all = append(all, driver.Resource{Kind: "network", ID: name, Name: name})
			}
			return all
		},
		Tags: func(id string) map[string]string {
			var labels map[string]string
			if err := json.Unmarshal([]byte(do(t, binary, "inspect", "--format", "{{json .Config.Labels}}", id)), &labels); err != nil {
				t.Error(err)
			}
			return labels
		},
		Foreign: func() []string {
			name := "foreign-" + value
			machine := do(t, binary, "create", "--name", name, "--label", label, defaultOf(binary), "true")
			t.Cleanup(func() { do(t, binary, "rm", "--force", machine) })
			do(t, binary, "network", "create", "--label", label, name)
			t.Cleanup(func() { do(t, binary, "network", "rm", name) })
			return []string{machine, name}
		},
		States: func() []providertest.StateCase {
			return []providertest.StateCase{
				{Vendor: "running", Set: func(string) {}, Want: driver.InstanceRunning},
				{Vendor: "paused", Set: func(id string) { pause(t, binary, id) }, Want: driver.InstanceStopped},
				{Vendor: "killed", Set: func(id string) { do(t, binary, "kill", id) }, Want: driver.InstanceTerminated},
			}
		},
		Without: map[string]string{
			"Funds": "containers are free", "Allow": "an engine has no quotas",
			"offers name their country": "an engine does not know where it is",
			"Fault":                     noAPI, "Calls": noAPI, "PagedOffers": noAPI, "Metered": "nothing is billed",
			"MissingKey": noKeys, "WrongKey": noKeys, "Secrets": noKeys,
			"Stall":                               "Launch returns when a node runs",
			"Room":                                "an engine takes as many as one likes",
			"Unpriced":                            "containers are free",
			"states that the table does not have": "an engine cannot be brought into one: TestStates",
		},
	}
}
