//go:build unix

package local

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"io"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/gputrain/gputrain/internal/machine"
	"github.com/gputrain/gputrain/providers/driver"
	xssh "golang.org/x/crypto/ssh"
)

const (
	// victimEnv makes this program the one that TestResumeAfterAKill kills.
	victimEnv = "LOCAL_TEST_VICTIM"
	// A victim ends itself after victimTime, whatever becomes of its parent.
	victimTime = 2 * time.Minute
)

// A victim configures the program that is killed, by its environment.
type victim struct {
	Dir, Pipe string // the homes' directory, and the pipe for the detached process's ID
	Pool      driver.PoolInfo
	Key       []byte // the pool's private key, of no use beyond the test
}

// runVictim launches a node, detaches a process there over SSH, prints the node, and waits to
// be killed. It starts no other program.
func runVictim(text string) error {
	time.AfterFunc(victimTime, func() { os.Exit(3) })
	var v victim
	if err := json.Unmarshal([]byte(text), &v); err != nil {
		return err
	}
	ctx := context.Background()
	d, err := Config{Dir: v.Dir}.Open(ctx)
	if err != nil {
		return err
	}
	signer, err := xssh.ParsePrivateKey(v.Key)
	if err != nil {
		return err
	}
	nodes, err := d.Launch(ctx, driver.Launch{Pool: v.Pool, Nodes: []driver.NodeRequest{{Rank: 7, Name: v.Pool.ID + "-7"}}})
	if err != nil {
		return err
	}
	nc, err := d.(driver.Dialer).Dial(ctx, nodes[0])
	if err != nil {
		return err
	}
	conn, channels, requests, err := xssh.NewClientConn(nc, "", &xssh.ClientConfig{
		User: nodes[0].SSH.User, Auth: []xssh.AuthMethod{xssh.PublicKeys(signer)}, HostKeyCallback: xssh.InsecureIgnoreHostKey(),
	})
	if err != nil {
		return err
	}
	session, err := xssh.NewClient(conn, channels, requests).NewSession()
	if err != nil {
		return err
	}
	if err := session.Run(detaching(v.Pipe)); err != nil {
		return err
	}
	if err := json.NewEncoder(os.Stdout).Encode(nodes[0]); err != nil {
		return err
	}
	_, err = io.Copy(io.Discard, os.Stdin)
	return err
}

func TestResumeAfterAKill(t *testing.T) {
	p := newPool(t, Config{})
	kept, signer := newKey(t)
	pipe := filepath.Join(t.TempDir(), "pipe")
	if err := syscall.Mkfifo(pipe, 0o600); err != nil {
		t.Fatal(err)
	}
	first := p.info
	first.Owner, first.AuthorizedKey = "the victim", string(xssh.MarshalAuthorizedKey(signer.PublicKey()))
	text, err := json.Marshal(victim{p.dir, pipe, first, []byte(kept)})
	if err != nil {
		t.Fatal(err)
	}
	node := killVictim(t, string(text), func() *detached { return opened(t, pipe) })
	id := node.in.ID
	t.Cleanup(func() { p.Terminate(context.Background(), id) })

	described, err := p.Describe(t.Context(), id)
	if err != nil || described[0].State != driver.InstanceStopped || described[0].Rank != 7 {
		t.Fatalf("described %+v, %v", described, err)
	}
	p.info.Lease, p.info.Expires = 90*time.Second, time.Now().Add(time.Hour).Truncate(time.Second)
	resume := p.Driver.(driver.Resumer).Resume
	for range 2 {
		if err := resume(t.Context(), p.info, id, p.info.ID+"-99"); err != nil {
			t.Fatal(err)
		}
	}
	described, err = p.Describe(t.Context(), id)
	if err != nil || described[0].State != driver.InstanceRunning || described[0].Rank != 7 ||
		!slices.Equal(described[0].SSH.HostKeys, node.in.SSH.HostKeys) {
		t.Fatalf("described %+v, %v", described, err)
	}
	pid := strconv.Itoa(node.process.pid)
	if got := p.output(described[0], "kill -0 "+pid+" && echo lives; echo $GPUTRAIN_NODE"); got != "lives\n"+id+"\n" {
		t.Errorf("on the node: %q", got)
	}
	held, err := p.List(t.Context(), p.info.ID)
	if err != nil || len(held) != 2 {
		t.Fatalf("listed %+v, %v", held, err)
	}
	for _, r := range held {
		if r.Owner != p.info.Owner || r.Lease != p.info.Lease || !r.Expires.Equal(p.info.Expires) || r.Created.IsZero() {
			t.Errorf("listed %+v", r)
		}
	}
	if err := p.Terminate(t.Context(), id); err != nil {
		t.Error(err)
	}
	node.process.mustEnd(t)
	if left := names(t, p.dir); len(left) > 0 {
		t.Errorf("left behind: %v", left)
	}
}

