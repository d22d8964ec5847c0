package steps

import (
	"fmt"
	"math"
	"reflect"
	"strings"
	"testing"
)

func TestParse(t *testing.T) {
	type values = map[string]float64
	for line, want := range map[string]*Step{
		"gputrain: step=120/1000 loss=2.31 rank=3":                    {N: 120, Of: 1000, Rank: 3, Values: values{"loss": 2.31}},
		"gputrain: step=0":                                            {Rank: -1},
		"gputrain: loss=1e-3 step=7 lr=-0.5":                          {N: 7, Rank: -1, Values: values{"loss": 1e-3, "lr": -0.5}},
		"[default0]:gputrain: step=5":                                 {N: 5, Rank: -1},
		"[trainer12]: gputrain: step=5":                               {N: 5, Rank: -1},
		"[1,0]<stdout>:gputrain: step=5":                              {N: 5, Rank: 0},
		"[1,7]<stderr>:gputrain: step=5/6":                            {N: 5, Of: 6, Rank: 7},
		"[prterun-a-17@1,2]<stdout>: gputrain: step=5":                {N: 5, Rank: 2},
		"[1,2]<stdout>:[default0]:gputrain: step=5 rank=19":           {N: 5, Rank: 19},
		"gputrain: step=5 loss=abc =3 x acc=0.5":                      {N: 5, Rank: -1, Values: values{"acc": 0.5}},
		"gputrain: step=5 loss=inf z=-Inf":                            {N: 5, Rank: -1, Values: values{"loss": math.Inf(1), "z": math.Inf(-1)}},
		"gputrain: step=5/0":                                          {N: 5, Rank: -1},
		"gputrain: step=5/many":                                       {N: 5, Rank: -1},
		"gputrain: step=5/-1 rank=-3":                                 {N: 5, Rank: -1},
		"gputrain: step=5 a\x1b[31m=3":                                {N: 5, Rank: -1},
		"gputrain: step=5 rank=99999999999":                           {N: 5, Rank: -1},
		"gputrain: step=5 " + strings.Repeat("n", mostName+1) + "=1":  {N: 5, Rank: -1},
		"gputrain: step=9223372036854775808":                          nil,
		"gputrain: step=-1":                                           nil,
		"gputrain: step=1.5":                                          nil,
		"gputrain: step=":                                             nil,
		"gputrain: loss=3":                                            nil,
		"gputrain:step=3":                                             nil,
		"+ echo gputrain: step=3":                                     nil,
		"[1,0]<stdout":                                                nil,
		"[x":                                                          nil,
		"":                                                            nil,
		"gputrain: step=5 " + strings.Repeat("x ", longestLine):       nil,
		"[" + strings.Repeat("a", 100) + "]:gputrain: step=5 loss=1 ": nil,
	} {
		got, ok := Parse(line)
		if ok != (want != nil) || ok && !reflect.DeepEqual(got, *want) {
			t.Errorf("%.80q: %+v, %t", line, got, ok)
		}
	}
	if s, ok := Parse("gputrain: step=5 loss=nan"); !ok || !math.IsNaN(s.Values["loss"]) {
		t.Errorf("NaN: %+v", s)
	}
	var many strings.Builder
	for i := range 2 * mostValues {
		fmt.Fprintf(&many, " v%d=%d", i, i)
	}
	if s, ok := Parse("gputrain: step=5" + many.String()); !ok || len(s.Values) != mostValues {
		t.Errorf("%d values", len(s.Values))
	}
}

func TestParseFile(t *testing.T) {
	for content, want := range map[string]*Step{
		"120/1000 loss=2.31\n":                   {N: 120, Of: 1000, Rank: 4, Values: map[string]float64{"loss": 2.31}},
		"120":                                    {N: 120, Rank: 4},
		"120 rank=2 step=7":                      {N: 120, Rank: 2},
		"":                                       nil,
		"loss=2":                                 nil,
		"step=7":                                 nil,
		"12 " + strings.Repeat("x", longestLine): nil,
	} {
		got, ok := ParseFile(content, 4)
		if ok != (want != nil) || ok && !reflect.DeepEqual(got, *want) {
			t.Errorf("%.80q: %+v, %t", content, got, ok)
		}
	}
}

