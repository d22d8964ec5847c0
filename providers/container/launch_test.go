package container

import (
	"encoding/csv"
	"errors"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/gputrain/gputrain/providers/driver"
)

func TestCreateArgs(t *testing.T) {
	req := driver.Launch{
		Pool:  driver.PoolInfo{ID: "p", Owner: "me", Lease: 15 * time.Minute, Expires: time.Date(2030, 1, 2, 3, 4, 5, 0, time.UTC)},
		Query: driver.Query{VCPUs: 1.5, MemoryGiB: 2, DiskGiB: 10, Mounts: []driver.Mount{{Source: "/d", Target: "/t", ReadOnly: true}}},
	}
	node := driver.NodeRequest{Rank: 3, Name: "p-3", HostKey: driver.HostKey{Private: "PRIVATE", Public: "ssh-ed25519 AAAA comment"}}
	cfg := Config{ShmSizeGiB: 1, GPUs: "device=0,1", Devices: []string{"/dev/fuse"}, Labels: map[string]string{"b": "2", "a": "1"},
		RunArgs: []string{"--privileged"}, Platform: "linux/arm64"}
	labels := " --label gputrain.pool=p --label gputrain.owner=me --label gputrain.created=2030-01-02T02:04:05Z" +
		" --label gputrain.lease=900 --label gputrain.expires=2030-01-02T03:04:05Z --label a=1 --label b=2" +
		" --label gputrain.rank=3 --label gputrain.hostkey=ssh-ed25519 AAAA --platform linux/arm64"
	const start = "create --interactive --rm --name p-3 --network gputrain-p"
	const end = " --mount type=bind,source=/d,target=/t,readonly --privileged --user 0:0 --entrypoint sh image -c " + enterScript + " p-3"
	for _, tt := range []struct {
		name  string
		kind  dialect
		facts facts
		want  string
	}{
		{"docker", docker, facts{sizedDisk: true}, start + " --init --pull never --hostname p-3 --network-alias node-3 --publish 127.0.0.1::22" + labels +
			" --cpus 1.5 --memory 2147483648 --memory-swap 2147483648 --shm-size 1073741824 --storage-opt size=10737418240" +
			` --gpus "device=0,1" --device /dev/fuse` + end},
		{"docker elsewhere", docker, facts{remote: true}, start + " --init --pull never --hostname p-3 --network-alias node-3" + labels +
			` --cpus 1.5 --memory 2147483648 --memory-swap 2147483648 --shm-size 1073741824 --gpus "device=0,1" --device /dev/fuse` + end},
		{"podman", podman, facts{}, start + " --init --pull never --hostname p-3 --network-alias node-3 --publish 127.0.0.1::22" + labels +
			" --cpus 1.5 --memory 2147483648 --memory-swap 2147483648 --shm-size 1073741824" +
			" --device nvidia.com/gpu=0 --device nvidia.com/gpu=1 --device /dev/fuse" + end},
		{"nerdctl", nerdctl, facts{}, start + " --init --pull never --hostname p-3 --publish 127.0.0.1::22" + labels +
			` --cpus 1.5 --memory 2147483648 --memory-swap 2147483648 --shm-size 1073741824 --gpus "device=0,1" --device /dev/fuse` + end},
		{"apple", apple, facts{}, start + labels + " --cpus 2 --memory 2048M" + end},
	} {
		cfg := cfg
		if tt.kind == apple {
			cfg.GPUs, cfg.Devices, cfg.ShmSizeGiB = "", nil, 0
		}
		d := &containerDriver{cfg: cfg, engine: &engine{dialect: tt.kind}, facts: tt.facts}
		args, err := d.createArgs(req, node, "image", nil, req.Pool.Expires.Add(-time.Hour).Local())
		if got := strings.Join(args, " "); err != nil || got != tt.want {
			t.Errorf("%s:\n got %s\nwant %s\n%v", tt.name, got, tt.want, err)
		}
		if slices.ContainsFunc(args, func(a string) bool { return strings.Contains(a, "PRIVATE") }) {
			t.Errorf("%s: the host key is in the arguments", tt.name)
		}
	}
}

// The new names come only with their settings: without them the arguments are as before.
func TestCreateArgsOfNames(t *testing.T) {
	node := driver.NodeRequest{Rank: 3, Name: "p-3", HostKey: driver.HostKey{Private: "PRIVATE", Public: "ssh-ed25519 AAAA"}}
	cfg := Config{Network: "lab", NamePrefix: "me.", User: "worker", OwnGPUs: []string{"0", "1"}}
	const labels = " --label gputrain.pool=p --label gputrain.owner= --label gputrain.created=2030-01-02T03:04:05Z --label gputrain.rank=3 --label gputrain.hostkey=ssh-ed25519 AAAA" +
		" --label gputrain.name=p-3 --label gputrain.user=worker --label gputrain.gpus=0,1"
	const end = " --user 0:0 --entrypoint sh image -c " + enterScript + " p-3"
	for kind, want := range map[dialect]string{
		docker: "create --interactive --rm --name me.p-3 --network lab --init --pull never --hostname p-3 --network-alias p-3 --publish 127.0.0.1::22" + labels +
			` --gpus "device=0,1"` + end,
		podman: "create --interactive --rm --name me.p-3 --network lab --init --pull never --hostname p-3 --network-alias p-3 --publish 127.0.0.1::22" + labels +
			" --device nvidia.com/gpu=0 --device nvidia.com/gpu=1" + end,
		nerdctl: "create --interactive --rm --name me.p-3 --network lab --init --pull never --hostname p-3 --publish 127.0.0.1::22" + labels +
			` --gpus "device=0,1"` + end,
	} {
		d := &containerDriver{cfg: cfg, engine: &engine{dialect: kind}}
		args, err := d.createArgs(driver.Launch{Pool: driver.PoolInfo{ID: "p"}}, node, "image", cfg.OwnGPUs, time.Date(2030, 1, 2, 3, 4, 5, 0, time.UTC))
		if got := strings.Join(args, " "); err != nil || got != want {
			t.Errorf("%s:\n got %s\nwant %s\n%v", kind, got, want, err)
		}
	}
}

