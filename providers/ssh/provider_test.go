package ssh

import (
	"errors"
	"fmt"
	"path/filepath"
	"strings"
	"testing"

	"github.com/gputrain/gputrain/providers/driver"
)

// open opens a driver with hosts at the addresses.
func open(t *testing.T, addrs ...string) driver.Driver {
	t.Helper()
	private, _ := keyPair(t, "")
	write(t, filepath.Join(home(t), "key"), private)
	var c Config
	for _, a := range addrs {
		c.Hosts = append(c.Hosts, Host{Addr: a, User: "u", KeyFile: "~/key", HostKey: fingerprint})
	}
	d, err := c.Open(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	return d
}

func nodes(from, to int) (out []driver.NodeRequest) {
	for rank := from; rank < to; rank++ {
		out = append(out, driver.NodeRequest{Rank: rank, Name: fmt.Sprint("p-", rank)})
	}
	return out
}

func launch(t *testing.T, d driver.Driver, n ...driver.NodeRequest) []string {
	t.Helper()
	got, err := d.Launch(t.Context(), driver.Launch{Nodes: n})
	if err != nil {
		t.Fatal(err)
	}
	return ids(got)
}

func ids(got []driver.Instance) (out []string) {
	for _, i := range got {
		out = append(out, i.ID)
	}
	return out
}

func offered(t *testing.T, d driver.Driver) (out []string) {
	t.Helper()
	for o, err := range d.Offers(t.Context(), driver.Query{}) {
		if err != nil {
			t.Fatal(err)
		}
		if addr, _, _ := strings.Cut(o.ID, "#"); o.Host != addr {
			t.Errorf("%s is at host %q", o.ID, o.Host)
		}
		if usd, known := o.HourlyUSD.USD(); usd != 0 || !known || o.Available != 1 || o.InstanceType != "host" {
			t.Errorf("odd offer %+v", o)
		}
		out = append(out, o.ID)
	}
	return out
}

func expect(t *testing.T, what string, got []string, want ...string) {
	t.Helper()
	if fmt.Sprint(got) != fmt.Sprint(want) {
		t.Errorf("%s: got %q, want %q", what, got, want)
	}
}

func TestLifeOfAHost(t *testing.T) {
	d := open(t, "a", "b:2222", "c")
	expect(t, "offers", offered(t, d), "a:22", "b:2222", "c:22")

	got, err := d.Launch(t.Context(), driver.Launch{Nodes: nodes(0, 2)})
	if err != nil {
		t.Fatal(err)
	}
	expect(t, "launched", ids(got), "a:22", "b:2222")
	b := got[1]
	if b.Name != "p-1" || b.Rank != 1 || b.State != driver.InstanceRunning || b.SSH.Addr != "b:2222" || b.PrivateAddr != "b" || b.PublicAddr != "b" {
		t.Errorf("odd instance %+v", b)
	}
	expect(t, "offers with two taken", offered(t, d), "c:22")

	for range 2 { // the second is a repetition
		if err := d.Terminate(t.Context(), "a:22", "unheard of"); err != nil {
			t.Fatal(err)
		}
	}
	found, err := d.Describe(t.Context(), "b:2222", "a:22", "unheard of")
	if err != nil {
		t.Fatal(err)
	}
	for i, want := range []driver.InstanceState{driver.InstanceRunning, driver.InstanceTerminated, driver.InstanceTerminated} {
		if found[i].State != want {
			t.Errorf("%s is %v, want %v", found[i].ID, found[i].State, want)
		}
	}
	if left, err := d.List(t.Context(), "p"); len(left) != 0 || err != nil {
		t.Errorf("List: %v, %v", left, err)
	}
	expect(t, "replacement goes to a fresh host", launch(t, d, nodes(0, 1)...), "c:22")
	expect(t, "then to one given back", func() []string { d.Terminate(t.Context(), "c:22"); return launch(t, d, nodes(0, 2)...) }(), "a:22", "c:22")
}

func TestLaunchTakesTheOfferedHostFirst(t *testing.T) {
	d := open(t, "a", "b", "c")
	got, err := d.Launch(t.Context(), driver.Launch{Offer: driver.Offer{ID: "b:22"}, Nodes: nodes(0, 3)})
	if err != nil {
		t.Fatal(err)
	}
	expect(t, "launched", ids(got), "b:22", "a:22", "c:22")
}

func TestMoreNodesThanHosts(t *testing.T) {
	d := open(t, "a", "b")
	got, err := d.Launch(t.Context(), driver.Launch{Nodes: nodes(0, 3)})
	expect(t, "those there are", ids(got), "a:22", "b:22")
	if !errors.Is(err, driver.ErrNoCapacity) || !strings.Contains(err.Error(), "3 nodes") || !strings.Contains(err.Error(), "2 hosts") {
		t.Errorf("got %v, want ErrNoCapacity with both counts", err)
	}
}

func TestOneHostTwice(t *testing.T) {
	d := open(t, "a", "a:22", "a")
	expect(t, "offers", offered(t, d), "a:22", "a:22#2", "a:22#3")
	expect(t, "launched", launch(t, d, nodes(0, 3)...), "a:22", "a:22#2", "a:22#3")
}

// Another program's driver takes over the hosts that it describes, and gives none of them to a
// second node.
func TestTakeUp(t *testing.T) {
	d := open(t, "a", "b")
	found, err := d.Describe(t.Context(), "a:22")
	if err != nil || found[0].State != driver.InstanceRunning {
		t.Fatalf("%+v, %v", found, err)
	}
	expect(t, "launched", launch(t, d, nodes(1, 2)...), "b:22")
}

func TestKeepCache(t *testing.T) {
	for _, keep := range []bool{false, true} {
		d := &sshDriver{keepCache: keep}
		if d.Capabilities().KeepCache != keep {
			t.Errorf("KeepCache is %v", !keep)
		}
	}
	if c := (&sshDriver{}).Capabilities(); !c.Adopts || !c.Free || c.HostKeys != driver.HostKeyConfigured {
		t.Errorf("capabilities %+v", c)
	}
}
