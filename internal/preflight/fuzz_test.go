package preflight

import (
	"strings"
	"testing"
	"time"
)

// Whatever a node says of itself is read, and says no more than its text has.
func FuzzFacts(f *testing.F) {
	f.Add(answer(), "10.0.0.4")
	f.Add(answer("ib", "/sys/class/infiniband/mlx5_0/ports/1/state 4: ACTIVE", "nvidia", "", "amd", "AMD Instinct MI300X", "amdgpu", "6.8"), "::1")
	f.Add("@ifconfig\neth0: flags\n  inet addr:\n\tinet6\n@inet6\nfe80 1 2 3 4 eth0\n@route\neth0 0 0\n@disk\n\n@end\n", "x")
	f.Fuzz(func(t *testing.T, text, addr string) {
		now := time.Now()
		got := parse(text, addr, now, now.Add(time.Second))
		if len(got.Accelerators)+len(got.InfiniBand)+got.Interfaces > len(text) || got.Interface != "" && !strings.Contains(text, got.Interface) || len(got.Driver) > max(len(text), mostLine) {
			t.Errorf("%+v", got)
		}
		for _, facts := range [][]Facts{{got, {}}, {{}, got}, {got, got}} {
			c := &check{nodes: []Node{{}, {Rank: 1}}, answered: []bool{true, true}, facts: facts}
			c.accelerators()
			c.room()
			c.infiniBand()
			if len(c.problems) > 2*(10+mostInfiniBand) {
				t.Errorf("%d problems", len(c.problems))
			}
			for _, p := range c.problems {
				if len(p.Err.Error()) > 4*mostLine {
					t.Errorf("%.300s", p.Err)
				}
			}
		}
	})
}

// A listener has no more ports than it was asked for, and they are ports.
func FuzzListener(f *testing.F) {
	f.Add("port 0 40001\nport 0 40002\nport 0 40003\nready\n")
	f.Add("busy 29500 in use\nport 0 -1\nport 0 99999\nport 0 0\n")
	f.Fuzz(func(t *testing.T, text string) {
		var l listener
		l.read(strings.Split(text, "\n"), 2)
		if len(l.ports)+len(l.busy) > 2 {
			t.Errorf("%+v", l)
		}
		for _, p := range l.ports {
			if p <= 0 || p >= 1<<16 {
				t.Errorf("port %d", p)
			}
		}
	})
}
