package clustertest

import (
	"context"
	"errors"
	"fmt"
	"os/exec"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/gputrain/gputrain"
	"github.com/gputrain/gputrain/internal/ssh"
	"github.com/gputrain/gputrain/providers/driver"
)

// docker acts on a container of the cluster.
func (c *cluster) docker(t testing.TB, args ...string) {
	t.Helper()
	args[len(args)-1] = c.name + "-" + args[len(args)-1]
	if _, err := output(exec.Command("docker", args...)); err != nil {
		t.Fatal(err)
	}
}

// podOf returns the name of a node's pod, and the cluster node it is on.
func (c *cluster) podOf(t testing.TB, node string) (pod, on string) {
	t.Helper()
	words := strings.Fields(c.must(t, "-n", namespace, "get", "pods", "-l", "gputrain.dev/node="+node, "-o", "jsonpath={.items[0].metadata.name} {.items[0].spec.nodeName}"))
	if len(words) != 2 {
		t.Fatalf("the pod of %s is %q", node, words)
	}
	return words[0], words[1]
}

// An API server that does not answer is said to be unavailable, and costs no node and no task.
func TestServerPaused(t *testing.T) {
	c := start(t)
	p := c.provider()
	p.RequestTimeout = 2 * time.Second
	d, err := p.Open(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	defer d.Close()
	pool, _ := c.open(t, c.provider(), gputrain.Spec{})
	before := pool.Nodes()[0].ID
	done := make(chan error, 1)
	go func() {
		r, err := pool.Run(gputrain.Cmd("sh", "-c", "for i in 1 2 3 4 5 6 7 8 9 10; do echo $i; sleep 1; done"))
		if err == nil && !strings.HasSuffix(string(r.Stdout), "9\n10\n") {
			err = fmt.Errorf("it printed %q", r.Stdout)
		}
		done <- err
	}()
	c.docker(t, "pause", "plane")
	_, err = d.List(t.Context(), pool.ID())
	c.docker(t, "unpause", "plane")
	if !errors.Is(err, driver.ErrUnavailable) {
		t.Errorf("while the API server is paused: %v", err)
	}
	if err := <-done; err != nil {
		t.Error(err)
	}
	if after := pool.Nodes()[0].ID; after != before {
		t.Errorf("the node was replaced by %s", after)
	}
}

// A quota is told in its own words, and nothing is left.
func TestQuota(t *testing.T) {
	c := start(t)
	c.must(t, "-n", namespace, "create", "quota", "gpus", "--hard=requests.nvidia.com/gpu=1")
	c.remove(t, "-n", namespace, "quota", "gpus")
	j := &journal{}
	_, err := gputrain.Open(t.Context(), c.provider(), twoGPUs, gputrain.WithStateDir(t.TempDir()), gputrain.WithEvents(j.add))
	if !errors.Is(err, gputrain.ErrQuota) || !strings.Contains(err.Error(), "exceeded quota: gpus") {
		t.Errorf("%v\n%s", err, strings.Join(j.all, "\n"))
	}
	c.wantNothing(t, "")
}

// An eviction, as of a drained cluster node, gives notice, and the node is replaced.
func TestEviction(t *testing.T) {
	c := start(t)
	pool, j := c.open(t, c.provider(), gputrain.Spec{})
	first := pool.Nodes()[0].ID
	pod, _ := c.podOf(t, first)
	cmd := exec.Command(c.program, "kubectl", "--kubeconfig", c.admin, "create", "--raw", "/api/v1/namespaces/"+namespace+"/pods/"+pod+"/eviction", "-f", "-")
	cmd.Stdin = strings.NewReader(fmt.Sprintf(`{"apiVersion": "policy/v1", "kind": "Eviction", "metadata": {"name": %q, "namespace": %q}}`, pod, namespace))
	if _, err := output(cmd); err != nil {
		t.Fatal(err)
	}
	d, err := c.provider().Open(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	defer d.Close()
	watch := d.(driver.Scripter).Scripts(driver.Instance{}).PreemptionWatch
	if !eventually(20*time.Second, func() bool { // the node goes on for as long as the cluster lets it
		out, err := c.kubectl("-n", namespace, "exec", pod, "--", "sh", "-c", watch)
		seconds, bad := strconv.Atoi(strings.TrimSpace(out))
		return err == nil && bad == nil && seconds > 0 && seconds < 30
	}) {
		t.Error("the node does not say how long it has")
	}
	if now, err := d.Describe(t.Context(), first); err != nil || now[0].State != driver.InstanceRunning || now[0].PreemptAt.IsZero() {
		t.Errorf("%+v, %v", now, err)
	}
	c.replaced(t, pool, first)
	j.says(t, time.Minute, "preempted or evicted")
}

// replaced waits until another node has taken a node's place, and works.
func (c *cluster) replaced(t testing.TB, pool *gputrain.Compute, first string) {
	t.Helper()
	if !eventually(5*time.Minute, func() bool {
		n := pool.Nodes()[0]
		return n.ID != first && n.State == gputrain.NodeReady
	}) {
		t.Fatalf("the node is %+v", pool.Nodes()[0])
	}
	if r, err := pool.Run(gputrain.Cmd("echo", "again")); err != nil || string(r.Stdout) != "again\n" {
		t.Errorf("%q, %v", r.Stdout, err)
	}
}

// A pod of higher priority displaces a node, which is replaced once there is room again.
func TestPreemption(t *testing.T) {
	c := start(t)
	for class, value := range map[string]int{"middle": 1000, "urgent": 10000} {
		c.must(t, "create", "priorityclass", class, fmt.Sprintf("--value=%d", value))
		c.remove(t, "priorityclass", class)
	}
	c.fill(t, "middle", 1)
	p := c.provider()
	pool, j := c.open(t, p, twoGPUs)
	first := pool.Nodes()[0].ID
	c.apply(t, fmt.Sprintf(`{"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "urgent", "namespace": "default"}, "spec": {"priorityClassName": "urgent",
"terminationGracePeriodSeconds": 0, "containers": [{"name": "main", "image": %q, "imagePullPolicy": "Never", "command": ["sleep", "3600"], "resources": {"limits": {"nvidia.com/gpu": "2"}}}]}}`, nodeImage))
	c.remove(t, "pod", "urgent", "--now")
	c.must(t, "wait", "--for=condition=Ready", "pod/urgent", "--timeout=120s")
	j.says(t, 2*time.Minute, "preempted")
	j.says(t, 2*time.Minute, "Insufficient nvidia.com/gpu")
	c.must(t, "delete", "pod", "urgent", "--now")
	c.replaced(t, pool, first)
}

// launch launches a node by the driver alone.
func (c *cluster) launch(t *testing.T, change func(*driver.Launch)) (driver.Driver, driver.Instance) {
	t.Helper()
	return c.launchImage(t, nodeImage, change)
}

func (c *cluster) launchImage(t *testing.T, image string, change func(*driver.Launch)) (driver.Driver, driver.Instance) {
	t.Helper()
	p := c.provider()
	p.Image = image
	d, err := p.Open(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { d.Close() })
	pool, err := ssh.NewKeyPair()
	if err != nil {
		t.Fatal(err)
	}
	host, err := ssh.NewKeyPair()
	if err != nil {
		t.Fatal(err)
	}
	id := "p" + strings.ToLower(fmt.Sprintf("%x", time.Now().UnixNano()))
	req := driver.Launch{
		Pool:  driver.PoolInfo{ID: id, Owner: "host/1/1", Lease: time.Minute, AuthorizedKey: pool.Public},
		Nodes: []driver.NodeRequest{{Name: id + "-0", HostKey: driver.HostKey{Private: driver.Secret(host.Private), Public: host.Public}}},
	}
	for o, err := range d.Offers(t.Context(), req.Query) {
		if err != nil {
			t.Fatal(err)
		}
		req.Offer = o
	}
	if change != nil {
		change(&req)
	}
	got, err := d.Launch(t.Context(), req)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := d.Terminate(context.WithoutCancel(t.Context()), got[0].ID); err != nil {
			t.Error(err)
		}
	})
	return d, got[0]
}

