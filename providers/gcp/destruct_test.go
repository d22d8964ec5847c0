package gcp

import (
	"crypto/rand"
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/gputrain/gputrain"
	"github.com/gputrain/gputrain/internal/fakecloud"
	"github.com/gputrain/gputrain/providers/internal/cloudtest"
)

// patience is how long what must happen may take.
const patience = 30 * time.Second

// metadata is a machine's metadata server: one with an identity gives out tokens. It
// returns its host and port.
func metadata(t *testing.T, identity bool, preempted string) string {
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		switch path := strings.TrimPrefix(r.URL.Path, "/computeMetadata/v1/instance/"); {
		case r.Header.Get("Metadata-Flavor") != "Google":
			http.Error(w, "Missing Metadata-Flavor:Google header", http.StatusForbidden)
		case path == "preempted" && preempted != "":
			_, _ = w.Write([]byte(preempted))
		case path == "service-accounts/default/token" && identity:
			_ = json.NewEncoder(w).Encode(row{"access_token": testToken, "expires_in": 3599, "token_type": "Bearer"})
		default:
			http.NotFound(w, r)
		}
	}))
	t.Cleanup(s.Close)
	return strings.TrimPrefix(s.URL, "http://")
}

func needsCurl(t *testing.T) {
	if _, err := exec.LookPath("curl"); err != nil {
		t.Skip("curl is not installed, which Google's images have")
	}
}

// on runs a text on a machine of the fake, as its own processes run.
func on(t *testing.T, m *fakecloud.Machine, text, metadata string) *exec.Cmd {
	cmd := exec.CommandContext(t.Context(), "sh", "-c", text)
	dir := filepath.Dir(m.Home)
	cmd.Env = []string{"HOME=" + m.Home, "PATH=" + filepath.Join(dir, "bin") + ":" + os.Getenv("PATH"), "FAKECLOUD_MACHINE=" + dir, "GCE_METADATA_HOST=" + metadata}
	return cmd
}

// A machine with an identity deletes itself, and one without shuts down.
func TestSelfDestruct(t *testing.T) {
	needsCurl(t)
	t.Parallel()
	for name, identity := range map[string]bool{"with an identity": true, "without": false} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			f := startFake(t)
			f.selfDelete = true
			d := f.open()
			in := mustLaunch(t, d, oneL4, 0)
			var machine *fakecloud.Machine
			f.Do(func() {
				v, _ := f.instances.Get(nil, in.ID)
				machine = v.machine
			})
			text := d.SelfDestruct(in)
			if strings.Contains(text, testToken) {
				t.Error("a token is in the text")
			}
			cmd := on(t, machine, text, metadata(t, identity, ""))
			if err := cmd.Start(); err != nil {
				t.Fatal(err)
			}
			defer func() { _ = cmd.Wait() }()
			select {
			case <-machine.Down():
			case <-time.After(patience):
				t.Error("the machine goes on")
			}
			_ = cmd.Process.Kill() // where the machine's end has not reached it
			if live := f.live(); (len(live) == 0) != identity {
				t.Errorf("left: %v", live)
			}
			if _, why := machine.State(); !identity && !strings.HasPrefix(why, "shutdown") {
				t.Errorf("it is down by %q", why)
			}
		})
	}
}

// A node that nobody takes over ends itself.
func TestNodeThatNobodyTakesOver(t *testing.T) {
	needsCurl(t)
	t.Parallel()
	f := startFake(t)
	f.runScripts, f.selfDelete, f.metadataURL = true, true, metadata(t, true, "")
	d := f.open(func(c *Config) { c.InstanceTimeout = time.Second })
	req := request(oneL4, cloudtest.Offers(t, d, oneL4)[0], 0)
	// The script looks at all processes of the computer, where other tests have their nodes.
	req.Nodes[0].Name = "p1-" + strings.ToLower(rand.Text())
	got, err := d.Launch(t.Context(), req)
	if err != nil {
		t.Fatal(err)
	}
	in := got[0]
	var machine *fakecloud.Machine
	f.Do(func() {
		if v, ok := f.instances.Get(nil, in.ID); ok {
			machine = v.machine
		}
	})
	if machine == nil {
		return // it is gone already
	}
	select {
	case <-machine.Down():
	case <-time.After(patience):
		t.Error("the machine goes on")
	}
	if live := f.live(); len(live) != 0 {
		t.Errorf("left: %v", live)
	}
}

// One that was taken over is left to its lease.
func TestNodeThatIsTakenOver(t *testing.T) {
	t.Parallel()
	f := startFake(t)
	d := f.open(func(c *Config) { c.InstanceTimeout = time.Second })
	m := fakecloud.NewMachine(t, fakecloud.MachineConfig{AuthorizedKey: cloudtest.PoolKey})
	name := "p1-" + strings.ToLower(rand.Text())
	work := on(t, m, "sleep 600", "")
	work.Env = append(work.Env, "GPUTRAIN_NODE="+name)
	if err := work.Start(); err != nil {
		t.Fatal(err)
	}
	defer func() { _ = work.Wait() }()
	defer func() { _ = work.Process.Kill() }()
	if out, err := on(t, m, d.startScript(instanceID(testZone, name), name)+"wait\n", "127.0.0.1:1").CombinedOutput(); err != nil {
		t.Errorf("%v: %s", err, out)
	}
	if state, why := m.State(); state != fakecloud.Up {
		t.Errorf("it is %v: %s", state, why)
	}
}

func TestPreemptionWatch(t *testing.T) {
	needsCurl(t)
	t.Parallel()
	f := startFake(t)
	d := f.open()
	m := fakecloud.NewMachine(t, fakecloud.MachineConfig{AuthorizedKey: cloudtest.PoolKey})
	for answer, want := range map[string]string{"TRUE": "30\n", "FALSE": "", "": ""} {
		out, err := on(t, m, d.PreemptionWatch(gputrain.Instance{}), metadata(t, false, answer)).Output()
		if err != nil || string(out) != want {
			t.Errorf("%q: %q, %v", answer, out, err)
		}
	}
	if out, err := on(t, m, d.PreemptionWatch(gputrain.Instance{}), "127.0.0.1:1").Output(); err != nil || len(out) != 0 {
		t.Errorf("without a metadata server: %q, %v", out, err)
	}
}
