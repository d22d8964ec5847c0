package scaleway

import (
	"encoding/json"
	"errors"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/gputrain/gputrain"
	"github.com/gputrain/gputrain/accelerators"
	"github.com/gputrain/gputrain/internal/sshkey"
	"github.com/gputrain/gputrain/internal/test/fakecloud"
	"github.com/gputrain/gputrain/providers/driver"
	"github.com/gputrain/gputrain/providers/internal/cloud"
	"github.com/gputrain/gputrain/providers/internal/cloudtest"
)

var l4 = gputrain.Spec{Accelerator: accelerators.L4()}

// A server is created, then its volume is marked and its boot data is written, and only then
// it starts. The volume has a size.
func TestStartOfThreeSteps(t *testing.T) {
	t.Parallel()
	f := startFake(t)
	d := cloudtest.Open(t, f.config())
	spec := l4
	spec.DiskGiB = 250
	in := cloudtest.MustLaunch(t, d, spec.Query(), 0)
	var steps []string
	for _, r := range f.Records(opCreate, opTagVolume, opUserData, opAction) {
		steps = append(steps, r.Op)
	}
	if want := []string{opCreate, opTagVolume, opUserData, opAction}; !slices.Equal(steps, want) {
		t.Errorf("the steps are %q, want %q", steps, want)
	}
	var made createServer
	if err := json.Unmarshal([]byte(f.Records(opCreate)[0].Body), &made); err != nil {
		t.Fatal(err)
	}
	if size := made.Volumes["0"].Size; size < 250<<30 || size%512 != 0 || size > 251<<30 {
		t.Errorf("the volume has %d bytes", size)
	}
	if !slices.Contains(made.Tags, "AUTHORIZED_KEY="+strings.ReplaceAll(cloudtest.PoolKey, " ", "_")) {
		t.Errorf("the tags are %q", made.Tags)
	}
	if !strings.HasPrefix(in.ID, testZone+"/") {
		t.Errorf("the ID %q does not have the zone", in.ID)
	}
	for _, r := range f.Records() {
		if strings.Contains(r.Body, "PRIVATE KEY") && r.Op != opUserData {
			t.Errorf("the host key is in %s", r.Op)
		}
	}
}

// A root volume without a size would have the image's 10 GB.
func TestDefaultDisk(t *testing.T) {
	if got := diskBytes(driver.Query{}); got != 100e9 {
		t.Errorf("%d bytes", got)
	}
}

// A zone may be out of stock at the start, when the server and its volume exist: both are
// deleted.
func TestServerThatCannotBeStartedIsDeleted(t *testing.T) {
	t.Parallel()
	for name, fault := range map[string]fakecloud.Fault{
		"out of stock": {},
		"user data":    {Op: opUserData, Answer: failure(403, "permissions_denied", "insufficient permissions", nil)},
		"volume tag":   {Op: opTagVolume, Answer: failure(403, "permissions_denied", "insufficient permissions", nil)},
		"gone":         {Op: opAction, Answer: failure(404, "unknown_resource", "not found", nil)},
	} {
		f := startFake(t)
		if name == "out of stock" {
			f.room = 0
		} else {
			f.Inject(fault)
		}
		got, err := cloudtest.Launch(t, cloudtest.Open(t, f.config()), l4.Query(), 0)
		if len(got) != 0 || err == nil {
			t.Errorf("%s: %+v, %v", name, got, err)
		}
		if name == "out of stock" {
			cloudtest.Is(t, err, driver.ErrNoCapacity, "scaleway", "launch", testKey)
		}
		if left := f.account(); len(left) > 0 {
			t.Errorf("%s: there is %+v", name, left)
		}
	}
}

// A start whose answer is lost is not repeated: the server's state shows whether it took
// effect.
func TestStartWithoutItsAnswer(t *testing.T) {
	t.Parallel()
	for name, after := range map[string]bool{"done": true, "not done": false} {
		f := startFake(t)
		f.Inject(fakecloud.Fault{Op: opAction, After: after, Cut: true})
		got, err := cloudtest.Launch(t, cloudtest.Open(t, f.config()), l4.Query(), 0)
		if starts := len(f.Records(opAction)); starts != 1 {
			t.Errorf("%s: started %d times", name, starts)
		}
		if after != (err == nil && len(got) == 1) || len(f.account()) != 2*len(got) {
			t.Errorf("%s: %+v, %v, %+v", name, got, err, f.account())
		}
	}
}

// If the answer to a create is lost, the server is found and started.
func TestServerThatIsFoundIsStarted(t *testing.T) {
	t.Parallel()
	f := startFake(t)
	f.Inject(fakecloud.Fault{Op: opCreate, After: true, Cut: true})
	d := cloudtest.Open(t, f.config())
	in := cloudtest.MustLaunch(t, d, l4.Query(), 0)
	if now := cloudtest.Describe(t, d, in.ID); now.State != driver.InstanceRunning {
		t.Errorf("%+v", now)
	}
}

