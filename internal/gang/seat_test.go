package gang

import (
	"strings"
	"testing"
)

// A node that another gang has had between two attempts gets its rank again, also if a new one has been given it meanwhile.
func TestSeats(t *testing.T) {
	nodes := map[string]Node{}
	named := func(names string) (all []Node) {
		for _, name := range strings.Fields(names) {
			if name == "-" {
				all = append(all, nil)
				continue
			}
			if nodes[name] == nil {
				nodes[name] = &testNode{name: name}
			}
			all = append(all, nodes[name])
		}
		return all
	}
	for name, tt := range map[string]struct{ last, has, all, want string }{
		"new ones":               {"", "- - -", "a b c", "a b c"},
		"one is lost":            {"a b c", "a - c", "a c d", "a d c"},
		"one comes back":         {"a b c", "- - -", "x y c", "x y c"},
		"another has its rank":   {"a b c", "x - -", "x a c", "a x c"},
		"two come back at once":  {"a b c", "- b -", "c b a", "a b c"},
		"too few":                {"a b c", "- - -", "c", "- - c"},
		"more than there is use": {"a b", "a -", "a b x", "a b"},
	} {
		g := &gang{fresh: map[Node]bool{}, nodes: named(tt.has), last: named(tt.last)}
		before := named(tt.has)
		g.seat(named(tt.all))
		var got []string
		for rank, n := range g.nodes {
			if n == nil {
				got = append(got, "-")
				continue
			}
			got = append(got, n.Name())
			if moved := before[rank] != n; moved != g.fresh[n] {
				t.Errorf("%s: %s is fresh: %v", name, n.Name(), g.fresh[n])
			}
		}
		if strings.Join(got, " ") != tt.want {
			t.Errorf("%s: got %v, want %s", name, got, tt.want)
		}
	}
}
