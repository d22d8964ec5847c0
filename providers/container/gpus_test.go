//go:build unix

package container

import (
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"

	"github.com/gputrain/gputrain/accelerators"
	"github.com/gputrain/gputrain/providers/driver"
)

// A gpuEngine is a fake engine whose containers are files: an engine with GPUs, of which tests
// have none. If the file "rival" is there, a container with the GPUs in it appears together with
// the next one that is created, as another program's.
type gpuEngine struct {
	t   *testing.T
	dir string
}

const gpuScript = `
mkdir -p c
put() { # put ID NAME LABELS
	printf '{"Id":"%s","Name":"/%s","State":{"Status":"created"},"Config":{"Labels":{%s}},"NetworkSettings":{"Ports":{},"Networks":{}}}' "$1" "$2" "$3" >"new$1" && mv "new$1" "c/$1"
}
case "$1" in
--version) echo 'Docker version 28.0.0, build fake' ;;
info) echo '{"ID":"fake","NCPU":8,"MemTotal":1}' ;;
context) echo '[{"Endpoints":{"docker":{"Host":"unix:///x"}}}]' ;;
image) echo '[{"Id":"sha256:fake","Architecture":"amd64"}]' ;;
network) ;;
create)
	echo "$*" >>creates
	labels='"x":"y"'
	while [ $# -gt 1 ]; do
		case $1 in
		--name) name=$2; shift ;;
		--label) labels="$labels,\"${2%%=*}\":\"${2#*=}\""; shift ;;
		esac
		shift
	done
	id=$(printf '%012x' $$)
	for f in c/*; do
		! grep -q "\"/$name\"" "$f" 2>/dev/null || { echo "Error: the name $name is already in use" >&2; exit 1; }
	done
	put "$id" "$name" "$labels"
	if [ -e rival ]; then
		put "fade$id" rival "\"gputrain.pool\":\"other\",\"gputrain.gpus\":\"$(cat rival)\""
		rm rival
	fi
	echo "$id" ;;
start)
	for id; do :; done
	sed 's/"created"/"running"/' "c/$id" >"new$id" && mv "new$id" "c/$id"
	echo 'Server listening on 0.0.0.0'
	cat >/dev/null ;;
ps)
	for f in c/*; do
		case "$*" in
		*label=gputrain.gpus*) grep -q '"gputrain.gpus"' "$f" || continue ;;
		esac
		[ ! -e "$f" ] || basename "$f"
	done ;;
inspect)
	sep=; list=; missing=
	shift 3
	for id; do
		f=$(grep -l -e "\"Id\":\"$id\"" -e "\"/$id\"" c/* 2>/dev/null)
		text=
		[ -z "$f" ] || text=$(cat "$f")
		if [ -n "$text" ]; then list="$list$sep$text"; sep=,; else missing=$id; fi
	done
	echo "[$list]"
	[ -z "$missing" ] || { echo "Error: No such container: $missing" >&2; exit 1; } ;;
rm) for id; do rm -f "c/$id"; done ;;
*) echo "what is $*?" >&2; exit 1 ;;
esac`

func newGPUEngine(t *testing.T) *gpuEngine { return &gpuEngine{t, t.TempDir()} }

// open returns another program's driver.
func (e *gpuEngine) open(cfg Config) *containerDriver {
	e.t.Helper()
	cfg.Binary = fakeEngine(e.t, "cd '"+e.dir+"' || exit 1\n"+gpuScript)
	d, err := cfg.Open(e.t.Context())
	if err != nil {
		e.t.Fatal(err)
	}
	return d.(*containerDriver)
}

// rival has another program take these GPUs at the moment of the next create.
func (e *gpuEngine) rival(gpus string) {
	e.t.Helper()
	if err := os.WriteFile(filepath.Join(e.dir, "rival"), []byte(gpus), 0o600); err != nil {
		e.t.Fatal(err)
	}
}

