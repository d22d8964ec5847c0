package clustertest

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/gputrain/gputrain"
	"github.com/gputrain/gputrain/accelerators"
	"github.com/gputrain/gputrain/providers/driver"
	"github.com/gputrain/gputrain/providers/kubernetes"
	"github.com/gputrain/gputrain/providers/sim"
)

var twoGPUs = gputrain.Spec{Accelerator: accelerators.A100(accelerators.Count(2))}

// A journal keeps the events of a pool.
type journal struct {
	mu  sync.Mutex
	all []string
}

func (j *journal) add(e gputrain.Event) {
	j.mu.Lock()
	defer j.mu.Unlock()
	j.all = append(j.all, fmt.Sprintf("%v %s node %d: %v", e.Kind, e.State, e.Node, e.Err))
}

// says waits until an event has all of these words.
func (j *journal) says(t testing.TB, limit time.Duration, words ...string) {
	t.Helper()
	if !eventually(limit, func() bool {
		j.mu.Lock()
		defer j.mu.Unlock()
		for _, line := range j.all {
			has := 0
			for _, w := range words {
				if strings.Contains(line, w) {
					has++
				}
			}
			if has == len(words) {
				return true
			}
		}
		return false
	}) {
		j.mu.Lock()
		defer j.mu.Unlock()
		t.Errorf("no event says %q:\n%s", words, strings.Join(j.all, "\n"))
	}
}

// open opens a pool, which is closed at the test's end and leaves nothing.
func (c *cluster) open(t testing.TB, p gputrain.Provider, spec gputrain.Spec) (*gputrain.Compute, *journal) {
	t.Helper()
	j := &journal{}
	begun := time.Now()
	pool, err := gputrain.Open(context.Background(), p, spec, gputrain.WithStateDir(t.TempDir()), gputrain.WithEvents(j.add))
	t.Logf("open after %v", time.Since(begun).Round(time.Millisecond))
	if err != nil {
		j.mu.Lock()
		defer j.mu.Unlock()
		t.Fatalf("%v\n%s", err, strings.Join(j.all, "\n"))
	}
	t.Cleanup(func() {
		begun := time.Now()
		if err := pool.Close(); err != nil {
			t.Error(err)
		}
		closed := time.Since(begun)
		c.wantNothing(t, pool.ID())
		t.Logf("closed after %v, nothing left after %v", closed.Round(time.Millisecond), time.Since(begun).Round(time.Millisecond))
	})
	return pool, j
}

// meet is a gang: its processes meet at the first one.
var meet = gputrain.Func("clustertest.meet", func(ctx context.Context, _ int) (int, error) {
	node := gputrain.ThisNode(ctx)
	addr := net.JoinHostPort(node.MasterAddr, strconv.Itoa(node.MasterPort))
	if node.Rank > 0 {
		conn, err := net.Dial("tcp", addr)
		for ; err != nil && ctx.Err() == nil; conn, err = net.Dial("tcp", addr) {
			time.Sleep(10 * time.Millisecond) // it does not listen yet
		}
		if err != nil {
			return 0, err
		}
		defer conn.Close()
		_, err = fmt.Fprintln(conn, node.Rank)
		return node.Rank, err
	}
	l, err := net.Listen("tcp", addr)
	if err != nil {
		return 0, err
	}
	defer l.Close()
	conn, err := l.Accept()
	if err != nil {
		return 0, err
	}
	defer conn.Close()
	rank := 0
	_, err = fmt.Fscan(conn, &rank)
	return rank, err
})

// A pool of two cluster nodes runs commands, and a gang whose processes reach each other by the pods'
// addresses.
func TestPoolAndGang(t *testing.T) {
	c := start(t)
	spec := twoGPUs
	spec.Nodes, spec.TTL = 2, time.Hour
	pool, _ := c.open(t, c.provider(), spec)
	results, err := pool.Broadcast(gputrain.Cmd("hostname"))
	if err != nil || len(results) != 2 || strings.TrimSpace(string(results[1].Stdout)) != pool.ID()+"-1" {
		t.Errorf("%v, %v", results, err)
	}
	got, err := pool.Train(gputrain.Training{Task: meet.Call(1)})
	if err != nil {
		t.Fatal(err)
	}
	for rank, r := range got.Ranks {
		if v, err := meet.Value(r); v != 1 || err != nil {
			t.Errorf("rank %d: %v, %v", rank, v, err)
		}
	}
	nodes := c.must(t, "-n", namespace, "get", "pods", "-l", "gputrain.dev/pool="+pool.ID(), "-o", "jsonpath={.items[*].spec.nodeName}")
	if nodes != "n1 n2" && nodes != "n2 n1" {
		t.Errorf("the pods are on %q", nodes)
	}
}

