package preflight

import (
	"context"
	"errors"
	"fmt"
	"io"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/gputrain/gputrain/providers/driver"
)

// A recorded node prints a text, after a time.
type recorded struct {
	text  string
	after time.Duration
	err   error
}

func (r recorded) ExecMoving(ctx context.Context, _ string, _ io.Reader, stdout, _ io.Writer) error {
	select {
	case <-time.After(r.after):
	case <-ctx.Done():
		return ctx.Err()
	}
	io.WriteString(stdout, r.text)
	return r.err
}

// answer is what a node prints, with changed sections.
func answer(changes ...string) string {
	s := []string{"clock", fmt.Sprintf("%d.%09d", time.Now().Unix(), time.Now().Nanosecond()), "limits", "memlock unlimited\nfiles 65536", "shm", df1(8 << 20), "disk", df1(100 << 20),
		"ip", "1: lo    inet 127.0.0.1/8 scope host lo\n2: eth0    inet 10.0.0.4/24 brd 10.0.0.255 scope global eth0", "nvidia", "550.54.15, NVIDIA H100 80GB HBM3\n550.54.15, NVIDIA H100 80GB HBM3", "end", ""}
	for i := 0; i < len(changes); i += 2 {
		done := false
		for j := 0; j < len(s); j += 2 {
			if s[j] == changes[i] {
				s[j+1], done = changes[i+1], true
			}
		}
		if !done {
			s = append([]string{changes[i], changes[i+1]}, s...)
		}
	}
	var b strings.Builder
	for i := 0; i < len(s); i += 2 {
		fmt.Fprintf(&b, "@%s\n%s\n", s[i], s[i+1])
	}
	return b.String()
}

func df1(kib int) string {
	return fmt.Sprintf("Filesystem 1024-blocks Used Available Capacity Mounted on\ntmpfs %d 0 %d 0%% /dev/shm", kib, kib)
}