// gpuLaunch asks for nodes of a pool with so many GPUs each.
func gpuLaunch(pool string, nodes int, gpus float64) driver.Launch {
	req := driver.Launch{Pool: driver.PoolInfo{ID: pool, AuthorizedKey: "ssh-ed25519 AAAA"}}
	if gpus > 0 {
		req.Offer.Accelerator = accelerators.A100(accelerators.Count(gpus))
	}
	for rank := range nodes {
		name := pool + "-" + strconv.Itoa(rank)
		req.Nodes = append(req.Nodes, driver.NodeRequest{Rank: rank, Name: name, HostKey: driver.HostKey{Private: "key", Public: "ssh-ed25519 " + name}})
	}
	return req
}

// gpusOf returns the GPUs of each container of a pool, as its labels have them.
func gpusOf(t *testing.T, d *containerDriver, pool string) (all []string) {
	t.Helper()
	reports, err := d.engine.containers(t.Context(), pool)
	if err != nil {
		t.Fatal(err)
	}
	for _, r := range reports {
		if r.labels[labelPool] == pool {
			all = append(all, r.gpus()...)
		}
	}
	slices.Sort(all)
	return all
}

func onlyOffer(t *testing.T, d *containerDriver, a accelerators.Accelerator) driver.Offer {
	t.Helper()
	var all []driver.Offer
	for o, err := range d.Offers(t.Context(), driver.Query{Accelerator: a}) {
		if err != nil {
			t.Fatal(err)
		}
		all = append(all, o)
	}
	if len(all) != 1 {
		t.Fatalf("%d offers", len(all))
	}
	return all[0]
}

// Two pools of two programs on one engine never have the same GPU, and a terminated node's GPUs
// are free again.
func TestOwnGPUsAreHandedOutOnce(t *testing.T) {
	e := newGPUEngine(t)
	cfg := Config{OwnGPUs: []string{"0", "1", "2", "3"}}
	first, second := e.open(cfg), e.open(cfg)
	want := accelerators.A100()
	if o := onlyOffer(t, first, want); o.Available != 4 || o.Rejected != "" || !want.Matches(o.Accelerator) {
		t.Errorf("nothing is used: %+v", o)
	}
	nodes, err := first.Launch(t.Context(), gpuLaunch("a", 1, 2))
	if err != nil || len(nodes) != 1 {
		t.Fatal(nodes, err)
	}
	if o := onlyOffer(t, second, want); o.Available != 2 {
		t.Errorf("two of four are used: %+v", o)
	}
	if o := onlyOffer(t, second, accelerators.A100(accelerators.Count(3))); o.Rejected != "has 2 of its 4 GPUs free; a node needs 3" {
		t.Errorf("rejected %q", o.Rejected)
	}
	got, err := second.Launch(t.Context(), gpuLaunch("b", 3, 1))
	if !errors.Is(err, driver.ErrNoCapacity) || len(got) != 2 {
		t.Errorf("a third node on two GPUs: %d nodes, %v", len(got), err)
	}
	if a, b := gpusOf(t, first, "a"), gpusOf(t, first, "b"); !slices.Equal(a, []string{"0", "1"}) || !slices.Equal(b, []string{"2", "3"}) {
		t.Errorf("pool a has %q, pool b %q", a, b)
	}
	creates, err := os.ReadFile(filepath.Join(e.dir, "creates"))
	if err != nil || !strings.Contains(string(creates), `--label gputrain.gpus=0,1`) || !strings.Contains(string(creates), `--gpus "device=0,1"`) {
		t.Errorf("%v: the engine was asked\n%s", err, creates)
	}
	if err := first.Terminate(t.Context(), nodes[0].ID); err != nil {
		t.Fatal(err)
	}
	if o := onlyOffer(t, second, want); o.Available != 2 {
		t.Errorf("after the end of the first: %+v", o)
	}
	if got, err := second.Launch(t.Context(), gpuLaunch("c", 1, 0)); err != nil || len(got) != 1 || len(gpusOf(t, first, "c")) > 0 {
		t.Errorf("a node without GPUs: %v, %v", got, err)
	}
}

