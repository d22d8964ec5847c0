package container

import (
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/gputrain/gputrain"
	"github.com/gputrain/gputrain/providers/driver"
)

func TestParseNetworks(t *testing.T) {
	for _, d := range []dialect{docker, podman} {
		got, err := d.parseNetworks(sample(t, d.file("network")))
		if err != nil || len(got) != 1 {
			t.Fatalf("%s: %+v %v", d, got, err)
		}
		r := resource("network", "id", got[0].Name, got[0].Labels)
		created := time.Date(2026, 11, 22, 6, 40, 0, 0, time.UTC)
		if r.Name != "gputrain-sample" || r.Pool != "sample" || r.Owner != "host/1/2" || r.Lease != 15*time.Minute ||
			!r.Created.Equal(created) || !r.Expires.Equal(created.Add(10*time.Hour)) {
			t.Errorf("%s: %+v", d, r)
		}
	}
	for _, odd := range []string{"", "{}", `[{"Labels":{}}]`} {
		if got, err := docker.parseNetworks([]byte(odd)); err == nil {
			t.Errorf("%q is %+v", odd, got)
		}
	}
}

func TestLabelsThatSayNothing(t *testing.T) {
	for _, lease := range []string{"", "-1", "NaN", "Inf", "1e300", "9223372037", "soon"} {
		r := resource("machine", "id", "name", map[string]string{labelPool: "p", labelLease: lease, labelExpires: "soon", labelCreated: ""})
		if r.Lease != 0 || !r.Expires.IsZero() || !r.Created.IsZero() || r.Pool != "p" {
			t.Errorf("%q: %+v", lease, r)
		}
	}
}

// listing returns a driver whose engine answers List from files.
func listing(t *testing.T, answers map[string]string) (d *containerDriver, calls func() []string) {
	t.Helper()
	dir := t.TempDir()
	for name, text := range answers {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	log := filepath.Join(dir, "calls")
	path := fakeEngine(t, `cd '`+dir+`' || exit 1
		echo "$*" >>calls
		case "$*" in
		"ps "*) cat ps ;;
		"inspect "*) cat inspect ;;
		"network ls "*) cat ls ;;
		"network inspect gone") echo 'Error: No such network: gone' >&2; exit 1 ;;
		"network inspect gone "* | "network inspect "*" gone") echo '[]'; echo 'Error: No such network: gone' >&2; exit 1 ;;
		"network inspect gputrain-sample") cat network ;;
		"network inspect "*) echo 'Cannot connect to the Docker daemon' >&2; exit 1 ;;
		esac`)
	return &containerDriver{engine: &engine{path: path}}, func() []string {
		made, err := os.ReadFile(log)
		if err != nil {
			t.Fatal(err)
		}
		return strings.Split(strings.TrimSpace(string(made)), "\n")
	}
}

func TestListEveryPool(t *testing.T) {
	const id = "2bf052570b227e723ba66a83bd9835717ae7d66bdf19f176cb35caa703ee621e"
	answers := map[string]string{"ps": id + "\n", "inspect": string(sample(t, "docker-inspect.json")),
		"ls": "gputrain-sample\ngone\n", "network": string(sample(t, "docker-network.json"))}
	d, calls := listing(t, answers)
	got, err := d.List(t.Context(), "")
	if err != nil || len(got) != 2 {
		t.Fatalf("listed %+v, %v", got, err)
	}
	if m := got[0]; m.Kind != "machine" || m.ID != id || m.Pool != "sample" || m.State != driver.InstanceRunning || m.Owner != "" {
		t.Errorf("%+v", m)
	}
	if n := got[1]; n.Kind != "network" || n.ID != "gputrain-sample" || n.Pool != "sample" || n.State != driver.InstanceUnknown || n.Owner != "host/1/2" {
		t.Errorf("%+v", n)
	}
	made := calls()
	for _, want := range []string{
		"ps --all --quiet --no-trunc --filter label=gputrain.pool",
		"network ls --filter label=gputrain.pool --format {{.Name}}",
	} {
		if !slices.Contains(made, want) {
			t.Errorf("the engine was asked %q; want %q among it", made, want)
		}
	}

	// A container that a user labelled is no pool's.
	answers["inspect"] = strings.ReplaceAll(answers["inspect"], `"gputrain.pool": "sample"`, `"gputrain.pool": "My Pool"`)
	d, _ = listing(t, answers)
	if got, err := d.List(t.Context(), ""); err != nil || len(got) != 1 || got[0].Kind != "network" {
		t.Errorf("listed %+v, %v", got, err)
	}
	answers["ls"] = "another\n"
	d, _ = listing(t, answers)
	if got, err := d.List(t.Context(), ""); !errors.Is(err, driver.ErrUnavailable) || got != nil {
		t.Errorf("an engine that fails: %+v, %v", got, err)
	}
}

// Another program lists everything with the engine's data alone.
func TestListByAnotherProgram(t *testing.T) {
	long(t)
	onEngines(t, testListByAnotherProgram)
}

func testListByAnotherProgram(t *testing.T, binary string) {
	r := newRig(t, Config{Binary: binary})
	r.pool.Lease = 90 * time.Second
	node := r.up(1, gputrain.Spec{})[0]
	other, err := Config{Binary: binary}.Open(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if a, b := r.driver.Capabilities().Account, other.Capabilities().Account; a == "" || a != b {
		t.Errorf("one engine, two accounts: %q and %q", a, b)
	}
	for _, pool := range []string{"", r.pool.ID} {
		all, err := other.List(t.Context(), pool)
		if err != nil {
			t.Fatal(err)
		}
		ours := slices.DeleteFunc(all, func(res driver.Resource) bool { return res.Pool != r.pool.ID })
		if len(ours) != 2 || ours[0].ID != node.ID || ours[0].State != driver.InstanceRunning ||
			ours[1].Kind != "network" || ours[1].ID != networkName(r.pool.ID) {
			t.Errorf("pool %q: listed %+v", pool, ours)
		}
		for _, res := range ours {
			if res.Owner != r.pool.Owner || res.Lease != r.pool.Lease || res.Created.IsZero() ||
				!res.Expires.Equal(r.pool.Expires.Truncate(time.Second)) {
				t.Errorf("pool %q: listed %+v", pool, res)
			}
		}
	}
}