// becomes waits until a machine is in a state, and returns it.
func becomes(t *testing.T, d driver.Driver, id string, limit time.Duration, want driver.InstanceState) (now driver.Instance) {
	t.Helper()
	if !eventually(limit, func() bool {
		got, err := d.Describe(t.Context(), id)
		if err == nil {
			now = got[0]
		}
		return err == nil && now.State == want
	}) {
		t.Fatalf("%s is %v (%s); want %v", id, now.State, now.StateReason, want)
	}
	return now
}

// An image that does not exist fails the machine after two minutes, with the cluster's words.
func TestNoSuchImage(t *testing.T) {
	t.Parallel()
	c := start(t)
	d, in := c.launchImage(t, "registry.invalid/none:1", nil)
	now := becomes(t, d, in.ID, 5*time.Minute, driver.InstanceFailed)
	if !errors.Is(now.FailureKind, driver.ErrInvalid) || !strings.Contains(now.StateReason, "ErrImage") {
		t.Errorf("%v, %q", now.FailureKind, now.StateReason)
	}
	c.wantNothing(t, strings.TrimSuffix(in.ID, "-0"))
}

// A Job that passes its deadline ends, and is removed with all that it has, without any program.
func TestDeadline(t *testing.T) {
	t.Parallel()
	c := start(t)
	d, in := c.launch(t, func(req *driver.Launch) { req.Pool.Expires = time.Now().Add(15 * time.Second) })
	now := becomes(t, d, in.ID, 2*time.Minute, driver.InstanceTerminated)
	if !strings.Contains(now.StateReason, "deadline has passed") {
		t.Errorf("%q", now.StateReason)
	}
	c.wantNothing(t, strings.TrimSuffix(in.ID, "-0"))
}

