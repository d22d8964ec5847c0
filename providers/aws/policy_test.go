package aws

import (
	"encoding/json"
	"maps"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/gputrain/gputrain/providers/driver"
	"github.com/gputrain/gputrain/providers/internal/cloudtest"
)

// The documented policy allows all that the driver calls, and nothing else except the
// role that spot and fleets need once per account.
func TestPolicy(t *testing.T) {
	t.Parallel()
	f := startFake(t)
	d := prepared(t, f)
	spec := a10g
	spec.Allocation = driver.CheapestAllocation
	o := cloudtest.Offers(t, d, spec.Query())[1]
	got := mustLaunch(t, d, request(a10g, o, 1))
	f.Do(func() {
		f.noFleets = true
		f.volumes.Put(nil, "vol-00000001", row{"VolumeId": "vol-00000001", "Size": 1, "Tags": []tagRow{{tagPool, "p1"}, {tagManaged, "true"}}})
	})
	req := request(a10g, o, 2)
	req.Nodes, req.Token = req.Nodes[1:], "other"
	got = append(got, mustLaunch(t, d, req)...)
	for _, in := range got {
		if err := d.MarkLease(t.Context(), cloudtest.Info("p1"), time.Now(), in.ID); err != nil {
			t.Error(err)
		}
		cloudtest.Describe(t, d, in.ID)
		if err := d.Terminate(t.Context(), in.ID); err != nil {
			t.Error(err)
		}
	}
	if _, err := d.List(t.Context(), ""); err != nil {
		t.Error(err)
	}
	if err := d.Release(t.Context(), cloudtest.Info("p1")); err != nil {
		t.Error(err)
	}
	called := map[string]bool{"iam:CreateServiceLinkedRole": true}
	for _, r := range f.Records() {
		switch target := r.Header.Get("X-Amz-Target"); {
		case target != "":
			called[map[string]string{"AmazonSSM.GetParameter": "ssm:GetParameter", "AWSPriceListService.GetProducts": "pricing:GetProducts"}[target]] = true
		case strings.Contains(r.Body, "GetCallerIdentity"): // which needs no permission
		default:
			called["ec2:"+r.Op] = true
		}
	}
	allowed := documentedPolicy(t)
	for _, action := range slices.Sorted(maps.Keys(called)) {
		if !allowed[action] {
			t.Errorf("the policy lacks %s", action)
		}
	}
	for _, action := range slices.Sorted(maps.Keys(allowed)) {
		if !called[action] {
			t.Errorf("the policy has %s, which nothing calls", action)
		}
	}
}

// documentedPolicy returns the actions of the policy in doc.go.
func documentedPolicy(t *testing.T) map[string]bool {
	t.Helper()
	text, err := os.ReadFile("doc.go")
	if err != nil {
		t.Fatal(err)
	}
	var lines []string
	for line := range strings.Lines(string(text)) {
		if code, ok := strings.CutPrefix(line, "//\t"); ok && (len(lines) > 0 || strings.HasPrefix(code, `{"Version"`)) {
			lines = append(lines, code)
		} else if len(lines) > 0 {
			break
		}
	}
	var policy struct {
		Version   string
		Statement []struct {
			Effect    string
			Action    any // one, or a list
			Resource  string
			Condition map[string]map[string]any
		}
	}
	if err := json.Unmarshal([]byte(strings.Join(lines, "")), &policy); err != nil {
		t.Fatalf("%v: %s", err, lines)
	}
	all := map[string]bool{}
	for _, s := range policy.Statement {
		switch action := s.Action.(type) {
		case string:
			all[action] = true
		case []any:
			for _, a := range action {
				all[a.(string)] = true
			}
		}
	}
	return all
}