// The plan shows what the cluster has, and rents nothing.
func TestPlan(t *testing.T) {
	c := start(t)
	plan, err := gputrain.Plan(context.Background(), c.provider(), twoGPUs)
	if err != nil || len(plan) != 1 || plan[0].Rejected != "" || plan[0].Offer.InstanceType != "NVIDIA-A100-SXM4-80GB" {
		t.Errorf("%+v, %v", plan, err)
	}
	if left, err := c.left(""); err != nil || len(left) > 0 {
		t.Errorf("%q, %v", left, err)
	}
}

// fill takes all GPUs of the cluster.
func (c *cluster) fill(t testing.TB, class string, pods int) {
	t.Helper()
	for i := range pods {
		name := fmt.Sprintf("filler-%d", i)
		c.apply(t, fmt.Sprintf(`{"apiVersion": "v1", "kind": "Pod", "metadata": {"name": %q, "namespace": "default"}, "spec": {
"priorityClassName": %q, "terminationGracePeriodSeconds": 0, "containers": [{"name": "main", "image": %q, "imagePullPolicy": "Never", "command": ["sleep", "3600"],
"resources": {"limits": {"nvidia.com/gpu": "2"}}}]}}`, name, class, nodeImage))
		c.remove(t, "pod", name, "--now")
		c.must(t, "wait", "--for=condition=Ready", "pod/"+name, "--timeout=120s")
	}
}

// The lab's own cluster is tried first, and a cloud when it is full.
func TestFirstOfWhenFull(t *testing.T) {
	c := start(t)
	c.fill(t, "", 2)
	own := c.provider()
	own.PendingTimeout = 5 * time.Second
	spec := gputrain.Spec{Accelerator: accelerators.A100(accelerators.Count(2)), Nodes: 1}
	cloud := sim.New(sim.Options{Offers: []gputrain.Offer{{InstanceType: "a100.2", Accelerator: spec.Accelerator, HourlyUSD: driver.USD(3)}}})
	defer cloud.Close()
	pool, j := c.open(t, gputrain.FirstOf(own, sim.Config{Cloud: cloud}), spec)
	defer pool.Close()
	if n := pool.Nodes()[0]; n.Provider != "sim" {
		t.Errorf("the node is %+v", n)
	}
	j.says(t, time.Minute, "Insufficient nvidia.com/gpu")
	c.wantNothing(t, pool.ID())
}

// Every way to a node carries commands and files. Exec needs a right that role.yaml leaves out.
func TestReach(t *testing.T) {
	c := start(t)
	c.must(t, "-n", namespace, "create", "role", "by-exec", "--verb", "create,get,list,patch,delete", "--resource", "jobs.batch,pods")
	c.remove(t, "-n", namespace, "role", "by-exec")
	c.must(t, "-n", namespace, "patch", "role", "by-exec", "--type=json", "-p", `[{"op": "add", "path": "/rules/-", "value": {"apiGroups": [""], "resources": ["pods/exec", "secrets"], "verbs": ["create", "get"]}}]`)
	config, err := c.account("by-exec", "by-exec")
	if err != nil {
		t.Fatal(err)
	}
	c.remove(t, "clusterrolebinding", "by-exec")
	big := filepath.Join(t.TempDir(), "big")
	if err := os.WriteFile(big, make([]byte, 8<<20), 0o600); err != nil {
		t.Fatal(err)
	}
	for reach, config := range map[kubernetes.Reach]string{kubernetes.ReachExec: config, kubernetes.ReachForward: c.config} {
		p := c.provider()
		p.Kubeconfig, p.Reach = config, reach
		pool, _ := c.open(t, p, gputrain.Spec{})
		if err := pool.Upload(big, "big"); err != nil {
			t.Errorf("%s: %v", reach, err)
		}
		r, err := pool.Run(gputrain.Cmd("sh", "-c", "wc -c <big"))
		if err != nil || strings.TrimSpace(string(r.Stdout)) != strconv.Itoa(8<<20) {
			t.Errorf("%s: %q, %v", reach, r.Stdout, err)
		}
	}
}

