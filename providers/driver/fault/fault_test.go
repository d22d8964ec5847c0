package fault

import "testing"

func TestString(t *testing.T) {
	for f, want := range map[Fault]string{
		{}:                              "failed before it was done",
		{Kind: RateLimited}:             "rate limited before it was done",
		{Kind: Missing, After: true}:    "missing after it was done",
		{Kind: Redirected, Status: 302}: "redirected before it was done",
	} {
		if got := f.String(); got != want {
			t.Errorf("%q; want %q", got, want)
		}
	}
	if len(kindNames) != int(Missing)+1 {
		t.Errorf("%d names of kinds", len(kindNames))
	}
}
