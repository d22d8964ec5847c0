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

	"github.com/gputrain/gputrain/internal/test/fakecloud"
	"github.com/gputrain/gputrain/providers/driver"
	"github.com/gputrain/gputrain/providers/internal/cloudtest"
)

// A test waits for an event for at most eventTimeout.
const eventTimeout = 30 * time.Second

// metadata starts a machine's metadata server, which gives out tokens if the machine
// has an identity. It returns its host and port.
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
		t.Skip("no curl on this machine, which Google's images have: install curl")
	}
}

// on returns a command that runs a script as the processes of a fake's machine run.
func on(t *testing.T, m *fakecloud.Machine, text, metadata string) *exec.Cmd {
	cmd := exec.CommandContext(t.Context(), "sh", "-c", text)
	dir := filepath.Dir(m.Home)
	cmd.Env = []string{"HOME=" + m.Home, "PATH=" + filepath.Join(dir, "bin") + ":" + os.Getenv("PATH"), "FAKECLOUD_MACHINE=" + dir, "GCE_METADATA_HOST=" + metadata}
	return cmd
}

// A machine with an identity deletes itself. If that fails, it shuts down.
func TestSelfDestruct(t *testing.T) {
	needsCurl(t)
	t.Parallel()
	for name, identity := range map[string]bool{"with an identity": true, "without": false} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			f := startFake(t)
			f.selfDelete = true
			d := f.open(func(c *Config) { c.ServiceAccount = "node@p.iam.gserviceaccount.com" })
			if text := f.open().Scripts(driver.Instance{ID: testZone + "/p1-0"}).SelfDestruct; text != "" {
				t.Error("a machine without an identity is said to end itself")
			}
			in := mustLaunch(t, d, oneL4, 0)
			var machine *fakecloud.Machine
			f.Do(func() {
				v, _ := f.instances.Get(nil, in.ID)
				machine = v.machine
			})
			text := d.Scripts(in).SelfDestruct
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
			case <-time.After(eventTimeout):
				t.Error("the machine goes on")
			}
			_ = cmd.Process.Kill() // if the machine's end did not end it
			if live := f.live(); (len(live) == 0) != identity {
				t.Errorf("left: %v", live)
			}
			if _, why := machine.State(); !identity && !strings.HasPrefix(why, "shutdown") {
				t.Errorf("it is down by %q", why)
			}
		})
	}
}

// An unclaimed node ends itself.
func TestUnclaimedNode(t *testing.T) {
	needsCurl(t)
	t.Parallel()
	f := startFake(t)
	f.runScripts, f.selfDelete, f.metadataURL = true, true, metadata(t, true, "")
	d := f.open(func(c *Config) { c.InstanceTimeout = time.Second })
	req := request(oneL4, cloudtest.AllOffers(t, d, oneL4.Query())[0], 0)
	// The script looks at all processes of this computer, and other tests have nodes on it.
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
		return // the machine is gone already
	}
	select {
	case <-machine.Down():
	case <-time.After(eventTimeout):
		t.Error("the machine goes on")
	}
	if live := f.live(); len(live) != 0 {
		t.Errorf("left: %v", live)
	}
}

// A node that was taken over does not end itself while its lease, or its program, lasts. It ends once
// nothing of those is left on it for as long as it may be unclaimed.
func TestNodeThatIsTakenOver(t *testing.T) {
	t.Parallel()
	f := startFake(t)
	d := f.open(func(c *Config) { c.InstanceTimeout = time.Second })
	m := fakecloud.NewMachine(t, fakecloud.MachineConfig{AuthorizedKey: cloudtest.PoolKey})
	name := "p1-" + strings.ToLower(rand.Text())
	work := on(t, m, "exec sleep 600", "")
	work.Env = append(work.Env, "GPUTRAIN_NODE="+name)
	if err := work.Start(); err != nil {
		t.Fatal(err)
	}
	defer func() { _ = work.Process.Kill() }()
	script := strings.ReplaceAll(d.cfg.startScript(instanceID(testZone, name), name), "gcp_step=10", "gcp_step=1")
	if out, err := on(t, m, script, "127.0.0.1:1").CombinedOutput(); err != nil {
		t.Errorf("%v: %s", err, out)
	}
	select {
	case <-m.Down():
		t.Error("it ends although it was taken over")
	case <-time.After(3 * time.Second): // the script looks every second, and may wait for one
	}
	_ = work.Process.Kill()
	_ = work.Wait()
	select {
	case <-m.Down():
	case <-time.After(eventTimeout):
		t.Error("it goes on, and no program has it any more")
	}
}

func TestPreemptionWatch(t *testing.T) {
	needsCurl(t)
	t.Parallel()
	f := startFake(t)
	d := f.open()
	m := fakecloud.NewMachine(t, fakecloud.MachineConfig{AuthorizedKey: cloudtest.PoolKey})
	for answer, want := range map[string]string{"TRUE": "30\n", "FALSE": "", "": ""} {
		out, err := on(t, m, d.Scripts(driver.Instance{}).PreemptionWatch, metadata(t, false, answer)).Output()
		if err != nil || string(out) != want {
			t.Errorf("%q: %q, %v", answer, out, err)
		}
	}
	if out, err := on(t, m, d.Scripts(driver.Instance{}).PreemptionWatch, "127.0.0.1:1").Output(); err != nil || len(out) != 0 {
		t.Errorf("without a metadata server: %q, %v", out, err)
	}
}