func TestBounded(t *testing.T) {
	many := Step{N: -1, Of: -1, Rank: mostRank + 1, Values: map[string]float64{"a b": 1, "": 1}}
	for i := range 2 * mostValues {
		many.Values[fmt.Sprint("v", i)] = 1
	}
	if b := many.Bounded(); b.N != 0 || b.Of != 0 || b.Rank != -1 || len(b.Values) > mostValues || b.Values["a b"] != 0 || b.Values[""] != 0 || len(many.Values) != 2*mostValues+2 {
		t.Errorf("%+v", b)
	}
}

// The steps in a stream are the same in whatever pieces it comes.
func TestWriterFindsLinesInPieces(t *testing.T) {
	long := strings.Repeat("y", 3*longestLine)
	text := "hello\ngputrain: step=1\r\n[default0]:gputrain: step=2/9 loss=0.5\n" + long + "gputrain: step=3\n" +
		" 5%|##\r 10%|###\rgputrain: step=4\n" + long + "\rgputrain: step=5\r\n\n\ngputrain: step=6"
	want := []int64{1, 2, 4, 5, 6}
	for _, size := range []int{1, 2, 3, 7, 64, 1000, len(text)} {
		var got []int64
		w := Writer{Found: func(s Step) { got = append(got, s.N) }}
		for rest := text; rest != ""; {
			n := min(size, len(rest))
			if n, err := w.Write([]byte(rest[:n])); err != nil || n != min(size, len(rest)) {
				t.Fatal(n, err)
			}
			rest = rest[n:]
			if len(w.held) > longestLine+1 {
				t.Fatalf("it holds %d bytes", len(w.held))
			}
		}
		w.Flush()
		if !reflect.DeepEqual(got, want) {
			t.Errorf("in pieces of %d bytes: %v", size, got)
		}
	}
}

// mpirun reads the text of a line and its end apart, and may print the text of another process between them.
func TestWriterFindsStepsOfJoinedLines(t *testing.T) {
	var got []Step
	w := Writer{Found: func(s Step) { got = append(got, s) }}
	w.Write([]byte("gputrain: step=7 rank=0gputrain: step=8/9 rank=1gputrain: step=7 rank=2\n\n\necho gputrain: step=9gputrain: step=9\n"))
	if want := []Step{{N: 7}, {N: 8, Of: 9, Rank: 1}, {N: 7, Rank: 2}}; !reflect.DeepEqual(got, want) {
		t.Errorf("%+v, want %+v", got, want)
	}
}

// A secret is in no name of a value.
func TestWriterCleansLines(t *testing.T) {
	var got Step
	w := Writer{Found: func(s Step) { got = s }, Clean: func(s string) string { return strings.ReplaceAll(s, "sesame", "[redacted]") }}
	w.Write([]byte("gputrain: step=3 sesame=4\n"))
	if got.N != 3 || got.Values["sesame"] != 0 {
		t.Errorf("%+v", got)
	}
}

func FuzzWriter(f *testing.F) {
	f.Add("gputrain: step=1\n[1,0]<stdout>:gputrain: step=2 loss=nan\r\n", 3)
	f.Add("[a]:[b]<std>:gputrain: \r\r\n", 1)
	f.Fuzz(func(t *testing.T, text string, size int) {
		size = max(size, 1)
		found := func(size int) (all []string) {
			w := Writer{Found: func(s Step) {
				if s.N < 0 || s.Of < 0 || s.Rank < -1 || s.Rank > mostRank || len(s.Values) > mostValues {
					t.Errorf("%+v", s)
				}
				all = append(all, fmt.Sprint(s))
			}}
			for rest := []byte(text); len(rest) > 0; rest = rest[min(size, len(rest)):] {
				w.Write(rest[:min(size, len(rest))])
			}
			w.Flush()
			return all
		}
		if whole, pieces := found(len(text)+1), found(size); !reflect.DeepEqual(whole, pieces) {
			t.Errorf("%q: %q in pieces, %q as a whole", text, pieces, whole)
		}
		ParseFile(text, size)
	})
}
