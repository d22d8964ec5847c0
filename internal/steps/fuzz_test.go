package steps

import (
	"strings"
	"testing"
)

// A step, of a line or of a file, is within its bounds.
func FuzzParse(f *testing.F) {
	f.Add("gputrain: step=120/1000 loss=2.31 rank=3", 3)
	f.Add("[1,3]<stdout>:gputrain: step=1e9 =5 a=inf", -1)
	f.Add(" 120/1000 loss=nan\n", 0)
	f.Add("9223372036854775808/-1 x=1", 1<<30)
	f.Fuzz(func(t *testing.T, text string, rank int) {
		check := func(s Step, ok bool, most int) {
			if !ok {
				return
			}
			if s.N < 0 || s.Of < 0 || s.Rank < -1 || s.Rank > max(mostRank, most) || len(s.Values) > mostValues || len(text) > longestLine {
				t.Errorf("%+v", s)
			}
			for name := range s.Values {
				if len(name) > mostName || strings.ContainsAny(name, "\x1b\n") {
					t.Errorf("%q", name)
				}
			}
		}
		s, ok := Parse(text)
		check(s, ok, 0)
		s, ok = ParseFile(text, max(rank, -1))
		check(s, ok, rank)
	})
}
