package ledger

import (
	"slices"
	"testing"
)

// A ledger names every program that has had its pool.
func TestHolders(t *testing.T) {
	d, err := OpenDir(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	l, err := d.Create(Header{Schema: Schema, Pool: "p-1", Owner: "a"}, []byte("key"))
	if err != nil {
		t.Fatal(err)
	}
	for _, who := range []string{"b", "c"} {
		if err := l.Close(false); err != nil {
			t.Fatal(err)
		}
		if l, _, err = d.Take("p-1", who, TakeOptions{}); err != nil {
			t.Fatal(err)
		}
	}
	defer l.Close(false)
	if got := l.Snapshot(); !slices.Equal(got.Holders, []string{"a", "b", "c"}) || got.Holder != "c" {
		t.Errorf("%v, the last is %s", got.Holders, got.Holder)
	}
}
