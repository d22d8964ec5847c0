//go:build unix

package sim_test

import (
	"bufio"
	"errors"
	"os"
	"os/exec"
	"strings"
	"testing"
	"time"

	"github.com/gputrain/gputrain"
	"github.com/gputrain/gputrain/providers/driver"
	"github.com/gputrain/gputrain/providers/internal/cloudtest"
	"github.com/gputrain/gputrain/providers/sim"
)

// Machines with real processes work in this program's cloud and in a served one.
func TestRealMachines(t *testing.T) {
	for _, served := range []bool{false, true} {
		t.Run(map[bool]string{false: "in memory", true: "served"}[served], func(t *testing.T) {
			dir := t.TempDir()
			c := sim.New(sim.Options{Dir: dir, Token: "sk-sim-test", BootTime: 10 * time.Millisecond})
			defer c.Close()
			cfg := sim.Config{Cloud: c, Token: "sk-sim-test"}
			if served {
				endpoint, err := c.Serve()
				if err != nil {
					t.Fatal(err)
				}
				cfg = sim.Config{Endpoint: endpoint, Token: "sk-sim-test"}
				_, err = sim.Config{Endpoint: endpoint}.Open(t.Context())
				cloudtest.Is(t, err, driver.ErrAuth, "sim", "open")
				if strings.Contains(err.Error(), "sk-sim") {
					t.Errorf("%v", err)
				}
			}
			p, err := gputrain.Open(t.Context(), cfg, gputrain.Spec{Nodes: 2})
			if err != nil {
				t.Fatal(err)
			}
			r, err := p.Run(gputrain.Script("echo $GPUTRAIN_NODE_RANK; setsid sleep 1000 >/dev/null 2>&1 &"))
			if err != nil || string(r.Stdout) != "0\n" {
				t.Errorf("%q, %v", r.Stdout, err)
			}
			if err := p.Close(); err != nil {
				t.Error(err)
			}
			if live := c.Live(); len(live) > 0 {
				t.Errorf("left: %v", live)
			}
			left, err := os.ReadDir(dir)
			if err != nil || len(left) > 0 {
				t.Errorf("homes are left: %v, %v", left, err)
			}
		})
	}
}

