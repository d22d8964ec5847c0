package kubernetes

import (
	"context"
	"fmt"
	"net/http"
	"slices"
	"strings"

	"github.com/gputrain/gputrain/internal/rest"
	"github.com/gputrain/gputrain/providers/driver"
)

// A right is one that this program needs in the namespace: see role.yaml.
type right struct{ group, resource, verb string }

func (r right) String() string {
	if r.group != "" {
		return r.verb + " " + r.resource + "." + r.group
	}
	return r.verb + " " + r.resource
}

// needs returns the rights without which nothing works. Without the others of role.yaml less is
// known, and ends are slower.
func (c Config) needs() []right {
	all := []right{
		{"batch", "jobs", "create"}, {"batch", "jobs", "get"}, {"batch", "jobs", "list"}, {"batch", "jobs", "patch"}, {"batch", "jobs", "delete"},
		{"", "pods", "list"}, {"", "secrets", "create"},
	}
	switch c.Reach {
	case ReachAuto, ReachForward:
		all = append(all, right{"", "pods/portforward", "create"})
	case ReachExec:
		all = append(all, right{"", "pods/exec", "create"})
	}
	return all
}

// A rule grants verbs on resources, as a role does. "*" stands for all.
type rule struct{ Verbs, APIGroups, Resources, ResourceNames []string }

func (u rule) grants(r right) bool {
	has := func(all []string, one string) bool { return slices.Contains(all, one) || slices.Contains(all, "*") }
	_, sub, nested := strings.Cut(r.resource, "/")
	return len(u.ResourceNames) == 0 && has(u.Verbs, r.verb) && has(u.APIGroups, r.group) &&
		(has(u.Resources, r.resource) || nested && slices.Contains(u.Resources, "*/"+sub))
}

// checkRights asks the cluster for this user's rights in the namespace, and reports all that are
// missing. An authorizer that cannot list its rules decides nothing here.
func (k *cluster) checkRights(ctx context.Context, c Config) error {
	type review struct {
		APIVersion string `json:"apiVersion"`
		Kind       string `json:"kind"`
		Spec       struct {
			Namespace string `json:"namespace"`
		} `json:"spec"`
		Status struct {
			ResourceRules []rule
			Incomplete    bool
		} `json:"status,omitzero"`
	}
	in := review{APIVersion: "authorization.k8s.io/v1", Kind: "SelfSubjectRulesReview"}
	in.Spec.Namespace = k.namespace
	var out review
	err := k.rest.Do(ctx, http.MethodPost, "/apis/authorization.k8s.io/v1/selfsubjectrulesreviews", in, &out, rest.Safe)
	switch {
	case isRefused(err):
		return nil // the first call that needs a right says so
	case err != nil:
		return err
	case out.Kind != in.Kind:
		return odd("the review of rights is a %q", out.Kind)
	case out.Status.Incomplete:
		return nil
	}
	var missing []string
	for _, r := range c.needs() {
		if !slices.ContainsFunc(out.Status.ResourceRules, func(u rule) bool { return u.grants(r) }) {
			missing = append(missing, r.String())
		}
	}
	if len(missing) > 0 {
		return &driver.Error{Kind: driver.ErrAuth, Hint: roleHint,
			Err: fmt.Errorf("this user may not, in the namespace %s of %s: %s", k.namespace, k.name, strings.Join(missing, ", "))}
	}
	return nil
}