// A killedNode is the node of a killed victim, with its detached process.
type killedNode struct {
	in      driver.Instance
	process *detached
}

// killVictim runs a victim and kills it once its node works. It calls find before that, while
// the detached process holds its pipe.
func killVictim(t *testing.T, text string, find func() *detached) killedNode {
	t.Helper()
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), victimTime)
	defer cancel()
	cmd := exec.CommandContext(ctx, self, "-test.run=^$")
	cmd.Env = append(os.Environ(), victimEnv+"="+text)
	cmd.Stderr = os.Stderr
	stdin, err := cmd.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	defer stdin.Close()
	stdout, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	var node killedNode
	line, err := bufio.NewReader(stdout).ReadBytes('\n')
	if err == nil {
		err = json.Unmarshal(line, &node.in)
	}
	if err == nil {
		node.process = find()
	}
	cmd.Process.Kill()
	cmd.Wait()
	if err != nil {
		t.Fatalf("the program did not come up: %v: %s", err, line)
	}
	return node
}

// restarted returns the nodes of a pool whose program ended without ending them, and the
// driver of another program for that pool, with another key.
func restarted(t *testing.T, nodes int) (before []driver.Instance, after *testPool) {
	t.Helper()
	p := newPool(t, Config{})
	before = p.launch(nodes)
	p.Close()
	after = newPool(t, Config{Dir: p.dir})
	t.Cleanup(func() {
		for _, in := range before {
			after.Terminate(context.Background(), in.ID)
		}
	})
	return before, after
}

func TestResumeAdmitsOnlyThePoolsKey(t *testing.T) {
	nodes, p := restarted(t, 1)
	resume := p.Driver.(driver.Resumer).Resume
	if err := resume(t.Context(), p.info, nodes[0].ID); err != nil {
		t.Fatal(err)
	}
	session := p.open(nodes[0])
	defer session.Close()
	_, other := newKey(t)
	info := p.info
	info.AuthorizedKey = string(xssh.MarshalAuthorizedKey(other.PublicKey()))
	if err := resume(t.Context(), info, nodes[0].ID); err != nil {
		t.Fatal(err)
	}
	nc, err := p.Driver.(driver.Dialer).Dial(t.Context(), nodes[0])
	if err != nil {
		t.Fatal(err)
	}
	defer nc.Close()
	login := &xssh.ClientConfig{Auth: []xssh.AuthMethod{xssh.PublicKeys(p.signer)}, HostKeyCallback: xssh.InsecureIgnoreHostKey()}
	if _, _, _, err := xssh.NewClientConn(nc, "", login); err == nil {
		t.Error("the key that was replaced still logs in")
	}
	p.signer = other
	p.output(nodes[0], "true")
}

