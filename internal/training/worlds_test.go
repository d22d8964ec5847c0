package training

import (
	"maps"
	"testing"
)

func TestOtherWorlds(t *testing.T) {
	for list, want := range map[string]map[string]int{
		"":                 {},
		"12 3\n13 3\n":     {},
		"12 3\n13 1\n14 1": {"13": 1, "14": 1},
		"13 6\n":           {"13": 6},
		"x 1\n13\n14 many\n15 0\n16 -1\n17 99999999999999\n 18 2 3\n": {}, // a node's answer may be anything
	} {
		if got := otherWorlds(list, 3); !maps.Equal(got, want) {
			t.Errorf("%q: %v, want %v", list, got, want)
		}
	}
}
