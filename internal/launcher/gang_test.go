package launcher

import (
	"encoding/json"
	"fmt"
	"maps"
	"os"
	"slices"
	"strings"
	"testing"
)

var twoByTwo = Gang{
	Training: "llm", Attempt: 3, Port: 29502, Processes: 2,
	Addrs: []string{"10.0.0.4", "10.0.0.5"}, Interfaces: []string{"", "eth1"},
}

// TestEnv compares the variables of each launcher with testdata.
func TestEnv(t *testing.T) {
	for _, tt := range []struct {
		name        string
		launcher    Launcher
		node, local int
	}{{"processes", Processes, 1, 1}, {"torchrun", Torchrun, 1, 0}, {"mpi", MPI, 0, 0}} {
		t.Run(tt.name, func(t *testing.T) {
			env := twoByTwo.Env(tt.launcher, tt.node, tt.local)
			var got strings.Builder
			for _, name := range slices.Sorted(maps.Keys(env)) {
				fmt.Fprintf(&got, "%s=%s\n", name, env[name])
			}
			golden(t, "testdata/"+tt.name+".env", got.String())
		})
	}
}

// golden compares a text with a file, which it writes if GPUTRAIN_GOLDEN is set.
func golden(t *testing.T, file, got string) {
	t.Helper()
	if os.Getenv("GPUTRAIN_GOLDEN") != "" {
		if err := os.WriteFile(file, []byte(got), 0o666); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	if got != string(want) {
		t.Errorf("got\n%s\nwant\n%s", got, want)
	}
}

func TestRanksAreDistinct(t *testing.T) {
	g := Gang{Training: "a", Attempt: 1, Port: 29500, Processes: 3, Addrs: []string{"10.0.0.1", "10.0.0.2"}}
	for rank := range g.World() {
		env := g.Env(Processes, rank/3, rank%3)
		if env["RANK"] != fmt.Sprint(rank) || env["JAX_PROCESS_ID"] != fmt.Sprint(rank) || env["LOCAL_RANK"] != fmt.Sprint(rank%3) {
			t.Errorf("rank %d has %v", rank, env)
		}
		var tf struct {
			Cluster struct{ Worker []string }
			Task    struct {
				Type  string
				Index int
			}
		}
		if err := json.Unmarshal([]byte(env["TF_CONFIG"]), &tf); err != nil {
			t.Fatal(err)
		}
		workers := slices.Compact(slices.Sorted(slices.Values(tf.Cluster.Worker)))
		if tf.Task.Type != "worker" || tf.Task.Index != rank || len(workers) != 6 || tf.Cluster.Worker[5] != "10.0.0.2:29502" {
			t.Errorf("TF_CONFIG of rank %d is %s", rank, env["TF_CONFIG"])
		}
	}
}

func TestManyProcessesHaveNoTeeForOldTorch(t *testing.T) {
	g := Gang{Training: "a", Attempt: 1, Processes: 10, Addrs: []string{"10.0.0.1"}}
	if v, set := g.Env(Torchrun, 0, 0)["PET_TEE"]; set {
		t.Errorf("PET_TEE=%s would redirect rank 9", v)
	}
}

func TestIPv6(t *testing.T) {
	g := Gang{Training: "a", Attempt: 1, Port: 29500, Processes: 1, Addrs: []string{"fd00::1", "fd00::2"}}
	env := g.Env(Processes, 0, 0)
	if env["MASTER_ADDR"] != "fd00::1" || env["JAX_COORDINATOR_ADDRESS"] != "[fd00::1]:29500" {
		t.Errorf("got %v", env)
	}
	if v, set := g.Env(MPI, 0, 0)["OMPI_MCA_btl_tcp_if_include"]; set {
		t.Errorf("Open MPI is told to use %q", v)
	}
}

func TestCommonNetwork(t *testing.T) {
	for _, tt := range []struct {
		addrs []string
		want  string
	}{
		{[]string{"10.0.0.4"}, "10.0.0.4/32"},
		{[]string{"10.0.0.4", "10.0.0.5"}, "10.0.0.4/31"},
		{[]string{"10.0.0.4", "10.0.0.5", "10.0.1.1"}, "10.0.0.0/23"},
		{[]string{"172.17.0.3", "172.17.0.2"}, "172.17.0.2/31"},
		{[]string{"10.0.0.4", "10.255.0.1"}, "10.0.0.0/8"},
		{[]string{"10.0.0.4", "192.168.0.1"}, ""},
		{[]string{"10.0.0.4", "fd00::2"}, ""},
		{[]string{"node-a"}, ""},
	} {
		if got := commonNetwork(tt.addrs); got != tt.want {
			t.Errorf("commonNetwork(%q) = %q, want %q", tt.addrs, got, tt.want)
		}
	}
}

func TestHostfile(t *testing.T) {
	if got, want := twoByTwo.Hostfile(), "10.0.0.4 slots=2\n10.0.0.5 slots=2\n"; got != want {
		t.Errorf("got %q, want %q", got, want)
	}
}