func TestResumeRefuses(t *testing.T) {
	nodes, p := restarted(t, 2)
	resume := func(info driver.PoolInfo, ids ...string) error {
		return p.Driver.(driver.Resumer).Resume(t.Context(), info, ids...)
	}
	another := p.info
	another.ID = "another"
	if err := resume(another, nodes[0].ID); !errors.Is(err, driver.ErrInvalid) || !strings.Contains(err.Error(), nodes[0].ID) {
		t.Errorf("resumed another pool's node: %v", err)
	}
	if err := resume(p.info, "../x"); !errors.Is(err, driver.ErrInvalid) {
		t.Errorf("resumed what is no node: %v", err)
	}
	broken := p.info
	broken.AuthorizedKey = "nonsense"
	if err := resume(broken, nodes[0].ID); !errors.Is(err, driver.ErrInvalid) {
		t.Errorf("resumed for a broken key: %v", err)
	}
	// A home of an older version has no key: the error names it, and the other home is
	// resumed.
	if err := os.Remove(filepath.Join(homePath(p.dir, nodes[0].ID), hostKeyFile)); err != nil {
		t.Fatal(err)
	}
	if err := resume(p.info, nodes[0].ID, nodes[1].ID); err == nil || !strings.Contains(err.Error(), nodes[0].ID+": its host key") {
		t.Errorf("resumed without a host key: %v", err)
	}
	states(t, p, nodes, driver.InstanceStopped, driver.InstanceRunning)
}

// A launch that was killed between making a home and marking it left no node.
func TestResumeLeavesOutALaunchThatWasCutShort(t *testing.T) {
	p := newPool(t, Config{})
	id := p.info.ID + "-0"
	if err := os.Mkdir(homePath(p.dir, id), 0o700); err != nil {
		t.Fatal(err)
	}
	if err := p.Driver.(driver.Resumer).Resume(t.Context(), p.info, id); err != nil {
		t.Error(err)
	}
	states(t, p, []driver.Instance{{ID: id}}, driver.InstanceFailed)
	held, err := p.List(t.Context(), "")
	if err != nil || len(held) != 2 || held[0].Pool != p.info.ID || held[0].ID != id {
		t.Errorf("listed %+v, %v", held, err)
	}
}

func states(t *testing.T, p *testPool, nodes []driver.Instance, want ...driver.InstanceState) {
	t.Helper()
	for i, in := range nodes {
		got, err := p.Describe(t.Context(), in.ID)
		if err != nil || got[0].State != want[i] {
			t.Errorf("described %+v, %v; want it %v", got, err, want[i])
		}
	}
}

func TestListEveryPool(t *testing.T) {
	p := newPool(t, Config{})
	p.info.Owner, p.info.Lease, p.info.Expires = "host/1/2", 90*time.Second, time.Date(2040, 1, 2, 3, 4, 5, 0, time.UTC)
	p.launch(1)
	q := newPool(t, Config{Dir: p.dir})
	q.info.ID += "-b"
	q.launch(1)
	elsewhere := newPool(t, Config{})
	elsewhere.info.ID += "-c"
	elsewhere.launch(1)

	if home := homePath(p.dir, "old-pool-0"); os.Mkdir(home, 0o700) != nil ||
		os.WriteFile(filepath.Join(home, markFile), []byte(`{"pool":"old-pool","owner":"me","rank":0}`), 0o600) != nil {
		t.Fatal("no home of an older version")
	}
	if os.Getuid() == 0 { // another user's home must not be ended
		foreign := homePath(p.dir, "foreign-0")
		if err := os.Mkdir(foreign, 0o700); err != nil {
			t.Fatal(err)
		}
		if err := os.Chown(foreign, 65534, 65534); err != nil {
			t.Fatal(err)
		}
		defer os.Remove(foreign)
		info := p.info
		info.ID = "foreign"
		if err := p.Driver.(driver.Resumer).Resume(t.Context(), info, "foreign-0"); err != nil {
			t.Errorf("another user's folder is in the way: %v", err)
		}
		states(t, p, []driver.Instance{{ID: "foreign-0"}}, driver.InstanceTerminated)
	}
	held, err := p.List(t.Context(), "")
	if err != nil {
		t.Fatal(err)
	}
	got := map[string]driver.Resource{}
	for _, r := range held {
		got[r.Kind+" "+r.Name+" of "+r.Pool] = r
	}
	var want []string
	for _, kind := range []string{"directory ", "machine "} {
		for _, id := range []string{p.info.ID, q.info.ID, "old-pool"} {
			want = append(want, kind+id+"-0 of "+id)
		}
	}
	slices.Sort(want)
	if keys := slices.Sorted(maps.Keys(got)); !slices.Equal(keys, want) {
		t.Fatalf("listed %q\nwant %q", keys, want)
	}
	for _, kind := range []string{"directory ", "machine "} {
		r := got[kind+p.info.ID+"-0 of "+p.info.ID]
		if r.Owner != p.info.Owner || r.Lease != p.info.Lease || !r.Expires.Equal(p.info.Expires) || r.Created.IsZero() {
			t.Errorf("%+v", r)
		}
	}
	if r := got["machine "+p.info.ID+"-0 of "+p.info.ID]; r.State != driver.InstanceRunning {
		t.Errorf("its own node is %v", r.State)
	}
	if r := got["machine "+q.info.ID+"-0 of "+q.info.ID]; r.State != driver.InstanceStopped {
		t.Errorf("another program's node is %v", r.State)
	}
	if r := got["machine old-pool-0 of old-pool"]; r.Owner != "me" || r.Lease != 0 || !r.Created.IsZero() {
		t.Errorf("an older version's node: %+v", r)
	}
}

