package container

import (
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/gputrain/gputrain/providers/driver"
)

// TestGolden compares the labels of a pool's things with those of other versions.
// TestCreateArgs compares a node's.
func TestGolden(t *testing.T) {
	now := time.Date(2030, 1, 2, 3, 4, 5, 0, time.UTC)
	pool := driver.PoolInfo{ID: "p7x2", Name: "my pool", Owner: "my-host.lan/4711/1700000000", Lease: 90500 * time.Millisecond, Expires: time.Date(2100, 1, 2, 3, 4, 5, 0, time.UTC)}
	d := &containerDriver{}
	const want = "--label gputrain.pool=p7x2 --label gputrain.owner=my-host.lan/4711/1700000000 --label gputrain.created=2030-01-02T03:04:05Z" +
		" --label gputrain.lease=90.5 --label gputrain.expires=2100-01-02T03:04:05Z"
	if got := strings.Join(d.labelArgs(pool, now), " "); got != want {
		t.Errorf("got  %s\nwant %s", got, want)
	}
	if got := strings.Join(d.labelArgs(driver.PoolInfo{ID: "train-b"}, now), " "); got != "--label gputrain.pool=train-b --label gputrain.owner= --label gputrain.created=2030-01-02T03:04:05Z" {
		t.Errorf("without an owner, lease or TTL: %s", got)
	}
	if all, one := labelFilter(""), labelFilter("p7x2"); all != "label=gputrain.pool" || one != "label=gputrain.pool=p7x2" {
		t.Errorf("filters are %s and %s", all, one)
	}
	labels := map[string]string{}
	for _, arg := range d.labelArgs(pool, now) {
		if name, value, ok := strings.Cut(arg, "="); ok {
			labels[name] = value
		}
	}
	got := resource("network", "n1", "gputrain-p7x2", labels)
	if want := (driver.Resource{
		Provider: providerName, Kind: "network", ID: "n1", Name: "gputrain-p7x2", HourlyUSD: driver.USD(0),
		Pool: pool.ID, Owner: pool.Owner, Created: now, Lease: pool.Lease, Expires: pool.Expires,
	}); !reflect.DeepEqual(got, want) {
		t.Errorf("got  %+v\nwant %+v", got, want)
	}
}
