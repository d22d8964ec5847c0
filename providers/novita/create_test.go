package novita

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/gputrain/gputrain/accelerators"
	"github.com/gputrain/gputrain/internal/test/fakecloud"
	"github.com/gputrain/gputrain/providers/driver"
	"github.com/gputrain/gputrain/providers/internal/cloudtest"
)

func TestUbuntu(t *testing.T) {
	if got := Ubuntu("24.04", "12.9.1"); got != DefaultImage {
		t.Errorf("%s", got)
	}
	if got := Ubuntu("22.04", "12.4.1"); got != "nvcr.io/nvidia/cuda:12.4.1-runtime-ubuntu22.04" {
		t.Errorf("%s", got)
	}
}

// While no machine's driver supports an image, one with an older CUDA is tried, with a lower
// requirement for the driver.
func TestWalkDown(t *testing.T) {
	t.Parallel()
	f := startFake(t)
	f.cuda = "12.4"
	cloudtest.MustLaunch(t, cloudtest.Open(t, f.config()), rtx4090.Query(), 0)
	var tried []string
	for _, in := range f.asked() {
		tried = append(tried, in.MinCUDAVersion+" "+strings.TrimPrefix(in.ImageURL, "nvcr.io/nvidia/cuda:"))
	}
	want := []string{
		"12.9 12.9.1-runtime-ubuntu24.04", "12.8 12.8.1-runtime-ubuntu24.04", "12.6 12.6.3-runtime-ubuntu24.04",
		"12.5 12.5.1-runtime-ubuntu24.04", "12.4 12.4.1-runtime-ubuntu22.04",
	}
	if !slices.Equal(tried, want) {
		t.Errorf("%q, want %q", tried, want)
	}
}

// Only a lack of machines leads on to an older CUDA.
func TestWalkDownStops(t *testing.T) {
	t.Parallel()
	f := startFake(t)
	d := cloudtest.Open(t, f.config())
	for _, answer := range []fakecloud.Answer{
		failure(400, "BALANCE_NOT_ENOUGH", "balance not enough"),
		failure(400, "IMAGE_NOT_FOUND", "no such image"),
		failure(500, "UNKNOWN", "unknown"),
		failure(503, "INSUFFICIENT_RESOURCE", "insufficient resource"), // the failed call may have made it
	} {
		before := len(f.Records(opCreate))
		f.Inject(fakecloud.Fault{Op: opCreate, Answer: answer})
		if got, err := cloudtest.Launch(t, d, rtx4090.Query(), 0); err == nil || len(got) > 0 || len(f.Records(opCreate)) != before+1 {
			t.Errorf("%v: %+v, %v, %d attempts", answer.Body, got, err, len(f.Records(opCreate))-before)
		}
	}
	f.room = 0
	before := len(f.Records(opCreate))
	_, err := cloudtest.Launch(t, d, rtx4090.Query(), 0)
	cloudtest.Is(t, err, driver.ErrNoCapacity, "novita", "launch", testKey)
	if n := len(f.Records(opCreate)) - before; n != 10 {
		t.Errorf("%d attempts, from 12.9 to 11.8", n)
	}
}

func TestSteps(t *testing.T) {
	old, blackwell := accelerators.RTX4090(), accelerators.RTX5090()
	for _, tt := range []struct {
		image, cuda string
		a           accelerators.Accelerator
		first, last step
		n           int
	}{
		{"", "", old, step{DefaultImage, "12.9"}, step{Ubuntu("22.04", "11.8.0"), "11.8"}, 10},
		{"", "", blackwell, step{DefaultImage, "12.9"}, step{Ubuntu("24.04", "12.8.1"), "12.8"}, 2},
		{"", "12.4", old, step{Ubuntu("22.04", "12.4.1"), "12.4"}, step{Ubuntu("22.04", "12.4.1"), "12.4"}, 1},
		{"", "12.7", old, step{Ubuntu("24.04", "12.6.3"), "12.7"}, step{Ubuntu("24.04", "12.6.3"), "12.7"}, 1},
		{"", "13.1", old, step{Ubuntu("24.04", "13.0.2"), "13.1"}, step{Ubuntu("24.04", "13.0.2"), "13.1"}, 1},
		{"", "12.2", blackwell, step{Ubuntu("24.04", "12.8.1"), "12.8"}, step{Ubuntu("24.04", "12.8.1"), "12.8"}, 1},
		{"mine:1", "", old, step{"mine:1", "12.9"}, step{"mine:1", "12.9"}, 1},
		{"nvidia/cuda:12.6.3-devel-ubuntu24.04", "", old, step{"nvidia/cuda:12.6.3-devel-ubuntu24.04", "12.6"}, step{"nvidia/cuda:12.6.3-devel-ubuntu24.04", "12.6"}, 1},
		{"mine:1", "12.1", blackwell, step{"mine:1", "12.1"}, step{"mine:1", "12.1"}, 1},
		{"", "10.2", old, step{}, step{}, 0},
	} {
		all := steps(tt.image, tt.cuda, tt.a)
		if len(all) != tt.n || tt.n > 0 && (all[0] != tt.first || all[tt.n-1] != tt.last) {
			t.Errorf("%q, %q, %v: %v", tt.image, tt.cuda, tt.a, all)
		}
	}
}