// Containers' processes have the pool's and the node's marks too. If all pools are listed,
// only processes whose mark names this directory of homes count.
func TestListEveryPoolByProcesses(t *testing.T) {
	if _, err := os.Stat("/proc/self/environ"); err != nil {
		t.Skip("no environments of processes to be seen here")
	}
	p := newPool(t, Config{})
	in := p.launch(1)[0]
	process := p.detach(in)
	if err := machine.Home(homePath(p.dir, in.ID)).Remove(); err != nil {
		t.Fatal(err)
	}
	p.Close()

	mark := func(node string, env ...string) {
		cmd := exec.CommandContext(t.Context(), "sleep", "100")
		cmd.Env = append(env, "GPUTRAIN_POOL=container", "GPUTRAIN_NODE="+node)
		if strings.HasPrefix(node, "stranger") {
			cmd.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: 65534, Gid: 65534}}
		}
		if err := cmd.Start(); err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { cmd.Process.Kill(); cmd.Wait() })
		awaitSleep(t, cmd.Process.Pid)
	}
	mark("container-0")
	mark("container-1", "GPUTRAIN_HOMES="+p.dir+"/elsewhere")
	if os.Getuid() == 0 {
		mark("stranger-0", "GPUTRAIN_HOMES="+p.dir)
	}
	held, err := p.List(t.Context(), "")
	if err != nil || len(held) != 1 || held[0].ID != in.ID || held[0].Pool != p.info.ID || held[0].State != driver.InstanceStopped {
		t.Errorf("listed %+v, %v", held, err)
	}
	if err := p.Terminate(t.Context(), in.ID); err != nil {
		t.Error(err)
	}
	process.mustEnd(t)
	if held, err := p.List(t.Context(), ""); len(held) > 0 || err != nil {
		t.Errorf("listed %+v, %v", held, err)
	}
}

func TestHostKeyIsKeptForThisUserAlone(t *testing.T) {
	p := newPool(t, Config{})
	in := p.launch(1)[0]
	info, err := os.Stat(filepath.Join(homePath(p.dir, in.ID), hostKeyFile))
	if err != nil || info.Mode() != 0o600 {
		t.Errorf("%v, %v", info, err)
	}
}

func TestAccount(t *testing.T) {
	p := newPool(t, Config{})
	link := filepath.Join(t.TempDir(), "link")
	if err := os.Symlink(p.dir, link); err != nil {
		t.Fatal(err)
	}
	host, err := os.Hostname()
	if err != nil {
		t.Fatal(err)
	}
	dir, err := filepath.EvalSymlinks(p.dir)
	if err != nil {
		t.Fatal(err)
	}
	for _, q := range []*testPool{p, newPool(t, Config{Dir: link})} {
		if got := q.Capabilities().Account; got != host+":"+dir {
			t.Errorf("account %q", got)
		}
	}
}

func TestPoolOf(t *testing.T) {
	for id, want := range map[string]string{
		"pool-x1-0": "pool-x1", "pool-12": "pool", "a-b-31": "a-b", "pool": "pool", "pool-": "pool-", "p1": "p1",
	} {
		if got := poolOf(id); got != want {
			t.Errorf("the pool of %q is %q; want %q", id, got, want)
		}
	}
}