// Each thing that a node tells is judged. What it does not tell is not held against it, but for accelerators that others have.
func TestProblems(t *testing.T) {
	type problem struct {
		severity Severity
		kind     error
		says     string
	}
	healthy := func(context.Context) ([]Device, error) {
		return []Device{{Name: "0", UsedMiB: 3}, {Name: "1", UsedMiB: 3}}, nil
	}
	devices := func(d Device) func(context.Context) ([]Device, error) {
		return func(context.Context) ([]Device, error) { return []Device{{Name: "0"}, d}, nil }
	}
	for name, tt := range map[string]struct {
		answer  []string // changes of the second node
		node    func(*Node)
		options Options
		want    []problem
	}{
		"healthy":                  {options: Options{Processes: 2, Accelerators: 2}},
		"nothing is told":          {answer: []string{"limits", "", "shm", "", "disk", "", "ip", "", "nvidia", ""}, options: Options{Processes: 2}, want: []problem{{Refuse, driver.ErrUnsupported, "node 11 has 0 accelerators; node 10 has 2"}, {Note, nil, "no interface with its address 10.0.0.4"}}},
		"small shm":                {answer: []string{"shm", df1(64 << 10)}, options: Options{Processes: 2}, want: []problem{{Note, nil, "node 11 has 64 MiB of /dev/shm for 2 processes"}}},
		"small shm, one process":   {answer: []string{"shm", df1(64 << 10)}, options: Options{Processes: 1}},
		"full disk":                {answer: []string{"disk", df1(1 << 10)}, want: []problem{{Note, nil, "has 1 MiB of free disk"}}},
		"few files":                {answer: []string{"limits", "memlock 64\nfiles 256"}, want: []problem{{Note, nil, "may open 256 files"}}},
		"another device":           {answer: []string{"nvidia", "550.54.15, NVIDIA A100\n550.54.15, NVIDIA A100"}, want: []problem{{Refuse, driver.ErrUnsupported, "node 11 has the accelerator NVIDIA A100; node 10 has NVIDIA H100 80GB HBM3"}}},
		"another count":            {answer: []string{"nvidia", "550.54.15, NVIDIA H100 80GB HBM3"}, want: []problem{{Refuse, driver.ErrUnsupported, "node 11 has 1 accelerators; node 10 has 2"}}},
		"fewer than wanted":        {answer: []string{"nvidia", "550.54.15, NVIDIA H100 80GB HBM3"}, options: Options{Accelerators: 2}, want: []problem{{Replace, driver.ErrAccelerator, "node 11 has 1 accelerators; it had, or was to have, 2"}}},
		"another driver":           {answer: []string{"nvidia", "560.1, NVIDIA H100 80GB HBM3\n560.1, NVIDIA H100 80GB HBM3"}, want: []problem{{Note, driver.ErrUnsupported, "has the driver 560.1; node 10 has 550.54.15"}}},
		"clock":                    {answer: []string{"clock", fmt.Sprint(time.Now().Add(time.Hour).Unix()) + ".%N"}, want: []problem{{Note, nil, "has a clock that is off by "}}},
		"no clock":                 {answer: []string{"clock", "?"}, want: []problem{{Note, errNoClock, "does not tell its time"}}},
		"InfiniBand down":          {answer: []string{"ib", "/sys/class/infiniband/mlx5_0/ports/1/state 1: DOWN"}, want: []problem{{Note, driver.ErrUnavailable, `the InfiniBand port mlx5_0/1 in the state "1: DOWN"`}}},
		"InfiniBand without limit": {answer: []string{"ib", "/sys/class/infiniband/mlx5_0/ports/1/state 4: ACTIVE"}, want: []problem{{Replace, driver.ErrUnavailable, "node 10 has no active port of InfiniBand, and other nodes have one"}}},
		"InfiniBand is not used":   {answer: []string{"ib", "/sys/class/infiniband/mlx5_0/ports/1/state 4: ACTIVE", "limits", "memlock 64\nfiles 65536"}, options: Options{NoInfiniBand: true}},
		"memlock": {answer: []string{"ib", "/sys/class/infiniband/mlx5_0/ports/1/state 4: ACTIVE", "limits", "memlock 64\nfiles 65536"}, want: []problem{
			{Replace, driver.ErrUnavailable, "node 10 has no active port"}, {Note, nil, "node 11 may lock 64 KiB of memory"},
		}},
		"no address":      {node: func(n *Node) { n.Addr = "" }, want: []problem{{Refuse, driver.ErrUnsupported, "node 11 has no private address"}}},
		"another network": {node: func(n *Node) { n.Network = "acme in here" }, want: []problem{{Refuse, driver.ErrUnsupported, "node 11 at 10.0.0.4 is in the network of acme in here; node 10 at 10.0.0.4 is in that of acme"}}},
		"does not answer": {node: func(n *Node) { n.Commands = recorded{after: time.Hour} }, want: []problem{{Replace, driver.ErrUnavailable, "node 11 does not answer the checks: it was starting a shell after 25s"}}},
		"stops to answer": {node: func(n *Node) { n.Commands = recorded{text: "@clock\n1\n@nvidia\n", err: errors.New("cut")} }, want: []problem{{Replace, driver.ErrUnavailable, "it was looking at its nvidia"}}},
		"memory in use":   {node: func(n *Node) { n.Sample = devices(Device{Name: "1", UsedMiB: 30000}) }, want: []problem{{Replace, driver.ErrAccelerator, "node 11 has accelerator 1, of whose memory 30000 MiB are in use"}}},
		"memory errors":   {node: func(n *Node) { n.Sample = devices(Device{Name: "1", Uncorrected: 2}) }, want: []problem{{Replace, driver.ErrAccelerator, "had 2 uncorrected errors"}}},
		"remap pending":   {node: func(n *Node) { n.Sample = devices(Device{Name: "1", RemapPending: true}) }, want: []problem{{Replace, driver.ErrAccelerator, "needs a reset"}}},
		"remap failed":    {node: func(n *Node) { n.Sample = devices(Device{Name: "1", RemapFailed: true}) }, want: []problem{{Replace, driver.ErrAccelerator, "could not be remapped"}}},
		"a device is lost": {node: func(n *Node) { n.Sample = func(context.Context) ([]Device, error) { return make([]Device, 1), nil } }, options: Options{Accelerators: 2}, want: []problem{
			{Replace, driver.ErrAccelerator, "node 11 reports 1 accelerators; it had, or was to have, 2"},
		}},
		"no sample": {node: func(n *Node) { n.Sample = func(context.Context) ([]Device, error) { return nil, io.EOF } }, want: []problem{{Note, io.EOF, "state of its accelerators, which is unknown"}}},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				nodes := []Node{{Rank: 10, Addr: "10.0.0.4", Network: "acme", Commands: recorded{text: answer()}, Sample: healthy}, {Rank: 11, Addr: "10.0.0.4", Network: "acme", Commands: recorded{text: answer(tt.answer...)}, Sample: healthy}}
				if tt.node != nil {
					tt.node(&nodes[1])
				}
				begun := time.Now()
				_, problems := Check(t.Context(), nodes, tt.options)
				if took := time.Since(begun); took > bound {
					t.Errorf("it took %v", took)
				}
				var got []Problem
				for _, p := range problems { // a recorded node cannot listen
					if !strings.Contains(p.Err.Error(), "was not checked: it does not listen") {
						got = append(got, p)
					}
				}
				if len(got) != len(tt.want) {
					t.Fatalf("%v; want %v", got, tt.want)
				}
				for i, want := range tt.want {
					if p := got[i]; p.Severity != want.severity || want.kind != nil && !errors.Is(p.Err, want.kind) || !strings.Contains(p.Err.Error(), want.says) {
						t.Errorf("%v: %v; want %v", p.Severity, p.Err, want)
					}
				}
			})
		})
	}
}

// One node alone needs no address, and nothing dials it.
func TestOneNode(t *testing.T) {
	facts, problems := Check(t.Context(), []Node{{Commands: recorded{text: answer()}}}, Options{Port: 29500})
	if len(problems) > 0 || len(facts) != 1 || facts[0].Interfaces != 1 || facts[0].Driver != "550.54.15" || len(facts[0].Accelerators) != 2 || facts[0].Memlock != -1 {
		t.Errorf("%+v, %v", facts, problems)
	}
}