// If another program takes a GPU at the same moment, the node gets another one.
func TestOwnGPUsOfTwoProgramsAtOnce(t *testing.T) {
	e := newGPUEngine(t)
	d := e.open(Config{OwnGPUs: []string{"GPU-a", "GPU-b"}})
	e.rival("GPU-a")
	nodes, err := d.Launch(t.Context(), gpuLaunch("a", 1, 1))
	if err != nil || len(nodes) != 1 {
		t.Fatal(nodes, err)
	}
	if got := gpusOf(t, d, "a"); !slices.Equal(got, []string{"GPU-b"}) {
		t.Errorf("the pool has %q", got)
	}
	if err := d.Terminate(t.Context(), nodes[0].ID); err != nil {
		t.Fatal(err)
	}
	e.rival("GPU-b")
	if nodes, err := d.Launch(t.Context(), gpuLaunch("b", 1, 1)); !errors.Is(err, driver.ErrNoCapacity) || len(nodes) > 0 || len(gpusOf(t, d, "b")) > 0 {
		t.Errorf("nothing is left: %v, %v", nodes, err)
	}
}

// Programs that launch at the same time share the GPUs without a fault.
func TestOwnGPUsUnderContention(t *testing.T) {
	e := newGPUEngine(t)
	var all []string
	for i := range 6 {
		all = append(all, strconv.Itoa(i))
	}
	var wg sync.WaitGroup
	var drivers []*containerDriver
	for range 3 {
		drivers = append(drivers, e.open(Config{OwnGPUs: all}))
	}
	for i, d := range drivers {
		wg.Go(func() {
			if nodes, err := d.Launch(t.Context(), gpuLaunch("p"+strconv.Itoa(i), 2, 1)); err != nil || len(nodes) != 2 {
				t.Errorf("pool %d: %d nodes, %v", i, len(nodes), err)
			}
		})
	}
	wg.Wait()
	var got []string
	for i, d := range drivers {
		got = append(got, gpusOf(t, d, "p"+strconv.Itoa(i))...)
	}
	if slices.Sort(got); !slices.Equal(got, all) {
		t.Errorf("handed out: %q", got)
	}
}

// A launch that is repeated after a lost answer finds its node's GPUs used by the node itself.
func TestOwnGPUsOfAnAdoptedNode(t *testing.T) {
	e := newGPUEngine(t)
	d := e.open(Config{OwnGPUs: []string{"0"}})
	req := gpuLaunch("a", 1, 1)
	args, err := d.createArgs(req, req.Nodes[0], "image", []string{"0"}, req.Pool.Expires)
	if err != nil {
		t.Fatal(err)
	}
	do(t, d.engine.path, args...) // and the answer is lost
	if nodes, err := d.Launch(t.Context(), req); err != nil || len(nodes) != 1 || !slices.Equal(gpusOf(t, d, "a"), []string{"0"}) {
		t.Errorf("launched %v, %v", nodes, err)
	}
}

func TestGPUCount(t *testing.T) {
	for want, a := range map[int]accelerators.Accelerator{
		0: {}, 1: accelerators.Any(accelerators.Count(0.5)), 2: accelerators.H100(accelerators.AtLeast(2)), 4: accelerators.H100(accelerators.CountBetween(4, 8)),
	} {
		if got := gpuCount(a); got != want {
			t.Errorf("%v: %d GPUs, want %d", a, got, want)
		}
		if o := onlyOffer(t, newGPUEngine(t).open(Config{OwnGPUs: []string{"0", "1", "2", "3"}}), a); !a.Matches(o.Accelerator) || o.Rejected != "" {
			t.Errorf("%v: %+v", a, o)
		}
	}
}
