package clustertest

import (
	"crypto/rand"
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"github.com/gputrain/gputrain/providers/driver"
	"github.com/gputrain/gputrain/providers/providertest"
)

// The conformance suite on a real cluster. The things of each check have a label of their own.
func TestConformance(t *testing.T) {
	c := start(t)
	providertest.RunParallel(t, func(t *testing.T) providertest.Harness { return c.harness(t) })
}

func (c *cluster) harness(t *testing.T) providertest.Harness {
	mark := strings.ToLower(rand.Text()[:12])
	p := c.provider()
	p.Labels = map[string]string{"providertest": mark}
	const (
		faults = "the API server is real: providers/kubernetes has the faults on a fake"
		ends   = "the cluster decides them: the other tests of this package bring them about"
		keys   = "the credential is a file of the cluster's"
	)
	return providertest.Harness{
		Provider: p,
		Account: func() (all []driver.Resource) {
			for _, name := range strings.Fields(c.must(t, "-n", namespace, "get", "jobs", "-l", "providertest="+mark, "-o", "jsonpath={.items[*].metadata.name}")) {
				all = append(all, driver.Resource{Kind: "machine", ID: name, Name: name})
			}
			return all
		},
		Live: func() int {
			return len(strings.Fields(c.must(t, "-n", namespace, "get", "pods", "-l", "providertest="+mark, "--field-selector=status.phase!=Succeeded,status.phase!=Failed", "-o", "name")))
		},
		Tags: func(id string) (labels map[string]string) {
			if err := json.Unmarshal([]byte(c.must(t, "-n", namespace, "get", "job", id, "-o", "jsonpath={.metadata.labels}")), &labels); err != nil {
				t.Error(err)
			}
			return labels
		},
		Foreign: func() []string {
			name := "foreign-" + mark
			c.apply(t, fmt.Sprintf(`{apiVersion: batch/v1, kind: Job, metadata: {name: %s, namespace: %s, labels: {providertest: %s}}, spec: {suspend: true, template: {spec: {restartPolicy: Never, containers: [{name: main, image: none}]}}}}`, name, namespace, mark))
			c.remove(t, "-n", namespace, "job", name)
			return []string{name}
		},
		Without: map[string]string{
			"Fault": faults, "Calls": faults, "PagedOffers": faults, "Metered": "a cluster bills nothing", "States": ends, "Stall": ends, "Room": ends,
			"MissingKey": keys, "WrongKey": keys, "Secrets": keys,
			"Funds": "a cluster has no money", "Allow": "no API tells it", "Unpriced": "the API has no prices",
			"offers name their country": "a cluster does not say in which country its machines are",
		},
	}
}