// A node's interface is that which holds its address, by whatever the node has.
func TestInterface(t *testing.T) {
	ip := "1: lo    inet 127.0.0.1/8 scope host lo\\       valid_lft forever\n2: eth0@if7    inet 10.0.0.4/24 brd 10.0.0.255 scope global eth0\n3: docker0    inet 172.17.0.1/16 scope global docker0\n2: eth0@if7    inet6 fd00::4/64 scope global"
	newer := "docker0: flags=4163<UP>  mtu 1500\n        inet 172.17.0.1  netmask 255.255.0.0\n\neth0: flags=4163<UP>  mtu 1500\n        inet 10.0.0.4  netmask 255.255.255.0\n        inet6 fd00::4  prefixlen 64\n\nlo: flags=73<UP,LOOPBACK>\n        inet 127.0.0.1  netmask 255.0.0.0"
	older := "docker0   Link encap:Ethernet\n          inet addr:172.17.0.1  Bcast:172.17.255.255  Mask:255.255.0.0\n\neth0      Link encap:Ethernet\n          inet addr:10.0.0.4  Bcast:10.0.0.255\n          inet6 addr: fd00::4/64 Scope:Global\n\nlo        Link encap:Local Loopback\n          inet addr:127.0.0.1  Mask:255.0.0.0"
	route := "Iface\tDestination\tGateway \tFlags\tRefCnt\tUse\tMetric\tMask\t\tMTU\tWindow\tIRTT\neth0\t00000000\t0100000A\t0003\t0\t0\t0\t00000000\t0\t0\t0\neth0\t0000000A\t00000000\t0001\t0\t0\t0\t00FFFFFF\t0\t0\t0\ndocker0\t000011AC\t00000000\t0001\t0\t0\t0\t0000FFFF\t0\t0\t0\n"
	trie := "Main:\n  +-- 0.0.0.0/0 3 0 5\n     |-- 10.0.0.4\n        /32 host LOCAL\n     |-- 10.0.0.255\n        /32 link BROADCAST\n     |-- 127.0.0.1\n        /32 host LOCAL\n     |-- 172.17.0.1\n        /32 host LOCAL\n"
	inet6 := "fd000000000000000000000000000004 02 40 00 80     eth0\n00000000000000000000000000000001 01 80 10 80       lo"
	for name, changes := range map[string][]string{
		"ip":             {"ip", ip},
		"ifconfig":       {"ip", "", "ifconfig", newer},
		"older ifconfig": {"ip", "", "ifconfig", older},
		"/proc":          {"ip", "", "route", route, "trie", trie, "inet6", inet6},
	} {
		for addr, want := range map[string]string{"10.0.0.4": "eth0", "172.17.0.1": "docker0", "127.0.0.1": "lo", "fd00::4": "eth0", "10.0.0.5": "", "gpu1.lab": ""} {
			f := parse(answer(changes...), addr, time.Now(), time.Now())
			if f.Interface != want || f.Interfaces != 2 {
				t.Errorf("%s: %s is held by %q, of %d interfaces; want %q", name, addr, f.Interface, f.Interfaces, want)
			}
		}
	}
}

// Of a gang of many, each node dials the first and the next one, and the first dials all. All pairs are joined by a path.
func TestPeers(t *testing.T) {
	for _, n := range []int{2, 8, 9, 64} {
		dials := 0
		for i := range n {
			dials += len(peers(i, n))
			for _, j := range peers(i, n) {
				if i == j {
					t.Errorf("%d of %d dials itself", i, n)
				}
			}
		}
		want := n * (n - 1)
		if n > allPairs {
			want = 3*(n-1) - 1 // the star in both directions, and the ring, which has two of the star's
		}
		if dials != want {
			t.Errorf("%d nodes: %d dials; want %d", n, dials, want)
		}
	}
}

// A failure between two of many nodes is one of the gang: neither is known to be the cause.
func TestBlame(t *testing.T) {
	c := &check{nodes: []Node{{Rank: 0}, {Rank: 1}, {Rank: 2}}}
	at := func(from, to int) pair { return pair{from, target{peer: to, host: "10.0.0.9", port: 1}, "timed out"} }
	c.blame([]pair{at(0, 1)}, map[int]int{0: 4, 1: 4, 2: 4})
	if len(c.problems) != 1 || c.problems[0].Severity != Refuse || c.problems[0].Node != 0 || c.problems[0].Peer != 1 {
		t.Errorf("%+v", c.problems)
	}
	c.problems = nil
	c.blame([]pair{at(0, 1), at(1, 0), at(1, 2), at(2, 1)}, map[int]int{0: 4, 1: 4, 2: 4})
	for _, p := range c.problems {
		if p.Severity != Replace || p.Node != 1 || p.Peer == 1 {
			t.Errorf("%+v", p)
		}
	}
}
