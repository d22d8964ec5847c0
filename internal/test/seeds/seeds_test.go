package seeds

import "testing"

func TestFromEnv(t *testing.T) {
	for text, want := range map[string][2]int{"": {1, 300}, "10000": {1, 10000}, "2501-5000": {2501, 2500}, "17-17": {17, 1}} {
		t.Setenv("GPUTRAIN_TEST_SEEDS", text)
		if first, count := FromEnv(t, "GPUTRAIN_TEST_SEEDS", 300); int(first) != want[0] || count != want[1] {
			t.Errorf("%q: %d seeds from %d on; want %d from %d on", text, count, first, want[1], want[0])
		}
	}
	for _, text := range []string{"0", "many", "-3", "5-", "5-4", "1-2-3", "-1"} {
		if first, count, err := parse(text); err == nil {
			t.Errorf("%q: %d seeds from %d on", text, count, first)
		}
	}
}