// A running server is reported as running only once its fingerprints are published, or after
// the longest wait for them. It must show the key that it got or a published one.
func TestHostKeys(t *testing.T) {
	t.Parallel()
	for name, tt := range map[string]struct {
		quiet    int
		replaced bool
		pending  bool
		waits    bool
	}{
		"published at once":    {},
		"published in a while": {quiet: 3, pending: true},
		"never published":      {quiet: -1, pending: true, waits: true},
		"of the image's own":   {replaced: true},
	} {
		t.Run(name, func(t *testing.T) {
			f := startFake(t)
			f.quiet, f.replaced = tt.quiet, tt.replaced
			d := cloudtest.Open(t, f.config())
			began := time.Now()
			in := cloudtest.MustLaunch(t, d, l4.Query(), 0)
			now := cloudtest.Describe(t, d, in.ID)
			if slow := tt.pending && time.Since(began) >= fingerprintsWait(); (now.State == driver.InstancePending) != tt.pending && !slow {
				t.Fatalf("at once it is %v: %s", now.State, now.StateReason)
			}
			for now.State == driver.InstancePending && time.Since(began) < 20*time.Second {
				time.Sleep(time.Millisecond)
				now = cloudtest.Describe(t, d, in.ID)
			}
			if waited := time.Since(began) >= fingerprintsWait(); tt.waits && !waited || now.State != driver.InstanceRunning {
				t.Errorf("it is %v after %v", now.State, time.Since(began))
			}
			var machine *fakecloud.Machine
			f.Do(func() { machine = f.servers.All(nil)[0].machine })
			print, err := sshkey.Fingerprint(machine.HostKey)
			if err != nil {
				t.Fatal(err)
			}
			// The injected key is accepted, and the image's own, if it has one.
			want := 1
			if tt.replaced {
				want = 2
			}
			if keys := now.SSH.HostKeys; len(keys) != want || !slices.ContainsFunc(keys, func(k string) bool { f, _ := sshkey.Fingerprint(k); return f == print }) {
				t.Errorf("the host keys are %q", keys)
			}
		})
	}
}

// MarkLease keeps a user's own tags, and skips a server whose gputrain tags were edited.
func TestMarkLease(t *testing.T) {
	t.Parallel()
	f := startFake(t)
	d := cloudtest.Open(t, f.config())
	in, edited := cloudtest.MustLaunch(t, d, l4.Query(), 0), cloudtest.MustLaunch(t, d, l4.Query(), 1)
	f.set(in.ID, row{"tags": append(f.old(in.ID), "cost-centre-7")})
	f.set(edited.ID, row{"tags": []string{"mine"}})
	until := time.Unix(1_900_000_000, 0)
	if err := d.(driver.LeaseMarker).MarkLease(t.Context(), cloudtest.Info("p1"), until, in.ID, edited.ID, testZone+"/"+newID(0xf0, 1)); err != nil {
		t.Error(err)
	}
	changes := f.Records(opUpdate)
	if len(changes) != 1 || !strings.Contains(changes[0].Body, "cost-centre-7") || !strings.Contains(changes[0].Body, keyTag) || !strings.Contains(changes[0].Body, "gputrain-until-1900000000") {
		t.Errorf("%+v", changes)
	}
}

// The API's answer about refused user data contains the private host key: no error shows it.
func TestSecretsOfAnswers(t *testing.T) {
	t.Parallel()
	f := startFake(t)
	d := cloudtest.Open(t, f.config())
	req := cloudtest.Request(t, l4.Query(), cloudtest.AllOffers(t, d, l4.Query())[0], 0)
	key := string(req.Nodes[0].HostKey.Private)
	text, err := cloud.UserData(req.Pool, req.Nodes[0], true, nil)
	if err != nil {
		t.Fatal(err)
	}
	f.Inject(fakecloud.Fault{Op: opUserData, Answer: failure(400, "invalid_arguments", "cannot parse "+text, nil)})
	_, err = d.Launch(t.Context(), req)
	cloudtest.Is(t, err, driver.ErrInvalid, "scaleway", "launch", key, strings.Split(key, "\n")[2])
}

// An offer of another provider is refused before anything is made.
func TestOffersOfOthers(t *testing.T) {
	t.Parallel()
	f := startFake(t)
	d := cloudtest.Open(t, f.config())
	for _, id := range []string{"", "fr-par-2/L4-1-24G", "paris/L4-1-24G/" + testImage, "fr-par-2//" + testImage, "fr-par-2/L4-1-24G/image"} {
		_, err := d.Launch(t.Context(), cloudtest.Request(t, l4.Query(), driver.Offer{ID: id}, 0))
		cloudtest.Is(t, err, driver.ErrInvalid, "scaleway", "launch")
	}
	if len(f.Records(opCreate)) > 0 {
		t.Error("a server was made")
	}
}

func FuzzFingerprints(f *testing.F) {
	const one = "SHA256:ohD8VZEXGWo6Ez8GSEJQ9WpafgLFsOfLOtGGQCQo6Og"
	for text, n := range map[string]int{
		"": 0, "256 " + one + " root@host (ED25519)\n": 1, one + " " + one: 1, "256 MD5:aa:bb root@host": 0, one[:30]: 0, one + "A": 0,
	} {
		if got := fingerprints(text); len(got) != n {
			f.Errorf("%q has %q", text, got)
		}
		f.Add(text)
	}
	f.Fuzz(func(t *testing.T, text string) {
		for _, print := range fingerprints(text) {
			if got, err := sshkey.Fingerprint(print); err != nil || got != print || !strings.Contains(text, print) {
				t.Errorf("%q: %v", print, err)
			}
		}
	})
}

// A used-up quota is named, and where a larger one is asked for.
func TestQuotaIsUsedUp(t *testing.T) {
	t.Parallel()
	f := startFake(t)
	f.quota = 0
	_, err := cloudtest.Launch(t, cloudtest.Open(t, f.config()), l4.Query(), 0)
	if e, _ := errors.AsType[*driver.Error](err); e == nil || e.Kind != driver.ErrQuota || !strings.Contains(e.Hint, "identity") || !strings.Contains(err.Error(), "cp_servers_type_L4_1_24G") {
		t.Errorf("%v", err)
	}
}