// The user's tags become labels of the nodes. One that cannot is refused before anything is made.
func TestTags(t *testing.T) {
	d := &containerDriver{engine: &engine{dialect: docker}}
	pool := driver.PoolInfo{ID: "p", AuthorizedKey: "ssh-ed25519 AAAA", Tags: map[string]string{"team": "vision = and more", "cost": "7"}}
	args, err := d.createArgs(driver.Launch{Pool: pool}, driver.NodeRequest{Name: "p-0"}, "image", nil, time.Now())
	if got := strings.Join(args, " "); err != nil || !strings.Contains(got, " --label cost=7 --label team=vision = and more --label gputrain.rank=0 ") {
		t.Errorf("%s, %v", got, err)
	}
	for _, name := range []string{"", "a=b", "gputrain.pool", "x\x00"} {
		pool.Tags = map[string]string{name: "v"}
		if err := d.Prepare(t.Context(), pool); !errors.Is(err, driver.ErrInvalid) {
			t.Errorf("prepared with the tag %q: %v", name, err)
		}
		if _, err := d.Launch(t.Context(), driver.Launch{Pool: pool}); !errors.Is(err, driver.ErrInvalid) {
			t.Errorf("launched with the tag %q: %v", name, err)
		}
	}
}

// Every program describes a node by its container's labels, whatever its own Config.
func TestNodeByItsLabels(t *testing.T) {
	d := &containerDriver{engine: &engine{dialect: docker}}
	in := d.instance(report{name: "me.p-3", labels: map[string]string{labelPool: "p", labelName: "p-3", labelUser: "worker"}})
	if in.Name != "p-3" || in.SSH.User != "worker" || !strings.Contains(d.Scripts(in).SelfDestruct, "/run/gputrain/end") {
		t.Errorf("%+v ends itself by %s", in, d.Scripts(in).SelfDestruct)
	}
	in = d.instance(report{name: "p-3", labels: map[string]string{labelPool: "p"}})
	if in.Name != "p-3" || in.SSH.User != "root" || !strings.HasPrefix(d.Scripts(in).SelfDestruct, "kill -TERM 1;") {
		t.Errorf("%+v ends itself by %s", in, d.Scripts(in).SelfDestruct)
	}
}

func TestGPUs(t *testing.T) {
	for _, tt := range []struct {
		kind       dialect
		gpus, want string
	}{
		{docker, "", ""},
		{docker, "all", "--gpus all"},
		{nerdctl, "2", "--gpus 2"},
		{docker, `"device=0,1"`, `--gpus "device=0,1"`},
		{podman, "all", "--device nvidia.com/gpu=all"},
		{podman, "2", "--device nvidia.com/gpu=0 --device nvidia.com/gpu=1"},
	} {
		d := &containerDriver{cfg: Config{GPUs: tt.gpus}, engine: &engine{dialect: tt.kind}}
		args, err := d.deviceArgs()
		if got := strings.Join(args, " "); err != nil || got != tt.want {
			t.Errorf("%s %q: %q %v", tt.kind, tt.gpus, got, err)
		}
	}
	for _, wrong := range []string{"0", "-1", "many", "--privileged"} {
		d := &containerDriver{cfg: Config{GPUs: wrong}, engine: &engine{}}
		if args, err := d.deviceArgs(); !errors.Is(err, driver.ErrInvalid) {
			t.Errorf("GPUs %q: %q %v", wrong, args, err)
		}
	}
	d := &containerDriver{cfg: Config{GPUs: "all"}, engine: &engine{dialect: apple}}
	if _, err := d.deviceArgs(); !errors.Is(err, driver.ErrUnsupported) {
		t.Errorf("GPUs for Apple's engine: %v", err)
	}
	d.cfg = Config{OwnGPUs: []string{"0"}}
	if _, err := d.deviceArgs(); !errors.Is(err, driver.ErrUnsupported) {
		t.Errorf("OwnGPUs for Apple's engine: %v", err)
	}
}

// The engine's CSV reader returns the fields of a mount unchanged.
func FuzzMountArg(f *testing.F) {
	f.Add("/data", "/data", true)
	f.Add(`/with "quotes", and commas`, "/t", false)
	f.Add("volume", "/new\nline", false)
	f.Fuzz(func(t *testing.T, source, target string, readOnly bool) {
		if strings.Contains(source+target, "\r") || strings.ContainsRune(source+target, 0) {
			t.Skip("no such path reaches the provider")
		}
		record, err := csv.NewReader(strings.NewReader(mountArg(driver.Mount{Source: source, Target: target, ReadOnly: readOnly}))).Read()
		if err != nil || record[1] != "source="+source || record[2] != "target="+target || slices.Contains(record[3:], "readonly") != readOnly {
			t.Errorf("%q %v", record, err)
		}
	})
}
