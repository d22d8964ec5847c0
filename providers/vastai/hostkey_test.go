package vastai

import (
	"errors"
	"strings"
	"testing"

	"github.com/gputrain/gputrain"
	"github.com/gputrain/gputrain/internal/test/fakecloud"
	"github.com/gputrain/gputrain/providers/driver"
)

// A machine is connected to only once its log has its host key, and only by that key.
func TestHostKeyFromTheLog(t *testing.T) {
	t.Parallel()
	f := startFake(t, nil)
	f.logLag = 2
	pool, err := gputrain.Open(t.Context(), f.config(), gputrain.Spec{RequireKnownHostKey: true})
	if err != nil {
		t.Fatal(err)
	}
	defer pool.Close()
	in, _ := f.instances.Get(nil, pool.Nodes()[0].ID)
	if n := pool.Nodes()[0]; n.HostKeySource != driver.HostKeyPublished || n.HostKey == "" {
		t.Errorf("the node's key is %q, by %v", n.HostKey, n.HostKeySource)
	}
	if got := hostKeysIn(in.log, pool.Nodes()[0].Name); len(got) != 1 || !strings.HasPrefix(in.machine.HostKey, got[0]) {
		t.Errorf("the log has %q, want %q", got, in.machine.HostKey)
	}
}

// A server without the log's host key is not the machine: connecting fails with ErrHostKey.
func TestHostKeyOfAnother(t *testing.T) {
	t.Parallel()
	f := startFake(t, nil)
	f.impostors = true
	pool, err := gputrain.Open(t.Context(), f.config(), gputrain.Spec{MaxReplacements: -1})
	if err == nil {
		pool.Close()
	}
	if !errors.Is(err, driver.ErrHostKey) {
		t.Error(err)
	}
}

// A machine whose log has no host key is given up, with a hint on what to do.
func TestSilentLog(t *testing.T) {
	t.Parallel()
	f := startFake(t, nil)
	f.silent = true
	pool, err := gputrain.Open(t.Context(), f.config(), gputrain.Spec{MaxReplacements: -1})
	if err == nil {
		pool.Close()
	}
	if err == nil || !strings.Contains(err.Error(), "Config.TrustFirstContact") {
		t.Error(err)
	}
	if live := f.live(); len(live) > 0 {
		t.Errorf("left: %v", live)
	}
}

// TrustFirstContact reads no log. A spec that requires known host keys rejects its offers.
func TestTrustFirstContact(t *testing.T) {
	t.Parallel()
	f := startFake(t, nil)
	f.silent = true
	cfg := f.config()
	cfg.TrustFirstContact = true
	if plan, err := gputrain.Plan(t.Context(), cfg, gputrain.Spec{RequireKnownHostKey: true}); err != nil || len(plan) == 0 || plan[0].Rejected == "" {
		t.Errorf("%v, %v", plan, err)
	}
	pool, err := gputrain.Open(t.Context(), cfg, gputrain.Spec{})
	if err != nil {
		t.Fatal(err)
	}
	defer pool.Close()
	if n := pool.Nodes()[0]; n.HostKeySource != driver.HostKeyFirstContact || len(f.Records(opLogs)) > 0 {
		t.Errorf("the key is known by %v; %d logs were asked for", n.HostKeySource, len(f.Records(opLogs)))
	}
}

// The API cannot make this program read a local address, read without end, or follow a
// redirect of the log server.
func TestLogOfAStranger(t *testing.T) {
	t.Parallel()
	f := startFake(t)
	d := f.open()
	d.p.client.local = false
	for _, address := range []string{
		"", "http://logs.example.com/1", "https://127.0.0.1:1/x", "https://localhost/x", "https://169.254.169.254/latest/meta-data/",
		"https://u:p@logs.example.com/1", "file:///etc/passwd", "https://%zz",
	} {
		if text, err := d.p.client.log(t.Context(), address); err == nil {
			t.Errorf("%q is read: %q", address, text)
		}
	}
	d.p.client.local = true
	for what, a := range map[string]fakecloud.Answer{
		"too long": fakecloud.Huge(maxLog + 2), "redirected": fakecloud.Reply(302, "").With("Location", f.URL+"/api/v0/users/current/"),
	} {
		in := f.logs.Inject(fakecloud.Fault{Answer: a, Times: -1})
		before := len(f.Records())
		if text, err := d.p.client.log(t.Context(), f.logs.URL+"/logs/1"); err == nil {
			t.Errorf("%s: %q", what, text[:min(len(text), 50)])
		}
		if len(f.Records()) > before {
			t.Errorf("%s: the API was called", what)
		}
		in.Remove()
	}
}

func TestHostKeysIn(t *testing.T) {
	t.Parallel()
	line := hostKeyMark + " p1-0 " + testHostKey
	for log, want := range map[string]int{
		"": 0, line: 1, "a\n" + line + "\r\n" + line + "\n": 1, "2026-08-07T10:00:00Z " + line + " root@c\n": 1,
		hostKeyMark + " p1-1 " + testHostKey:                       0,
		hostKeyMark + " p1-0 ssh-ed25519":                          0,
		hostKeyMark + " p1-0 ssh-ed25519 AAAA":                     0,
		hostKeyMark + " p1-0 ssh-dss " + testHostKey[12:]:          0,
		hostKeyMark + " p1-0 ssh-rsa " + testHostKey[12:]:          0,
		hostKeyMark + " p1-0 ssh-ed25519 not/base64!\n" + line:     1,
		strings.Repeat("\x00\xff"+hostKeyMark, 1000) + "\n" + line: 1,
	} {
		if got := hostKeysIn(log, "p1-0"); len(got) != want || want > 0 && got[0] != testHostKey {
			t.Errorf("%.80q has %q", log, got)
		}
	}
	var many strings.Builder
	for i := range 100 {
		key := strings.Replace(testHostKey, "ECAw", "EC"+string(rune('A'+i%26))+string(rune('A'+i/26)), 1)
		many.WriteString(hostKeyMark + " p1-0 " + key + "\n")
	}
	if got := hostKeysIn(many.String(), "p1-0"); len(got) != maxHostKeys {
		t.Errorf("%d keys are kept", len(got))
	}
}
