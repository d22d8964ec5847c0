package kubernetes

import (
	"slices"
	"strings"
	"testing"

	"github.com/gputrain/gputrain/internal/test/fakecloud"
	"github.com/gputrain/gputrain/providers/driver"
	"github.com/gputrain/gputrain/providers/internal/cloudtest"
)

// role.yaml grants what the driver asks for at Open. That it grants enough for the rest, the fake
// proves in every other test: it refuses what the role lacks.
func TestRoleGrantsWhatIsNeeded(t *testing.T) {
	t.Parallel()
	rules := roleRules(t)
	for _, c := range []Config{{}, {Reach: ReachForward}, {Reach: ReachDirect}} {
		for _, r := range c.needs() {
			if !slices.ContainsFunc(rules, func(u rule) bool { return u.grants(r) }) {
				t.Errorf("role.yaml does not grant: %s", r)
			}
		}
	}
	for _, u := range rules {
		for _, all := range [][]string{u.Verbs, u.Resources, u.APIGroups} {
			if slices.Contains(all, "*") {
				t.Errorf("role.yaml grants everything in %+v", u)
			}
		}
		if slices.Contains(u.Resources, "secrets") && !slices.Equal(u.Verbs, []string{"create"}) {
			t.Errorf("role.yaml lets Secrets be read: %+v", u)
		}
	}
}

// Open names each right that is missing.
func TestMissingRights(t *testing.T) {
	t.Parallel()
	for resource, r := range map[string]right{
		"jobs": {"batch", "jobs", "patch"}, "secrets": {"", "secrets", "create"}, "pods/portforward": {"", "pods/portforward", "create"},
	} {
		f := startFake(t)
		f.without(r.verb, resource)
		_, err := f.config().Open(t.Context())
		cloudtest.Is(t, err, driver.ErrAuth, providerName, "open", testToken)
		if err == nil || !strings.Contains(err.Error(), r.String()) || !strings.Contains(err.Error(), "role.yaml") {
			t.Errorf("without %s: %v", r, err)
		}
	}
	f := startFake(t)
	c := f.config()
	c.Reach = ReachExec
	if _, err := c.Open(t.Context()); err == nil || !strings.Contains(err.Error(), "create pods/exec") {
		t.Errorf("Reach exec without its right: %v", err)
	}
}

// An authorizer that cannot list its rules, and one that refuses the question, do not keep Open from
// working.
func TestRightsThatCannotBeListed(t *testing.T) {
	t.Parallel()
	for _, a := range []fakecloud.Answer{
		forbidden(right{"authorization.k8s.io", "selfsubjectrulesreviews", "create"}),
		fakecloud.Reply(201, map[string]any{"kind": "SelfSubjectRulesReview", "status": map[string]any{"incomplete": true}}),
	} {
		f := startFake(t)
		f.Inject(fakecloud.Fault{Op: opRules, Answer: a})
		cloudtest.Open(t, f.config())
	}
}

// Less is known, and ends are slower, without the other rights. Nothing else fails.
func TestLessRights(t *testing.T) {
	t.Parallel()
	f := startFake(t)
	f.without("delete", "pods")
	f.without("list", "events")
	f.without("list", "nodes")
	c := f.config()
	c.Shapes = []Shape{{GPU: "A100", Count: 2}}
	d, in := launched(t, f, c)
	f.Do(func() { f.quota = 1 })
	if now := cloudtest.Describe(t, d, in.ID); now.State != driver.InstanceRunning {
		t.Errorf("%v, %q", now.State, now.StateReason)
	}
	second := cloudtest.MustLaunch(t, d, oneA100.Query(), 1)
	if now := cloudtest.Describe(t, d, second.ID); now.State != driver.InstancePending || now.StateReason != "has no pod yet" {
		t.Errorf("%v, %q", now.State, now.StateReason)
	}
	if err := d.Terminate(t.Context(), in.ID, second.ID); err != nil {
		t.Error(err)
	}
	if left := f.account(); len(left) > 0 {
		t.Errorf("%v is left", left)
	}
}

func TestGrants(t *testing.T) {
	t.Parallel()
	r := right{"", "pods/exec", "create"}
	for _, tt := range []struct {
		rule rule
		want bool
	}{
		{rule{Verbs: []string{"*"}, APIGroups: []string{"*"}, Resources: []string{"*"}}, true},
		{rule{Verbs: []string{"create"}, APIGroups: []string{""}, Resources: []string{"*/exec"}}, true},
		{rule{Verbs: []string{"create"}, APIGroups: []string{""}, Resources: []string{"pods"}}, false},
		{rule{Verbs: []string{"get"}, APIGroups: []string{""}, Resources: []string{"pods/exec"}}, false},
		{rule{Verbs: []string{"create"}, APIGroups: []string{"apps"}, Resources: []string{"pods/exec"}}, false},
		{rule{Verbs: []string{"create"}, APIGroups: []string{""}, Resources: []string{"pods/exec"}, ResourceNames: []string{"one"}}, false},
	} {
		if got := tt.rule.grants(r); got != tt.want {
			t.Errorf("%+v: %v", tt.rule, got)
		}
	}
}
