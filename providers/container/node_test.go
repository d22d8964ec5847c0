package container

import (
	"fmt"
	"strings"
	"testing"

	"github.com/gputrain/gputrain"
	"github.com/gputrain/gputrain/providers/driver"
)

func TestNodes(t *testing.T) { onEngines(t, testNodes) }

func testNodes(t *testing.T, binary string) {
	r := newRig(t, Config{Binary: binary, ShmSizeGiB: 0.25, Labels: map[string]string{"team": "vision, and more"}, RunArgs: []string{"--env", "FROM_RUN=1"}})
	dir := t.TempDir()
	nodes := r.up(4, gputrain.Spec{VCPUs: 0.5, MemoryGiB: 0.25, Mounts: []driver.Mount{{Source: dir, Target: "/data, here", ReadOnly: true}}})
	if len(nodes) != 4 {
		t.Fatalf("%d nodes", len(nodes))
	}
	for rank, in := range nodes {
		if in.Rank != rank || in.State != driver.InstanceRunning || in.Name != fmt.Sprintf("%s-%d", r.pool.ID, rank) ||
			!loopback(in.SSH.Addr) || in.SSH.User != "root" || in.PrivateAddr == "" || len(in.SSH.HostKeys) != 1 {
			t.Errorf("node %d: %+v", rank, in)
		}
	}
	if price, known := nodes[0].Offer.HourlyUSD.USD(); price != 0 || !known {
		t.Error("a container has a price")
	}
	first, second := r.connect(nodes[0]), r.connect(nodes[1])

	t.Run("names", func(t *testing.T) {
		for _, name := range []string{"node-0", nodes[0].Name} {
			if got := r.sh(second, "getent hosts "+name); !strings.HasPrefix(got, nodes[0].PrivateAddr+" ") {
				t.Errorf("%s is %q on another node, not %s", name, got, nodes[0].PrivateAddr)
			}
		}
		if got := r.sh(first, "hostname"); got != nodes[0].Name {
			t.Errorf("the host name is %q", got)
		}
		// A port of one node can be reached from another by name.
		got := r.sh(second, "python3 -c 'import socket; print(socket.create_connection((\"node-0\", 22)).recv(4))'")
		if got != "b'SSH-'" {
			t.Errorf("node-0 answers %s", got)
		}
	})
	t.Run("limits", func(t *testing.T) {
		memory := r.sh(first, "cat /sys/fs/cgroup/memory.max 2>/dev/null || cat /sys/fs/cgroup/memory/memory.limit_in_bytes")
		if memory != "268435456" {
			t.Errorf("the memory limit is %s", memory)
		}
		cpu := r.sh(first, "cat /sys/fs/cgroup/cpu.max 2>/dev/null || cat /sys/fs/cgroup/cpu/cpu.cfs_quota_us")
		if !strings.HasPrefix(cpu, "50000") {
			t.Errorf("the CPU limit is %s", cpu)
		}
		if shm := r.sh(first, "df -k /dev/shm | tail -n 1 | awk '{print $2}'"); shm != "262144" {
			t.Errorf("/dev/shm has %s KiB", shm)
		}
	})
	t.Run("mounts", func(t *testing.T) {
		if got := r.sh(first, "touch '/data, here/x' 2>&1 || echo refused"); !strings.HasSuffix(got, "refused") {
			t.Errorf("a read-only mount lets write: %s", got)
		}
	})
	t.Run("inspect", func(t *testing.T) {
		shown := r.do("inspect", nodes[0].ID)
		if strings.Contains(shown, "PRIVATE KEY") {
			t.Error("the host key can be seen in inspect")
		}
		for _, want := range []string{r.pool.ID, r.pool.Owner, `"gputrain.expires"`, `"team": "vision, and more"`, `"HostIp": "127.0.0.1"`, `"AutoRemove": true`, `"Init": true`} {
			if !strings.Contains(shown, want) {
				t.Errorf("inspect lacks %s", want)
			}
		}
		if strings.Contains(shown, "0.0.0.0") {
			t.Error("published beyond the loopback")
		}
		if logs := r.do("logs", nodes[0].ID); strings.Contains(logs, "PRIVATE KEY") {
			t.Error("the host key is in the logs")
		}
	})
	t.Run("session", func(t *testing.T) {
		want := "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"
		if got := r.sh(first, `echo "$PATH"; id -u; pwd`); got != want+"\n0\n/root" {
			t.Errorf("a session has %q", got)
		}
		if got := r.sh(first, "readlink /proc/1/exe"); !strings.Contains(got, "init") {
			t.Errorf("process 1 is %q", got)
		}
	})
	t.Run("list", func(t *testing.T) {
		kinds := map[string]int{}
		for _, res := range r.list(t.Context()) {
			kinds[res.Kind]++
		}
		if kinds["machine"] != 4 || kinds["network"] != 1 || len(kinds) != 2 {
			t.Errorf("listed: %v", kinds)
		}
	})
	t.Run("terminate", func(t *testing.T) {
		r.do("kill", nodes[3].ID) // by another user
		r.gone(nodes[3].ID)
		ids := []string{nodes[2].ID, nodes[3].ID}
		for range 2 {
			if err := r.driver.Terminate(t.Context(), ids...); err != nil {
				t.Fatal(err)
			}
		}
		got, err := r.driver.Describe(t.Context(), nodes[0].ID, nodes[2].ID, nodes[1].ID, nodes[3].ID)
		if err != nil {
			t.Fatal(err)
		}
		for i, want := range []driver.InstanceState{driver.InstanceRunning, driver.InstanceTerminated, driver.InstanceRunning, driver.InstanceTerminated} {
			if got[i].State != want {
				t.Errorf("described as %v, want %v: %+v", got[i].State, want, got[i])
			}
		}
	})
	t.Run("pause", func(t *testing.T) {
		pause(t, r.driver.engine.path, nodes[0].ID)
		got, err := r.driver.Describe(t.Context(), nodes[0].ID)
		if err != nil || got[0].State != driver.InstanceStopped || got[0].StateReason != "paused" {
			t.Errorf("a paused node: %+v %v", got, err)
		}
		r.do("unpause", nodes[0].ID)
	})
	t.Run("restart", func(t *testing.T) {
		r.do("restart", "--time", "1", nodes[0].ID)
		r.gone(nodes[0].ID) // its tasks are lost
	})
	t.Run("self-destruct", func(t *testing.T) {
		s, err := second.NewSession()
		if err != nil {
			t.Fatal(err)
		}
		defer s.Close()
		_ = s.Run(r.driver.Scripts(nodes[1]).SelfDestruct) // the session ends with its node
		r.gone(nodes[1].ID)
	})
	t.Run("prepare and release again", func(t *testing.T) {
		if err := r.driver.Prepare(t.Context(), r.pool); err != nil {
			t.Error(err)
		}
		r.end(t.Context())
		r.end(t.Context())
	})
}