// The served API reports the same as the one in memory.
func TestServedFaults(t *testing.T) {
	c := sim.New(sim.Options{Exec: greet})
	defer c.Close()
	endpoint, err := c.Serve()
	if err != nil {
		t.Fatal(err)
	}
	d, err := sim.Config{Endpoint: endpoint}.Open(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	defer d.Close()
	if _, ok := d.(driver.Dialer); ok {
		t.Error("machines of another program cannot be dialed in memory")
	}
	req := request(t, d, "p", 2)
	if usd, known := req.Offer.HourlyUSD.USD(); !known || usd <= 0 {
		t.Errorf("price %v", req.Offer.HourlyUSD)
	}
	c.Inject(sim.Fault{Op: sim.OpLaunch, Nth: 1, Kind: sim.WithID})
	got, err := d.Launch(t.Context(), req)
	cloudtest.Is(t, err, driver.ErrUnavailable, "sim", "launch")
	if len(got) != 2 || !strings.HasPrefix(got[0].SSH.Addr, "127.0.0.1:") || len(got[0].SSH.HostKeys) != 1 {
		t.Errorf("%+v", got)
	}
	for kind, want := range map[sim.Kind]error{
		sim.Lost: driver.ErrUnavailable, sim.Refused: driver.ErrUnavailable, sim.Garbage: driver.ErrUnavailable,
		sim.ErrorAfter: driver.ErrUnavailable, sim.RateLimited: driver.ErrRateLimited,
	} {
		c.Calm()
		c.Inject(sim.Fault{Op: sim.OpList, Kind: kind, For: 3 * time.Second})
		_, err := d.List(t.Context(), "")
		cloudtest.Is(t, err, want, "sim", "list")
		if kind == sim.RateLimited && !strings.Contains(err.Error(), "3s") {
			t.Errorf("no word of when to try again: %v", err)
		}
	}
	c.Calm()
	if err := d.Terminate(t.Context(), ids(got)...); err != nil {
		t.Error(err)
	}
}

// A machine with real processes ends itself by its TTL.
func TestARealMachineEndsItself(t *testing.T) {
	dir := t.TempDir()
	c := sim.New(sim.Options{Dir: dir})
	defer c.Close()
	d := open(t, c)
	got, err := d.Launch(t.Context(), request(t, d, "p", 1))
	if err != nil {
		t.Fatal(err)
	}
	// Run what the node's watcher runs, in the machine's home.
	homes, err := os.ReadDir(dir)
	if err != nil || len(homes) != 1 {
		t.Fatal(homes, err)
	}
	home := dir + "/" + homes[0].Name()
	run(t, home, d.(driver.Scripter).Scripts(got[0]).SelfDestruct)
	if _, err := os.Stat(home); !errors.Is(err, os.ErrNotExist) {
		t.Fatalf("its home is there: %v", err)
	}
	for count(c, "machine") > 0 {
		time.Sleep(10 * time.Millisecond) // the cloud polls
	}
	if m := c.Machines("p")[0]; m.State != driver.InstanceTerminated || !strings.Contains(m.StateReason, "lease") {
		t.Errorf("%v: %s", m.State, m.StateReason)
	}
	// Anywhere else the same script does nothing.
	other := t.TempDir()
	run(t, other, d.(driver.Scripter).Scripts(got[0]).SelfDestruct)
	if _, err := os.Stat(other); err != nil {
		t.Error(err)
	}
}

// run runs a shell script as on a machine with this home.
func run(t *testing.T, home, text string) {
	t.Helper()
	cmd := exec.Command("sh", "-c", text+" ; :")
	cmd.Dir = "/"
	cmd.Env = []string{"PATH=" + os.Getenv("PATH"), "HOME=" + home, "GPUTRAIN_SIM_HOME=" + home}
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
}

// If a client is killed, its machines and their tasks live on until their lease is over. Then
// only the things are left that another program must remove.
func TestAClientIsKilled(t *testing.T) {
	dir := t.TempDir()
	c := sim.New(sim.Options{Dir: dir})
	defer c.Close()
	endpoint, err := c.Serve()
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command(os.Args[0])
	cmd.Env = append(os.Environ(), "GPUTRAIN_SIM_ENDPOINT="+endpoint, "XDG_STATE_HOME="+t.TempDir()) // its ledger stays
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	line, _ := bufio.NewReader(out).ReadString('\n')
	cmd.Process.Kill()
	cmd.Wait()
	if line != "ready\n" {
		t.Fatalf("the client says %q", line)
	}
	if n := count(c, "machine"); n != 2 {
		t.Errorf("%d machines after the client's end", n)
	}
	for count(c, "machine") > 0 {
		time.Sleep(50 * time.Millisecond) // until their lease is over
	}
	for _, e := range c.Audit("") {
		if e.What == "terminated" && e.By != "machine" {
			t.Errorf("not by itself: %v", e)
		}
	}
	if count(c, "network") != 1 || count(c, "key") != 1 {
		t.Errorf("left: %v", c.Live())
	}
	d := open(t, c)
	listed, err := d.List(t.Context(), "")
	if err != nil || len(listed) != 2 {
		t.Fatal(listed, err)
	}
	if err := d.Release(t.Context(), driver.PoolInfo{ID: listed[0].Pool}); err != nil || len(c.Live()) > 0 {
		t.Errorf("%v, left %v", err, c.Live())
	}
}

// Machines that one call ends are ended at once, without a process for each.
func TestTerminateOfManyMachines(t *testing.T) {
	const n = 12
	dir := t.TempDir()
	c := sim.New(sim.Options{Dir: dir})
	defer c.Close()
	d, err := sim.Config{Cloud: c}.Open(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	defer d.Close()
	got, err := d.Launch(t.Context(), request(t, d, "many", n))
	if err != nil || len(got) != n {
		t.Fatalf("%d machines: %v", len(got), err)
	}
	var ids []string
	for _, in := range got {
		ids = append(ids, in.ID)
	}
	tools := t.TempDir()
	started := tools + "/started"
	real, err := exec.LookPath("sh")
	if err != nil {
		t.Fatal(err)
	}
	wrapper := "#!" + real + "\necho sh >>" + started + "\nexec " + real + ` "$@"` + "\n"
	if err := os.WriteFile(tools+"/sh", []byte(wrapper), 0o755); err != nil {
		t.Fatal(err)
	}
	t.Setenv("PATH", tools+":"+os.Getenv("PATH"))
	if err := d.Terminate(t.Context(), ids...); err != nil {
		t.Fatal(err)
	}
	log, err := os.ReadFile(started)
	if err != nil && !errors.Is(err, os.ErrNotExist) {
		t.Fatal(err)
	}
	if shells := strings.Count(string(log), "sh"); shells > 1 {
		t.Errorf("the end of %d machines starts %d shells", n, shells)
	}
	if left, err := os.ReadDir(dir); err != nil || len(left) > 0 {
		t.Errorf("homes are left: %v, %v", left, err)
	}
}
