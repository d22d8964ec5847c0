package scheduler

import (
	"slices"
	"testing"
)

// Units have a short text, which is all that ParseUnits accepts.
func TestUnitsAsText(t *testing.T) {
	all := make([]int, MostUnits)
	for i := range all {
		all[i] = i
	}
	for _, units := range [][]int{{0}, {1, 3}, {191}, {0, 191}, all} {
		if text := FormatUnits(units); !slices.Equal(ParseUnits(text), units) || len(text) > 39 {
			t.Errorf("%v: %s: %v", units, text, ParseUnits(text))
		}
	}
	if text := FormatUnits([]int{0, 3}); text != "9" {
		t.Error(text)
	}
}

func FuzzParseUnits(f *testing.F) {
	for _, text := range []string{"", "0", "9", "-1", "09", "A", "+1", "0x1", "1_0", "vvvvvvvvvvvvvvvvvvvvvvvvvvvvvvvvvvvvvvv"} {
		f.Add(text)
	}
	f.Fuzz(func(t *testing.T, text string) {
		units := ParseUnits(text)
		if units != nil && (FormatUnits(units) != text || slices.Max(units) >= MostUnits || !slices.IsSorted(units)) {
			t.Errorf("%q: %v", text, units)
		}
	})
}

// Every slot has units, and no two slots share one while there are enough.
func TestUnitsOfSlots(t *testing.T) {
	for units := range 17 {
		for slots := 1; slots < 20; slots++ {
			used := map[int]int{}
			for slot := range slots {
				lo, hi := slotUnits(slot, slots, units)
				if lo == hi && units > 0 || lo < 0 || hi > units || (hi-lo == units) != (slots == 1 || units < 2) {
					t.Errorf("%d units, slot %d of %d: %d to %d", units, slot, slots, lo, hi)
				}
				for i := lo; i < hi; i++ {
					used[i]++
				}
			}
			if len(used) != units {
				t.Errorf("%d units, %d slots: only %v are used", units, slots, used)
			}
			for _, most := range used {
				if slots <= units && most > 1 || most > (slots+units-1)/units {
					t.Errorf("%d units, %d slots: shared as %v", units, slots, used)
				}
			}
		}
	}
}