// A create always has the kind, and never ports or a command.
func TestCreate(t *testing.T) {
	t.Parallel()
	f := startFake(t)
	cfg := f.config()
	cfg.ClusterID, cfg.Image, cfg.MinCUDAVersion, cfg.RootFSSize = "us-ca-6", "mine:1", "12.2", 70
	spec := rtx4090
	spec.Accelerator.Count = 2
	cloudtest.MustLaunch(t, cloudtest.Open(t, cfg), spec.Query(), 3)
	want := create{
		Name: f.asked()[0].Name, ProductID: "4090.16c62g", GPUNum: 2, RootFSSize: 70, ImageURL: "mine:1", Kind: "gpu", BillingMode: "onDemand",
		ClusterID: "us-ca-6", MinCUDAVersion: "12.2",
	}
	if got := f.asked()[0]; got != want || !strings.HasPrefix(got.Name, "gputrain-p1-3-c") {
		t.Errorf("%+v", got)
	}
	spec.DiskGiB = 6000 // 6443 GB
	if _, err := cloudtest.Open(t, cfg).Launch(t.Context(), cloudtest.Request(t, spec.Query(), driver.Offer{ID: "onDemand/1//4090.16c62g"}, 0)); !errors.Is(err, driver.ErrInvalid) {
		t.Errorf("%v", err)
	}
}

// The answer to a create may spell the ID differently, and a 200 may be a failure.
func TestAnswersToACreate(t *testing.T) {
	t.Parallel()
	f := startFake(t)
	d := cloudtest.Open(t, f.config())
	for _, body := range []row{{"Id": "29ee"}, {"instanceId": "29ee"}, {"id": "29ee"}} {
		f.Inject(fakecloud.Fault{Op: opCreate, Answer: fakecloud.Reply(200, body)})
		if in := cloudtest.MustLaunch(t, d, rtx4090.Query(), 0); in.ID != "29ee" {
			t.Errorf("%v: %s", body, in.ID)
		}
	}
	f.Inject(fakecloud.Fault{Op: opCreate, Answer: failure(200, "CREATE_INSTANCE_LIMIT", "too many")})
	_, err := cloudtest.Launch(t, d, rtx4090.Query(), 0)
	cloudtest.Is(t, err, driver.ErrQuota, "novita", "launch", testKey)
}

// A registry's login is in the create call alone.
func TestRegistry(t *testing.T) {
	f := startFake(t)
	cfg := f.config()
	cfg.Image, cfg.RegistryUser, cfg.RegistryPassword = "registry.example.com/mine:1", "robot", "env://REGISTRY_PASSWORD"
	t.Setenv("REGISTRY_PASSWORD", registryPassword+"\n")
	d := cloudtest.Open(t, cfg)
	in := cloudtest.MustLaunch(t, d, rtx4090.Query(), 0)
	if got := f.asked()[0]; got.ImageAuth != "robot:"+registryPassword || got.ImageAuthID != "" {
		t.Errorf("%+v", got)
	}
	for _, r := range f.Records() {
		if r.Op != opCreate && strings.Contains(r.Body, registryPassword) {
			t.Errorf("%s has the password", r.Op)
		}
	}
	if text := fmt.Sprintf("%+v %#v %+v", d, d, in); strings.Contains(text, registryPassword) {
		t.Error("the driver shows the password")
	}
	f.Inject(fakecloud.Fault{Op: opCreate, Answer: failure(400, "IMAGE_NOT_FOUND", "cannot log in as robot:"+registryPassword)})
	_, err := cloudtest.Launch(t, d, rtx4090.Query(), 1)
	cloudtest.Is(t, err, driver.ErrInvalid, "novita", "launch", registryPassword)
	t.Setenv("REGISTRY_PASSWORD", "")
	_, err = cfg.Open(t.Context())
	cloudtest.Is(t, err, driver.ErrAuth, "novita", "open")

	// The same for the image of a spec.
	named := rtx4090.Query()
	named.Image = "registry.example.com/theirs:2-cuda12.4"
	nd := cloudtest.Open(t, f.config())
	req := cloudtest.Request(t, named, cloudtest.Offers(t, nd, named)[0], 3)
	req.ImageLogin = driver.ImageLogin{User: "robot", Password: "another-" + registryPassword}
	asked := len(f.asked())
	made, err := nd.Launch(t.Context(), req)
	cloudtest.One(t, made, err)
	if got := f.asked()[asked]; got.ImageURL != named.Image || got.MinCUDAVersion != "12.4" || got.ImageAuth != "robot:another-"+registryPassword || got.ImageAuthID != "" {
		t.Errorf("%+v", got)
	}

	stored := f.config()
	stored.Image, stored.RegistryAuthID = "mine:1", "auth-7"
	before := len(f.asked())
	cloudtest.MustLaunch(t, cloudtest.Open(t, stored), rtx4090.Query(), 2)
	if got := f.asked()[before]; got.ImageAuth != "" || got.ImageAuthID != "auth-7" {
		t.Errorf("%+v", got)
	}
	for says, change := range map[string]func(*Config){
		"without Image":        func(c *Config) { c.RegistryUser, c.RegistryPassword = "u", "p" },
		"without Image; it":    func(c *Config) { c.RegistryAuthID = "a" },
		"only one of":          func(c *Config) { c.Image, c.RegistryUser = "mine:1", "u" },
		"only one of Registry": func(c *Config) { c.Image, c.RegistryPassword = "mine:1", "p" },
		"contains a blank":     func(c *Config) { c.Image, c.RegistryUser, c.RegistryPassword = "mine:1", "a:b", "p" },
		"are both set": func(c *Config) {
			c.Image, c.RegistryUser, c.RegistryPassword, c.RegistryAuthID = "mine:1", "u", "p", "a"
		},
		`RegistryAuthID "a b" co`: func(c *Config) { c.Image, c.RegistryAuthID = "mine:1", "a b" },
	} {
		c := f.config()
		change(&c)
		_, err := c.Open(t.Context())
		cloudtest.Is(t, err, driver.ErrInvalid, "novita", "open")
		if err == nil || !strings.Contains(err.Error(), says) {
			t.Errorf("%v; want %q", err, says)
		}
	}
}
