package slurm

import (
	"os/exec"
	"path/filepath"
	"syscall"
	"testing"
	"time"

	"github.com/gputrain/gputrain/accelerators"
	gossh "github.com/gputrain/gputrain/internal/ssh"
	"github.com/gputrain/gputrain/providers/driver"
)

// A rig is a driver on a fake cluster, with a launch for it.
type rig struct {
	*testing.T
	cluster *cluster
	login   *fakeLogin
	driver  *slurmDriver
	launch  driver.Launch
}

func newRig(t *testing.T, change func(*Config, *cluster)) *rig {
	t.Helper()
	c := newCluster(t)
	l := startLogin(t, c)
	cfg := l.config()
	if change != nil {
		change(&cfg, c)
	}
	d, err := cfg.Open(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { d.Close() })
	pair, _, _ := testKey(t)
	r := &rig{T: t, cluster: c, login: l, driver: d.(*slurmDriver)}
	r.launch = driver.Launch{
		Pool:  driver.PoolInfo{ID: "p1", Owner: "host/1/2", Lease: time.Minute, AuthorizedKey: pair.Public},
		Query: driver.Query{Accelerator: accelerators.A100(), Nodes: 1}, Nodes: []driver.NodeRequest{{Name: "p1-0"}},
	}
	for o, err := range d.Offers(t.Context(), r.launch.Query) {
		if err != nil {
			t.Fatal(err)
		}
		r.launch.Offer = o
		break
	}
	return r
}

// submit launches the node, and returns the job's ID.
func (r *rig) submit() string {
	r.Helper()
	got, err := r.driver.Launch(r.Context(), r.launch)
	if err != nil {
		r.Fatal(err)
	}
	return got[0].ID
}

func (r *rig) describe(id string) driver.Instance {
	r.Helper()
	found, err := r.driver.Describe(r.Context(), id)
	if err != nil {
		r.Fatal(err)
	}
	return found[0]
}

// until describes a job until it satisfies a condition.
func (r *rig) until(id, what string, ok func(driver.Instance) bool) driver.Instance {
	r.Helper()
	for deadline := time.Now().Add(time.Minute); ; time.Sleep(10 * time.Millisecond) {
		in := r.describe(id)
		if ok(in) {
			return in
		}
		if time.Now().After(deadline) {
			r.Fatalf("no %s: %v, %q", what, in.State, in.StateReason)
		}
	}
}

func isRunning(in driver.Instance) bool { return in.State == driver.InstanceRunning }

func isTerminated(in driver.Instance) bool { return in.State == driver.InstanceTerminated }

// state returns the state of a job in the fake.
func (r *rig) state(id string) (state string) {
	r.cluster.set(func() { state = r.cluster.job(id).state })
	return state
}

// wantClean waits until the nodes have no folder of a job.
func (r *rig) wantClean() {
	r.Helper()
	for deadline := time.Now().Add(time.Minute); ; time.Sleep(10 * time.Millisecond) {
		left, _ := filepath.Glob(filepath.Join(r.cluster.dir, "n[12]", "*"))
		if len(left) == 0 {
			return
		}
		if time.Now().After(deadline) {
			r.Fatalf("left: %q", left)
		}
	}
}

// client returns the client of the login node.
func (r *rig) client() *gossh.Client {
	r.Helper()
	client, err := r.driver.shell.(*login).Client(r.Context())
	if err != nil {
		r.Fatal(err)
	}
	return client
}

// onNode runs shell text as a session of a job would. The end of its job may end it too.
func (r *rig) onNode(id, text string) {
	r.Helper()
	env, ok := r.cluster.environ(id)
	if !ok {
		r.Fatalf("job %s does not run", id)
	}
	cmd := exec.Command("sh", "-c", text)
	cmd.Env = append(env, "GPUTRAIN_JOB="+r.folder(id))
	out, err := cmd.CombinedOutput()
	if status, ok := cmd.ProcessState.Sys().(syscall.WaitStatus); err != nil && !(ok && status.Signaled()) {
		r.Errorf("%v: %s", err, out)
	}
}

// folder returns the folder of a job on its node.
func (r *rig) folder(id string) string {
	r.Helper()
	q, err := r.driver.queueOf(r.Context(), id)
	if err != nil {
		r.Fatal(err)
	}
	return q.jobs[id].comment.dir
}
