package transfer

import (
	"strings"
	"testing"
)

// What a node lists is in number and in names what may be listed.
func FuzzContents(f *testing.F) {
	f.Add("//81a4 5 1700000000.000000000 ./a\n//41ed 4096 1 ./a/b\n//a1ff 3 1 ./a/c\n")
	f.Add("//81a4 -5 x ./../x\n")
	f.Add("//81a4 5 1 ./a\x00b")
	f.Fuzz(func(t *testing.T, text string) {
		found, err := readContents(strings.NewReader(text), Limits{Files: 3})
		if len(found) > 3 || err != nil && len(err.Error()) > 3*nameBytes {
			t.Errorf("%d files, %.300v", len(found), err)
		}
		for _, c := range found {
			if _, err := nodeName(c.Name); err != nil || c.Size < 0 {
				t.Errorf("%+v: %v", c, err)
			}
		}
	})
}

func FuzzTargets(f *testing.F) {
	f.Add("./a\x00b\x00./c\x00../d\x00")
	f.Add("./a\x00")
	f.Add("a\x00\x00b\x00\x00c\x00\x00d\x00\x00")
	f.Fuzz(func(t *testing.T, text string) {
		targets, err := readTargets(strings.NewReader(text), 2)
		if len(targets) > 3 || err == nil && strings.Count(text, "\x00")%2 != 0 {
			t.Errorf("%q, %v", targets, err)
		}
	})
}