// A namespace of the level "restricted" takes nodes without root, and refuses others with its words.
func TestUnprivileged(t *testing.T) {
	c := start(t)
	c.must(t, "label", "--overwrite", "namespace", namespace, "pod-security.kubernetes.io/enforce=restricted")
	t.Cleanup(func() { c.must(t, "label", "namespace", namespace, "pod-security.kubernetes.io/enforce-") })
	_, err := gputrain.Open(context.Background(), c.provider(), gputrain.Spec{}, gputrain.WithStateDir(t.TempDir()))
	if !errors.Is(err, gputrain.ErrInvalid) || !strings.Contains(err.Error(), "violates PodSecurity") {
		t.Errorf("%v", err)
	}
	c.wantNothing(t, "")
	p := c.provider()
	p.Unprivileged = true
	pool, _ := c.open(t, p, gputrain.Spec{})
	r, err := pool.Run(gputrain.Cmd("sh", "-c", "id -un; id -u; echo $HOME; touch ~/file && df -h /dev/shm | tail -1"))
	if err != nil || !strings.HasPrefix(string(r.Stdout), "gputrain\n1000\n/home/gputrain\n") {
		t.Errorf("%q, %v", r.Stdout, err)
	}
}

// A persistent volume claim outlives pools.
func TestClaims(t *testing.T) {
	c := start(t)
	c.apply(t, `
{apiVersion: v1, kind: PersistentVolume, metadata: {name: data}, spec: {capacity: {storage: 1Gi}, accessModes: [ReadWriteMany], storageClassName: "", hostPath: {path: /tmp/pv-data, type: DirectoryOrCreate},
 nodeAffinity: {required: {nodeSelectorTerms: [{matchExpressions: [{key: kubernetes.io/hostname, operator: In, values: [n1]}]}]}}}}
---
{apiVersion: v1, kind: PersistentVolumeClaim, metadata: {name: data, namespace: lab}, spec: {accessModes: [ReadWriteMany], storageClassName: "", volumeName: data, resources: {requests: {storage: 1Gi}}}}
`)
	c.remove(t, "pv", "data")
	c.remove(t, "-n", namespace, "pvc", "data")
	for i, command := range []string{"echo kept >/data/file", "cat /data/file"} {
		spec := gputrain.Spec{Mounts: []gputrain.Mount{{Source: "pvc:data", Target: "/data", ReadOnly: i > 0}}}
		pool, _ := c.open(t, c.provider(), spec)
		r, err := pool.Run(gputrain.Cmd("sh", "-c", command))
		if err != nil || i > 0 && string(r.Stdout) != "kept\n" {
			t.Errorf("%q, %v", r.Stdout, err)
		}
	}
}

// inside opens a pool from within the cluster, by the service account of its pod.
var inside = gputrain.Func("clustertest.inside", func(ctx context.Context, plane string) (string, error) {
	host, port, err := net.SplitHostPort(plane)
	if err != nil {
		return "", err
	}
	os.Setenv("KUBERNETES_SERVICE_HOST", host) // the testbed has no Services
	os.Setenv("KUBERNETES_SERVICE_PORT", port)
	dir, err := os.MkdirTemp("", "")
	if err != nil {
		return "", err
	}
	defer os.RemoveAll(dir)
	p := kubernetes.Config{Image: nodeImage, PullPolicy: "Never", Reach: kubernetes.ReachDirect}
	pool, err := gputrain.Open(ctx, p, gputrain.Spec{}, gputrain.WithStateDir(dir), gputrain.WithoutGuardian())
	if err != nil {
		return "", err
	}
	defer pool.Close()
	r, err := pool.Run(gputrain.Cmd("echo", "from inside"))
	return pool.Nodes()[0].Region + ": " + string(r.Stdout), errors.Join(err, pool.Close())
})

// A program in a pod needs no kubeconfig, and reaches nodes directly.
func TestInCluster(t *testing.T) {
	c := start(t)
	address, err := output(exec.Command("docker", "inspect", "--format", "{{range .NetworkSettings.Networks}}{{.IPAddress}}{{end}}", c.name+"-plane"))
	if err != nil {
		t.Fatal(err)
	}
	for i := range 2 { // the control plane has no way back to pods' addresses
		node := fmt.Sprintf("n%d", i+1)
		if _, err := output(exec.Command("docker", "exec", c.name+"-"+node, "iptables", "-t", "nat", "-A", "POSTROUTING",
			"-s", fmt.Sprintf("10.244.%d.0/24", i+1), "!", "-d", "10.244.0.0/16", "-j", "MASQUERADE")); err != nil {
			t.Fatal(err)
		}
	}
	p := c.provider()
	p.ServiceAccount = "gputrain"
	pool, _ := c.open(t, p, gputrain.Spec{})
	got, err := inside.Run(pool, net.JoinHostPort(strings.TrimSpace(address), "6443"))
	if err != nil || got != "in-cluster: from inside\n" {
		t.Errorf("%q, %v", got, err)
	}
	c.must(t, "-n", namespace, "get", "jobs")
}