// A Job has a short deadline until it has its Secret, and then that of the order.
func TestDeadlineAfterTheSecret(t *testing.T) {
	t.Parallel()
	c := start(t)
	_, in := c.launch(t, func(req *driver.Launch) { req.Pool.Expires = time.Now().Add(time.Hour) })
	if life := c.must(t, "-n", namespace, "get", "job", in.Name, "-o", "jsonpath={.spec.activeDeadlineSeconds}"); life < "3590" || life > "3600" {
		t.Errorf("the deadline of a node with a Secret is %s s", life)
	}
}

// A node that ends itself, as at the end of its lease, is no failure, and is removed with all that
// it has, without any program.
func TestSelfDestruct(t *testing.T) {
	t.Parallel()
	c := start(t)
	d, in := c.launch(t, nil)
	in = becomes(t, d, in.ID, time.Minute, driver.InstanceRunning)
	pod, _ := c.podOf(t, in.ID)
	script := d.(driver.Scripter).Scripts(in).SelfDestruct
	if !eventually(time.Minute, func() bool { // the node may still be starting
		_, err := c.kubectl("-n", namespace, "exec", pod, "--", "test", "-e", "/run/gputrain/end")
		return err == nil
	}) {
		t.Fatal("the node has no end")
	}
	_, _ = c.kubectl("-n", namespace, "exec", pod, "--", "sh", "-c", script) // the connection ends with the pod
	if now := becomes(t, d, in.ID, time.Minute, driver.InstanceTerminated); !strings.Contains(now.StateReason, "has ended itself") {
		t.Errorf("%q", now.StateReason)
	}
	c.wantNothing(t, strings.TrimSuffix(in.ID, "-0"))
}
