package kubernetes

import (
	"context"
	"fmt"
	"slices"

	"github.com/gputrain/gputrain/providers/driver"
)

// A place tells the scheduler which cluster nodes an offer means.
type place struct {
	cluster  *cluster
	selector map[string]string
	terms    []term
}

// remember keeps the place of an offer for its launch.
func (a *catalogue) remember(o driver.Offer, at place) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.places[offerKey{o.ID, o.Region}] = at
}

// placeOf returns the place of an offer. An offer of another driver is looked for anew.
func (a *catalogue) placeOf(ctx context.Context, o driver.Offer, q driver.Query) (place, error) {
	for range 2 {
		a.mu.Lock()
		at, ok := a.places[offerKey{o.ID, o.Region}]
		a.mu.Unlock()
		if ok {
			return at, nil
		}
		for _, err := range a.all(ctx, q) {
			if err != nil {
				return place{}, err
			}
		}
	}
	return place{}, &driver.Error{Kind: driver.ErrNotFound, Err: fmt.Errorf("the cluster has no machines like %s any more", o.ID)}
}

// placeOf returns the place of a shape: all values of labels that mean the same GPU, never the name
// of a cluster node, as another one may have room by then.
func placeOf(k *cluster, s shape, n int, group, all []seenHost) place {
	var common []expression
	add := func(key, value string) {
		if value != "" {
			common = append(common, expression{key, "In", []string{value}})
		}
	}
	add("node.kubernetes.io/instance-type", s.kind)
	add("topology.kubernetes.io/region", s.region)
	add("kubernetes.io/arch", s.arch)
	for _, h := range all { // on demand means not on spot
		if !s.spot && h.spot {
			common = append(common, expression{h.spotTerm.Key, "NotIn", h.spotTerm.Values})
		}
	}
	common = unique(common)
	var terms []term
	for _, h := range group {
		own := slices.Clone(common)
		if s.spot {
			own = append(own, h.spotTerm)
		}
		if n > 0 && h.value != "" {
			own = append(own, expression{h.label, "In", []string{h.value}})
		} else if n > 0 {
			own = append(own, expression{h.label, "DoesNotExist", nil})
		}
		if len(own) > 0 && !slices.ContainsFunc(terms, func(t term) bool { return equal(t.MatchExpressions, own) }) {
			terms = append(terms, term{MatchExpressions: own})
		}
	}
	return place{cluster: k, terms: terms}
}

func unique(all []expression) (once []expression) {
	for _, e := range all {
		if !slices.ContainsFunc(once, func(o expression) bool { return equal([]expression{o}, []expression{e}) }) {
			once = append(once, e)
		}
	}
	return once
}

func equal(a, b []expression) bool {
	return slices.EqualFunc(a, b, func(x, y expression) bool {
		return x.Key == y.Key && x.Operator == y.Operator && slices.Equal(x.Values, y.Values)
	})
}
