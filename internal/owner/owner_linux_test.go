package owner

import (
	"errors"
	"os"
	"testing"
	"time"
)

// A killed child that was not waited for is dead, although its process ID is still taken.
func TestZombie(t *testing.T) {
	_, cmd, who := start(t)
	if err := cmd.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	for deadline := time.Now().Add(time.Minute); ; time.Sleep(time.Millisecond) {
		alive, known := who.Alive()
		if !known {
			t.Fatal("known is false for a zombie")
		}
		if !alive {
			break
		}
		if time.Now().After(deadline) {
			t.Fatal("a zombie is alive")
		}
	}
	if _, err := os.Stat("/proc/" + who.String()[len(who.Host)+1:len(who.String())-len(who.Start)-1]); errors.Is(err, os.ErrNotExist) {
		t.Error("the process is not a zombie: its parent has waited for it")
	}
}

func TestStat(t *testing.T) {
	const rest = " 1 7 7 0 -1 4194304 99 0 0 0 0 0 0 0 20 0 1 0 8123 2000 100 18446744073709551615"
	for stat, want := range map[string]struct {
		start string
		is    presence
	}{
		"7 (sh) S" + rest:                {"8123", running},
		"7 (a) b (c) S" + rest:           {"8123", running},
		"7 (x) Z 1 2 3) R" + rest:        {"8123", running}, // a misleading name
		"7 (sh) Z" + rest:                {"0", gone},
		"7 (sh) S 1 7":                   {"0", hidden},
		"":                               {"0", hidden},
		"7 (sh)":                         {"0", hidden},
		"7 (two\nlines) D" + rest + "\n": {"8123", running},
	} {
		if start, is := parseStat([]byte(stat)); start != want.start || is != want.is {
			t.Errorf("%q: got %s, %v, want %v", stat, start, is, want)
		}
	}
}
