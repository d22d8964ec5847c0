//go:build unix

package slurm

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/gputrain/gputrain"
	"github.com/gputrain/gputrain/internal/ssh"
	"github.com/gputrain/gputrain/internal/test/e2etest"
	"github.com/gputrain/gputrain/providers/driver"
	"github.com/gputrain/gputrain/providers/slurm"
)

// openDriver opens a driver for a pool of its own, whose jobs are cancelled at the end of the test.
func (b *testbed) openDriver(t testing.TB, cfg slurm.Config, id string) (driver.Driver, driver.Launch) {
	t.Helper()
	d, err := cfg.Open(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	keys, err := ssh.NewKeyPair()
	if err != nil {
		t.Fatal(err)
	}
	req := driver.Launch{
		Pool:  driver.PoolInfo{ID: id, Owner: "test/1/1", Lease: time.Minute, AuthorizedKey: keys.Public},
		Nodes: []driver.NodeRequest{{Name: id + "-0"}},
	}
	t.Cleanup(func() {
		b.on(t, "ctl", "scancel --user=alice")
		if err := d.Close(); err != nil {
			t.Error(err)
		}
		b.wantNothing(t)
	})
	for o, err := range d.Offers(t.Context(), req.Query) {
		if err != nil {
			t.Fatal(err)
		}
		req.Offer = o
		break
	}
	return d, req
}

// A submission that a stopped controller does not answer, and executes later: its job is adopted, and no other one is made.
// Meanwhile a list is an error, and never empty.
func TestControllerStopped(t *testing.T) {
	b := common(t)
	cfg := b.config()
	d, req := b.openDriver(t, cfg, "pool-stopped")
	cfg.CommandTimeout = 10 * time.Second
	impatient, err := cfg.Open(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	defer impatient.Close()

	settling := make(chan error, 1)
	req.Pool = req.Pool.WithSettling(func(why error, _ time.Time) { settling <- why })
	b.on(t, "ctl", "pkill -STOP slurmctld")
	goOn := func() { b.on(t, "ctl", "pkill -CONT slurmctld") }
	defer goOn()
	type result struct {
		got []driver.Instance
		err error
	}
	launched := make(chan result, 1)
	go func() {
		got, err := d.Launch(t.Context(), req)
		launched <- result{got, err}
	}()
	if got, err := impatient.List(t.Context(), "pool-stopped"); !errors.Is(err, driver.ErrUnavailable) || len(got) > 0 {
		t.Errorf("a list of a stopped controller: %v, %v", got, err)
	}
	if why := <-settling; !strings.Contains(why.Error(), "Socket timed out") {
		t.Errorf("the submission's failure is %v", why)
	}
	goOn()
	r := <-launched
	if r.err != nil || len(r.got) != 1 {
		t.Fatalf("%+v, %v", r.got, r.err)
	}
	if jobs := b.on(t, "ctl", "squeue --noheader --states=all --name=gputrain-pool-stopped-0 --format=%i"); jobs != r.got[0].ID {
		t.Errorf("jobs %q were made, and %s adopted", jobs, r.got[0].ID)
	}
}

// The login node's SSH server is restarted, and all its connections end, while a task runs on a node.
func TestLoginNodeRestarted(t *testing.T) {
	b := common(t)
	pool, _ := b.open(t, b.config(), gputrain.Spec{TTL: time.Hour})
	task := pool.Start(bash("touch begun; sleep 4; echo done"))
	time.Sleep(time.Second) // the task may run already or not
	b.on(t, "ctl", "pkill sshd || :; while pgrep -x sshd >/dev/null; do sleep 0.05; done; /usr/sbin/sshd -E /var/log/sshd.log")
	r, err := task.Wait()
	if err != nil || string(r.Stdout) != "done\n" {
		t.Errorf("%q, %v", r.Stdout, err)
	}
	if n := b.on(t, "ctl", "squeue --noheader --format=%i | wc -l"); n != "1" {
		t.Errorf("there are %s jobs after the restart", n)
	}
}

// Forwarding is forbidden on the login node: nodes are reached by steps of their jobs.
func TestForwardingForbidden(t *testing.T) {
	b := common(t)
	restart := "p=$(pgrep -o sshd); kill $p; while grep -qs . /proc/$p/cmdline; do sleep 0.05; done; /usr/sbin/sshd -E /var/log/sshd.log"
	b.on(t, "ctl", "echo 'AllowTcpForwarding no' >/etc/ssh/sshd_config.d/no.conf; "+restart)
	t.Cleanup(func() { b.on(t, "ctl", "rm /etc/ssh/sshd_config.d/no.conf; "+restart) })
	cfg := b.config()
	cfg.Reach = slurm.ReachForward
	if pool, err := openWithin(t, cfg, 5*time.Second); err == nil {
		pool.Close()
		t.Error("a forward was made although it is forbidden")
	}
	b.wantNothing(t)
	pool, _ := b.open(t, b.config(), gputrain.Spec{Nodes: 2})
	results, err := pool.Broadcast(bash(`echo "$SLURM_JOB_ID"`))
	if err != nil || len(results) != 2 || string(results[0].Stdout) == string(results[1].Stdout) {
		t.Errorf("%+v, %v", results, err)
	}
	if steps := b.on(t, "ctl", "squeue --noheader --steps --format=%i | grep -c '\\.0' || :"); steps != "2" {
		t.Errorf("there are %s steps", steps)
	}
}

func openWithin(t testing.TB, cfg slurm.Config, limit time.Duration) (*gputrain.Compute, error) {
	ctx, cancel := context.WithTimeout(t.Context(), limit)
	defer cancel()
	return gputrain.Open(ctx, cfg, gputrain.Spec{})
}

// A user cancels the job of a node by hand: the node is replaced, with the reason.
func TestCancelledByHand(t *testing.T) {
	b := common(t)
	pool, ev := b.open(t, b.config(), gputrain.Spec{MaxReplacements: 1})
	first := pool.Nodes()[0].ID
	b.on(t, "ctl", "scancel "+first)
	e2etest.Until(t, "another node", func() bool {
		nodes := pool.Nodes()
		return len(nodes) == 1 && nodes[0].ID != "" && nodes[0].ID != first && nodes[0].State == gputrain.NodeReady
	})
	if _, err := pool.Run(gputrain.Cmd("true")); err != nil {
		t.Error(err)
	}
	if !ev.has(`node lost .*CANCELLED|node lost .*its processes are being ended`) {
		t.Error("no event says that the job was cancelled")
	}
}
