package credential

import "strings"

// A keyMark is the first or the last line of a private key.
type keyMark struct {
	at, end int
	begins  bool
}

// keyMarks returns where private keys begin and end.
func keyMarks(s string) (marks []keyMark) {
	for i := 0; ; {
		k := strings.Index(s[i:], "-----")
		if k < 0 {
			return marks
		}
		i += k
		head := s[i:min(len(s), i+80)]
		end := -1
		for _, last := range []string{"PRIVATE KEY-----", "PRIVATE KEY BLOCK-----"} {
			if k := strings.Index(head, last); k >= 0 {
				end = k + len(last)
			}
		}
		switch {
		case end < 0:
			i += len("-----")
			continue
		case strings.HasPrefix(head, "-----BEGIN"):
			marks = append(marks, keyMark{i, i + end, true})
		case strings.HasPrefix(head, "-----END"):
			marks = append(marks, keyMark{i, i + end, false})
		default:
			i += len("-----")
			continue
		}
		i = marks[len(marks)-1].end
	}
}

// keys returns the lines of private keys in what is not written yet. Their first and last lines stay, and so does what is around the
// lines, such as the quotes of JSON.
func (w *Writer) keys(text string) (found []match) {
	s := text[w.done:]
	inside, from, until := w.key, 0, w.keyLeft
	lines := func(to int) {
		if inside {
			found = append(found, keyLines(s, from, min(to, until))...)
		}
	}
	for _, m := range keyMarks(s) {
		lines(m.at)
		found = append(found, match{m.at, m.end, m.end})
		inside, from, until = m.begins, m.end, m.end+longestKey
	}
	lines(len(s))
	for i := range found {
		found[i].from, found[i].begin, found[i].end = found[i].from+w.done, found[i].begin+w.done, found[i].end+w.done
	}
	return found
}

// keyLines returns the runs of base64 that are long enough for a line of a key, or end as its last line does.
func keyLines(p string, from, to int) (found []match) {
	for from < to {
		if !isBase64(p[from]) {
			from++
			continue
		}
		begin := from
		for from < len(p) && isBase64(p[from]) {
			from++
		}
		// Go's JSON, and most other formats, write a line end in a text as \n.
		if begin > 0 && p[begin-1] == '\\' && from > begin+1 {
			begin++
		}
		if from-begin >= 16 || from-begin >= 4 && p[from-1] == '=' {
			found = append(found, match{begin, begin, from})
		}
	}
	return found
}
