// Package steps reads how far programs have come: lines that they print and files that they write.
package steps

import (
	"maps"
	"slices"
	"strconv"
	"strings"
	"unicode"
	"unicode/utf8"
)

// A Step is a report of a program's progress.
type Step struct {
	// N is the step, and Of how many there are, or 0.
	N, Of int64
	// Rank is the process that reports, or -1 if it does not say.
	Rank int
	// Values are what else was reported. A value may be NaN or infinite, as a loss can be.
	Values map[string]float64
}

const (
	// mark begins the line of a step.
	mark = "gputrain: "
	// longestLine bounds a line with a step, and the content of a step file. A longer one is no step.
	longestLine = 4 << 10
	// A step has mostValues values at most, with names of mostName bytes at most. The rest is dropped.
	mostValues, mostName = 64, 64
	// mostRank is more than the processes of any training.
	mostRank = 1 << 24
)

// Parse reads a line such as "gputrain: step=120/1000 loss=2.31 rank=3", also behind the prefix of torchrun,
// "[default0]:", or of mpirun, "[1,3]<stdout>:", which says the rank. It reports false for any other line. A word that is
// no name=number is skipped.
func Parse(line string) (Step, bool) {
	if len(line) > longestLine {
		return Step{}, false
	}
	line, rank := cutPrefix(line)
	line, found := strings.CutPrefix(line, mark)
	if !found {
		return Step{}, false
	}
	return parse(line, "", rank)
}

// ParseFile reads the content of a step file, such as "120/1000 loss=2.31".
func ParseFile(content string, rank int) (Step, bool) {
	if len(content) > longestLine {
		return Step{}, false
	}
	first, rest, _ := strings.Cut(strings.TrimSpace(content), " ")
	return parse(rest, first, rank)
}

// cutPrefix removes the prefixes that launchers put before a line, and returns the rank in the last of mpirun's, or -1.
func cutPrefix(line string) (rest string, rank int) {
	rank = -1
	for {
		line = strings.TrimLeft(line, " \t")
		inner, rest, found := strings.Cut(line, "]")
		if !found || !strings.HasPrefix(inner, "[") || len(inner) > mostName {
			return line, rank
		}
		if after, found := strings.CutPrefix(rest, "<std"); found {
			if _, rest, found = strings.Cut(after, ">"); !found {
				return line, rank
			}
			if _, number, found := cutLast(inner, ","); found {
				rank = parseRank(number)
			}
		}
		if line, found = strings.CutPrefix(rest, ":"); !found {
			return line, rank
		}
	}
}

func cutLast(s, sep string) (before, after string, found bool) {
	i := strings.LastIndex(s, sep)
	if i < 0 {
		return s, "", false
	}
	return s[:i], s[i+len(sep):], true
}

// parse reads the words of a step. The step itself is in at, or in a word of them if at is empty.
func parse(words, at string, rank int) (Step, bool) {
	s := Step{Rank: rank}
	for word := range strings.FieldsSeq(words) {
		name, value, found := strings.Cut(word, "=")
		switch {
		case !found:
		case name == "step":
			if at == "" {
				at = value
			}
		case name == "rank":
			if r := parseRank(value); r >= 0 {
				s.Rank = r
			}
		default:
			s.add(name, value)
		}
	}
	n, of, found := strings.Cut(at, "/")
	var err error
	if s.N, err = strconv.ParseInt(n, 10, 64); err != nil || s.N < 0 {
		return Step{}, false
	}
	if found {
		s.Of, _ = strconv.ParseInt(of, 10, 64)
		s.Of = max(s.Of, 0) // it is not known
	}
	return s, true
}

// parseRank returns -1 for what is no rank.
func parseRank(text string) int {
	rank, err := strconv.Atoi(text)
	if err != nil || rank < 0 || rank > mostRank {
		return -1
	}
	return rank
}

func (s *Step) add(name, text string) {
	if len(s.Values) == mostValues || !isName(name) {
		return
	}
	value, err := strconv.ParseFloat(text, 64)
	if err != nil {
		return
	}
	if s.Values == nil {
		s.Values = map[string]float64{}
	}
	s.Values[name] = value
}

// isName reports whether a name of a value can be shown as it is.
func isName(name string) bool {
	return name != "" && len(name) <= mostName && utf8.ValidString(name) && !strings.ContainsFunc(name, func(c rune) bool { return !unicode.IsGraphic(c) || unicode.IsSpace(c) })
}

// Bounded returns a copy of a step within the bounds that Parse keeps: for steps that do not come from Parse.
func (s Step) Bounded() Step {
	b := Step{N: max(s.N, 0), Of: max(s.Of, 0), Rank: s.Rank}
	if b.Rank < 0 || b.Rank > mostRank {
		b.Rank = -1
	}
	if len(s.Values) > mostValues {
		s.Values = maps.Clone(s.Values)
		for _, name := range slices.Sorted(maps.Keys(s.Values))[mostValues:] {
			delete(s.Values, name)
		}
	}
	for name, value := range s.Values {
		if !isName(name) {
			continue
		}
		if b.Values == nil {
			b.Values = make(map[string]float64, len(s.Values))
		}
		b.Values[name] = value
	}
	return b
}
