package kubernetes

import (
	"encoding/json"
	"fmt"
	"slices"
	"strconv"
)

// A term is one term of a node selector: all of its expressions hold.
type term struct {
	MatchExpressions []expression      `json:"matchExpressions,omitempty"`
	MatchFields      []json.RawMessage `json:"matchFields,omitempty"`
}

type expression struct {
	Key      string   `json:"key"`
	Operator string   `json:"operator"`
	Values   []string `json:"values,omitempty"`
}

// fits reports whether a cluster node's labels satisfy an expression, as the scheduler compares them.
func (e expression) fits(labels map[string]string) bool {
	value, has := labels[e.Key]
	switch e.Operator {
	case "In":
		return has && slices.Contains(e.Values, value)
	case "NotIn":
		return !slices.Contains(e.Values, value) || !has
	case "Exists":
		return has
	case "DoesNotExist":
		return !has
	case "Gt", "Lt":
		have, err := strconv.ParseInt(value, 10, 64)
		if err != nil || len(e.Values) != 1 {
			return false
		}
		limit, err := strconv.ParseInt(e.Values[0], 10, 64)
		return err == nil && (e.Operator == "Gt" && have > limit || e.Operator == "Lt" && have < limit)
	}
	return false
}

func (t term) fits(labels map[string]string) bool {
	return !slices.ContainsFunc(t.MatchExpressions, func(e expression) bool { return !e.fits(labels) })
}

// An affinity is a pod's, of which the driver reads only the required node affinity.
type affinity struct {
	all   map[string]json.RawMessage // of the pod
	node  map[string]json.RawMessage // of the node affinity
	terms []term
}

const requiredTerms = "requiredDuringSchedulingIgnoredDuringExecution"

// parseAffinity reads Config.Affinity.
func parseAffinity(text json.RawMessage) (a affinity, err error) {
	a.all, a.node = map[string]json.RawMessage{}, map[string]json.RawMessage{}
	if len(text) == 0 {
		return a, nil
	}
	if err := json.Unmarshal(text, &a.all); err != nil || a.all == nil {
		return a, fmt.Errorf("it is not the JSON of an affinity: %v", err)
	}
	for key := range a.all {
		if !slices.Contains([]string{"nodeAffinity", "podAffinity", "podAntiAffinity"}, key) {
			return a, fmt.Errorf("it has %q, and no affinity has that", key)
		}
	}
	if a.all["nodeAffinity"] == nil {
		return a, nil
	}
	if err := json.Unmarshal(a.all["nodeAffinity"], &a.node); err != nil || a.node == nil {
		return a, fmt.Errorf("its nodeAffinity is no object: %v", err)
	}
	if a.node[requiredTerms] == nil {
		return a, nil
	}
	var required struct{ NodeSelectorTerms []term }
	if err := json.Unmarshal(a.node[requiredTerms], &required); err != nil {
		return a, fmt.Errorf("its %s cannot be read: %v", requiredTerms, err)
	}
	a.terms = required.NodeSelectorTerms
	return a, nil
}

// fits reports whether the user's own terms allow a cluster node.
func (a affinity) fits(labels map[string]string) bool {
	return len(a.terms) == 0 || slices.ContainsFunc(a.terms, func(t term) bool { return t.fits(labels) })
}

// affinity returns the user's affinity, with the place of an offer. Each of the place's terms is
// combined with each of the user's, since one term of a list is enough.
func (c Config) affinity(at place) (json.RawMessage, error) {
	a, err := parseAffinity(c.Affinity)
	if err != nil {
		return nil, err
	}
	terms := at.terms
	if len(a.terms) > 0 {
		terms = nil
		for _, own := range a.terms {
			for _, ours := range slices.Concat(at.terms, make([]term, max(0, 1-len(at.terms)))) {
				terms = append(terms, term{slices.Concat(own.MatchExpressions, ours.MatchExpressions), own.MatchFields})
			}
		}
	}
	if len(terms) > 0 {
		if a.node[requiredTerms], err = json.Marshal(map[string]any{"nodeSelectorTerms": terms}); err != nil {
			return nil, err
		}
		if a.all["nodeAffinity"], err = json.Marshal(a.node); err != nil {
			return nil, err
		}
	}
	if len(a.all) == 0 {
		return nil, nil
	}
	return json.Marshal(a.all)
}
